//! `rm`: removes a file, a link or a directory.

use garret_core::Precondition;
use garret_core::path::quote;
use garret_workspace::{RemoveOptions, RemoveResult, Workspace};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::arguments::unless_empty;
use crate::tool::{Tool, ToolOutput, ToolResult};
use crate::{Annotations, AnswerLimits};

pub(crate) struct RmTool;

#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Arguments {
    path: String,
    /// Remove a directory with everything in it.
    recursive: Option<bool>,
    /// Only if it still has this version.
    #[serde(default, deserialize_with = "unless_empty")]
    if_version: Option<String>,
}

impl Tool for RmTool {
    type Arguments = Arguments;
    type Data = RemoveResult;

    const NAME: &'static str = "rm";
    const SHORT: &'static str = "rm";
    const TITLE: &'static str = "Remove a file or directory";
    const DESCRIPTION: &'static str = "Removes a file, a link (not its target) or an empty directory.";
    const ANNOTATIONS: Annotations = Annotations::REPLACES;

    async fn run(workspace: &Workspace, arguments: Arguments, _limits: &AnswerLimits) -> ToolResult<Self> {
        let options = RemoveOptions {
            recursive: arguments.recursive.unwrap_or(false),
            precondition: Precondition::from_argument(arguments.if_version.as_deref()),
        };
        let removed = workspace.remove(&arguments.path, options).await?;
        Ok(ToolOutput::new(format!("removed {}", quote(&removed.path)), removed))
    }
}
