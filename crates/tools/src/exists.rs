//! `exists`: tells whether an entry is at a path.

use garret_core::path::quote;
use garret_workspace::{Existence, Workspace};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::point::{self, text_or_number};
use crate::text::kind_name;
use crate::tool::{Tool, ToolOutput, ToolResult};
use crate::{Annotations, AnswerLimits};

pub(crate) struct ExistsTool;

/// The path to look for.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Arguments {
    path: String,
    #[serde(default, deserialize_with = "text_or_number")]
    at: Option<String>,
}

impl Tool for ExistsTool {
    type Arguments = Arguments;
    type Data = Existence;

    const NAME: &'static str = "exists";
    const SHORT: &'static str = "exists";
    const TITLE: &'static str = "Check whether a path exists";
    const DESCRIPTION: &'static str = "Tells whether a path exists.";
    const ANNOTATIONS: Annotations = Annotations::READS;

    async fn run(workspace: &Workspace, arguments: Arguments, _limits: &AnswerLimits) -> ToolResult<Self> {
        let viewed = point::view_at(workspace, arguments.at.as_deref()).await?;
        let found = viewed.exists(&arguments.path).await?;
        let shown = quote(&arguments.path);
        let text = match found.r#type {
            Some(kind) => format!("yes: {shown} is a {}", kind_name(kind)),
            None => format!("no: {shown} does not exist"),
        };
        Ok(ToolOutput::new(text, found))
    }
}
