//! `start`: starts a command in the background.

use std::collections::BTreeMap;

use garret_core::path::quote;
use garret_workspace::{ProcessStatus, RunRequest, Workspace};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::arguments::unless_empty;
use crate::command_request::{parse_seconds, shell_request};
use crate::tool::{Tool, ToolOutput, ToolResult};
use crate::{Annotations, AnswerLimits};

pub(crate) struct StartTool;

#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Arguments {
    command: String,
    #[serde(default, deserialize_with = "unless_empty")]
    cwd: Option<String>,
    env: Option<BTreeMap<String, String>>,
    /// Time limit in seconds; default none.
    timeout_s: Option<f64>,
}

impl Tool for StartTool {
    type Arguments = Arguments;
    type Data = ProcessStatus;

    const NAME: &'static str = "start";
    const SHORT: &'static str = "start";
    const TITLE: &'static str = "Start a process in the background";
    const DESCRIPTION: &'static str = "Starts a command in the background, such as a server, and answers with its id. It sees later changes of the files, and its own changes are kept.";
    const ANNOTATIONS: Annotations = Annotations::CHANGES;

    async fn run(workspace: &Workspace, arguments: Arguments, _limits: &AnswerLimits) -> ToolResult<Self> {
        let request = RunRequest {
            timeout: parse_seconds("timeout_s", arguments.timeout_s)?,
            ..shell_request(arguments.command, arguments.cwd, arguments.env)
        };
        let started = workspace.start(request).await?;
        let text = format!("started {}: {}", started.id, quote(&started.command));
        Ok(ToolOutput::new(text, started))
    }
}
