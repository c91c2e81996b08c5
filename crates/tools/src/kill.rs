//! `kill`: ends a process in the background.

use garret_workspace::{ProcessStatus, Workspace};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::processes::describe_state;
use crate::tool::{Tool, ToolOutput, ToolResult};
use crate::{Annotations, AnswerLimits};

pub(crate) struct KillTool;

#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Arguments {
    id: String,
}

impl Tool for KillTool {
    type Arguments = Arguments;
    type Data = ProcessStatus;

    const NAME: &'static str = "kill";
    const SHORT: &'static str = "kill";
    const TITLE: &'static str = "End a process";
    const DESCRIPTION: &'static str = "Ends a background process with everything that it started.";
    const ANNOTATIONS: Annotations = Annotations::REPLACES;

    async fn run(workspace: &Workspace, arguments: Arguments, _limits: &AnswerLimits) -> ToolResult<Self> {
        let process = workspace.kill(&arguments.id).await?;
        Ok(ToolOutput::new(
            format!("{} {}", process.id, describe_state(&process)),
            process,
        ))
    }
}
