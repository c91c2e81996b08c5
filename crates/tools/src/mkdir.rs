//! `mkdir`: makes a directory.

use garret_core::path::quote;
use garret_workspace::{MakeDirResult, Workspace};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::tool::{Tool, ToolOutput, ToolResult};
use crate::{Annotations, AnswerLimits};

pub(crate) struct MkdirTool;

#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Arguments {
    path: String,
    /// Also make directories above, and accept one that exists; default true.
    parents: Option<bool>,
}

impl Tool for MkdirTool {
    type Arguments = Arguments;
    type Data = MakeDirResult;

    const NAME: &'static str = "mkdir";
    const SHORT: &'static str = "mkdir";
    const TITLE: &'static str = "Make a directory";
    const DESCRIPTION: &'static str = "Makes an empty directory. Writing a file creates missing directories.";
    const ANNOTATIONS: Annotations = Annotations::ENSURES;

    async fn run(workspace: &Workspace, arguments: Arguments, _limits: &AnswerLimits) -> ToolResult<Self> {
        let parents = arguments.parents.unwrap_or(true);
        let made = workspace.make_dir(&arguments.path, parents).await?;
        let path = quote(if made.path.is_empty() { "/" } else { &made.path });
        let text = if made.created {
            format!("made the directory {path}")
        } else {
            format!("the directory {path} exists already")
        };
        Ok(ToolOutput::new(text, made))
    }
}
