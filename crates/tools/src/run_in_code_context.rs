//! `run_in_code_context`: runs a piece of code that can use the definitions of earlier ones.

use garret_workspace::{CodeResult, PieceRequest, Workspace};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::command_request::parse_seconds;
use crate::output_room::OutputRoom;
use crate::tool::{Tool, ToolOutput, ToolResult};
use crate::{Annotations, AnswerLimits, code_text};

pub(crate) struct RunInCodeContextTool;

#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Arguments {
    /// Id from `create_code_context`.
    context: String,
    code: String,
    /// Ends the code and the context.
    timeout_s: Option<f64>,
    max_output_bytes: Option<u64>,
    details: Option<bool>,
}

impl Tool for RunInCodeContextTool {
    type Arguments = Arguments;
    type Data = CodeResult;

    const NAME: &'static str = "run_in_code_context";
    const SHORT: &'static str = "run_in_context";
    const TITLE: &'static str = "Run code in a context";
    const DESCRIPTION: &'static str = "Runs code in the interpreter of the earlier pieces. An error keeps the context; code that exits or takes too long ends it.";
    const ANNOTATIONS: Annotations = Annotations::CHANGES;

    async fn run(workspace: &Workspace, arguments: Arguments, limits: &AnswerLimits) -> ToolResult<Self> {
        let room = OutputRoom::for_call(arguments.max_output_bytes, workspace, limits);
        let request = PieceRequest {
            timeout: parse_seconds("timeout_s", arguments.timeout_s)?,
            max_output: Some(room.bytes as u64),
            ..PieceRequest::new(arguments.context, arguments.code)
        };
        let result = workspace.run_in_code_context(request).await?;
        let text = code_text::format_answer(&result, room);
        let is_detailed = arguments.details.unwrap_or(false);
        let data = if is_detailed { result.with_details() } else { result };
        Ok(ToolOutput::new(text, data))
    }
}
