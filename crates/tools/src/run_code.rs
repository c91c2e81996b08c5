//! `run_code`: runs a piece of code by itself.

use std::collections::BTreeMap;

use garret_core::{EffectsMode, Language};
use garret_workspace::{CodeRequest, CodeResult, Workspace};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::arguments::unless_empty;
use crate::command_request::parse_seconds;
use crate::output_room::OutputRoom;
use crate::tool::{Tool, ToolOutput, ToolResult};
use crate::{Annotations, AnswerLimits, code_text};

pub(crate) struct RunCodeTool;

#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Arguments {
    language: Language,
    /// The value of the last expression comes back (not for bash); top-level `await` works.
    code: String,
    #[serde(default, deserialize_with = "unless_empty")]
    cwd: Option<String>,
    env: Option<BTreeMap<String, String>>,
    timeout_s: Option<f64>,
    max_output_bytes: Option<u64>,
    discard: Option<bool>,
    details: Option<bool>,
}

impl Tool for RunCodeTool {
    type Arguments = Arguments;
    type Data = CodeResult;

    const NAME: &'static str = "run_code";
    const SHORT: &'static str = "code";
    const TITLE: &'static str = "Run code";
    const DESCRIPTION: &'static str = "Runs a piece of code in a sandbox on the files, at /workspace. Output, value and uncaught error come back. Only files are kept for the next call, as one change.";
    const ANNOTATIONS: Annotations = Annotations::CHANGES;

    async fn run(workspace: &Workspace, arguments: Arguments, limits: &AnswerLimits) -> ToolResult<Self> {
        let discard = arguments.discard.filter(|discard| *discard);
        let room = OutputRoom::for_call(arguments.max_output_bytes, workspace, limits);
        let request = CodeRequest {
            cwd: arguments.cwd.unwrap_or_default(),
            env: arguments.env.unwrap_or_default(),
            timeout: parse_seconds("timeout_s", arguments.timeout_s)?,
            max_output: Some(room.bytes as u64),
            effects: discard.map(|_| EffectsMode::Discard),
            ..CodeRequest::new(arguments.language, arguments.code)
        };
        let result = workspace.run_code(request).await?;
        let text = code_text::format_answer(&result, room);
        let is_detailed = arguments.details.unwrap_or(false);
        let data = if is_detailed { result.with_details() } else { result };
        Ok(ToolOutput::new(text, data))
    }
}
