//! `run_in_code_context`: runs a piece of code that can use the definitions of earlier ones.

use garret_core::Result;
use garret_workspace::{CodeResult, PieceRequest, Workspace};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::command::seconds;
use crate::limits::Limits;
use crate::output_room::OutputRoom;
use crate::tool::{Output, Tool};
use crate::{Annotations, code_text};

pub(crate) struct RunInCodeContext;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Arguments {
    /// Id from `create_code_context`.
    context: String,
    code: String,
    /// Ends the code and the context.
    #[serde(default)]
    timeout_s: Option<f64>,
    #[serde(default)]
    max_output_bytes: Option<u64>,
}

impl Tool for RunInCodeContext {
    type Arguments = Arguments;
    type Data = CodeResult;

    const NAME: &'static str = "run_in_code_context";
    const SHORT: &'static str = "run_in_context";
    const TITLE: &'static str = "Run code in a context";
    const DESCRIPTION: &'static str = "Runs code in the interpreter of the earlier pieces. An error keeps the context; code that exits or takes too long ends it.";
    const ANNOTATIONS: Annotations = Annotations {
        read_only: false,
        destructive: true,
        idempotent: false,
    };

    async fn run(workspace: &Workspace, arguments: Arguments, limits: &Limits) -> Result<Output<CodeResult>> {
        let room = OutputRoom::of(arguments.max_output_bytes, workspace, limits);
        let request = PieceRequest {
            timeout: seconds("timeout_s", arguments.timeout_s)?,
            max_output: Some(room.bytes as u64),
            ..PieceRequest::new(arguments.context, arguments.code)
        };
        let result = workspace.run_in_code_context(request).await?;
        Ok(Output::new(code_text::of(&result, room), result))
    }
}
