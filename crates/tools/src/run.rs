//! `run`: runs a command in the foreground.

use std::collections::BTreeMap;

use garret_core::EffectsMode;
use garret_workspace::{RunRequest, RunResult, Workspace};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::arguments::unless_empty;
use crate::command_request::{parse_seconds, shell_request};
use crate::output_room::OutputRoom;
use crate::run_text;
use crate::tool::{Tool, ToolOutput, ToolResult};
use crate::{Annotations, AnswerLimits};

pub(crate) struct RunTool;

#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Arguments {
    /// Shell command line.
    command: String,
    #[serde(default, deserialize_with = "unless_empty")]
    cwd: Option<String>,
    #[serde(default, deserialize_with = "unless_empty")]
    stdin: Option<String>,
    env: Option<BTreeMap<String, String>>,
    /// Time limit in seconds.
    timeout_s: Option<f64>,
    /// Most bytes shown; default 8000.
    max_output_bytes: Option<u64>,
    /// Name of a shell that keeps directory, variables and functions between calls; made on first use.
    #[serde(default, deserialize_with = "unless_empty")]
    shell: Option<String>,
    /// Discard its changes to the files.
    discard: Option<bool>,
    /// Also return merged output and guards.
    details: Option<bool>,
}

impl Tool for RunTool {
    type Arguments = Arguments;
    type Data = RunResult;

    const NAME: &'static str = "run";
    const SHORT: &'static str = "bash";
    const TITLE: &'static str = "Run a command";
    const DESCRIPTION: &'static str = "Runs a shell command in a sandbox on the files, at /workspace, and waits for its end. All its changes to files are one change that undo takes back. Its processes end with it: use `start` for servers. To read, search and edit, prefer the file tools.";
    const ANNOTATIONS: Annotations = Annotations::CHANGES;

    async fn run(workspace: &Workspace, arguments: Arguments, limits: &AnswerLimits) -> ToolResult<Self> {
        let room = OutputRoom::for_call(arguments.max_output_bytes, workspace, limits);
        let request = RunRequest {
            stdin: arguments.stdin.map(Into::into),
            shell: arguments.shell,
            timeout: parse_seconds("timeout_s", arguments.timeout_s)?,
            effects: arguments
                .discard
                .filter(|discard| *discard)
                .map(|_| EffectsMode::Discard),
            max_output: Some(room.bytes as u64),
            ..shell_request(arguments.command, arguments.cwd, arguments.env)
        };
        let result = workspace.run(request).await?;
        let text = run_text::format_answer(&result, room);
        let is_detailed = arguments.details.unwrap_or(false);
        let data = if is_detailed { result.with_details() } else { result };
        Ok(ToolOutput::new(text, data))
    }
}
