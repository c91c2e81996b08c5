//! `run_in_code_context`: a piece of code that finds what earlier ones left.

use garret_core::Result;
use garret_workspace::{CodeResult, PieceRequest, Workspace};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::command::seconds;
use crate::limits::Limits;
use crate::tool::{Output, Tool};
use crate::{Annotations, code_text};

pub(crate) struct RunInCodeContext;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Arguments {
    /// The id of the context, from `create_code_context`.
    context: String,
    /// The code, in the language of the context. The value of its last expression comes back (not for bash); `await` works at its top
    /// level.
    code: String,
    /// Seconds after which the code is ended, and the context with it. Left out or 0, the limit of the workspace.
    #[serde(default)]
    timeout_s: Option<f64>,
}

impl Tool for RunInCodeContext {
    type Arguments = Arguments;
    type Data = CodeResult;

    const NAME: &'static str = "run_in_code_context";
    const SHORT: &'static str = "run_in_context";
    const TITLE: &'static str = "Run code in a context";
    const DESCRIPTION: &'static str = "Runs a piece of code in a context, where it finds the variables, imports and directory of the pieces before it. \
        Its output, the value of its last expression and the error that it did not catch come back; an error is an ordinary answer and leaves \
        the context as it is. What was done to the files is a change, which undo takes back; the variables stay. Code that exits or takes too \
        long ends the context, and the answer says so.";
    const ANNOTATIONS: Annotations = Annotations {
        read_only: false,
        destructive: true,
        idempotent: false,
    };

    async fn run(workspace: &Workspace, arguments: Arguments, limits: &Limits) -> Result<Output<CodeResult>> {
        let request = PieceRequest {
            timeout: seconds("timeout_s", arguments.timeout_s)?,
            max_output: Some(limits.bytes as u64 / 2),
            ..PieceRequest::new(arguments.context, arguments.code)
        };
        let result = workspace.run_in_code_context(request).await?;
        Ok(Output::new(code_text::of(&result, limits), result))
    }
}
