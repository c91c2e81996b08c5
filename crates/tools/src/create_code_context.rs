//! `create_code_context`: starts an interpreter in which pieces of code share their definitions.

use std::collections::BTreeMap;

use garret_core::Language;
use garret_workspace::{ContextRequest, ContextStatus, Workspace};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::arguments::unless_empty;
use crate::tool::{Tool, ToolOutput, ToolResult};
use crate::{Annotations, AnswerLimits};

pub(crate) struct CreateCodeContextTool;

#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Arguments {
    language: Language,
    #[serde(default, deserialize_with = "unless_empty")]
    cwd: Option<String>,
    env: Option<BTreeMap<String, String>>,
}

impl Tool for CreateCodeContextTool {
    type Arguments = Arguments;
    type Data = ContextStatus;

    const NAME: &'static str = "create_code_context";
    const SHORT: &'static str = "create_context";
    const TITLE: &'static str = "Make a context for code";
    const DESCRIPTION: &'static str = "Starts an interpreter that keeps variables and imports between pieces of code.";
    const ANNOTATIONS: Annotations = Annotations::CREATES;

    async fn run(workspace: &Workspace, arguments: Arguments, _limits: &AnswerLimits) -> ToolResult<Self> {
        let request = ContextRequest {
            cwd: arguments.cwd.unwrap_or_default(),
            env: arguments.env.unwrap_or_default(),
            ..ContextRequest::new(arguments.language)
        };
        let context = workspace.create_code_context(request).await?;
        let text = format!("the context `{}` runs {}", context.id, context.language.as_str());
        Ok(ToolOutput::new(text, context))
    }
}
