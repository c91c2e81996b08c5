//! `run_code`: a piece of code by itself.

use std::collections::BTreeMap;

use garret_core::{EffectsMode, Language, Result};
use garret_workspace::{CodeRequest, CodeResult, Workspace};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::Annotations;
use crate::arguments::unless_empty;
use crate::command::seconds;
use crate::limits::Limits;
use crate::tool::{Output, Tool};
use crate::{code_text, languages};

pub(crate) struct RunCode;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Arguments {
    /// The language of the code.
    language: Language,
    /// The code: as many lines as needed. The value of its last expression comes back (not for bash); `await` works at its top level.
    code: String,
    /// The directory to run it in, relative to the workspace root. Left out, the root.
    #[serde(default, deserialize_with = "unless_empty")]
    cwd: Option<String>,
    /// Variables to add to its environment.
    #[serde(default)]
    env: Option<BTreeMap<String, String>>,
    /// Seconds after which it is ended with everything that it started. Left out or 0, the limit of the workspace.
    #[serde(default)]
    timeout_s: Option<f64>,
    /// Whether to only look at what the code does to the files, and forget it.
    #[serde(default)]
    discard: Option<bool>,
}

impl Tool for RunCode {
    type Arguments = Arguments;
    type Data = CodeResult;

    const NAME: &'static str = "run_code";
    const SHORT: &'static str = "code";
    const TITLE: &'static str = "Run code";
    const DESCRIPTION: &'static str = "Runs a piece of code in a sandbox on the files of the workspace, which it sees at /workspace, and waits for its \
        end. Its output, the value of its last expression and the error that it did not catch come back; an error is an ordinary answer. Nothing \
        is kept from one call to the next but the files: what it did to them is one change, which undo takes back.";
    const ANNOTATIONS: Annotations = Annotations {
        read_only: false,
        destructive: true,
        idempotent: false,
    };

    fn narrow(schema: &mut Value, workspace: &Workspace) {
        languages::narrow(schema, workspace);
    }

    async fn run(workspace: &Workspace, arguments: Arguments, limits: &Limits) -> Result<Output<CodeResult>> {
        let discard = arguments.discard.filter(|discard| *discard);
        let request = CodeRequest {
            cwd: arguments.cwd.unwrap_or_default(),
            env: arguments.env.unwrap_or_default(),
            timeout: seconds("timeout_s", arguments.timeout_s)?,
            max_output: Some(limits.bytes as u64 / 2),
            effects: discard.map(|_| EffectsMode::Discard),
            ..CodeRequest::new(arguments.language, arguments.code)
        };
        let result = workspace.run_code(request).await?;
        Ok(Output::new(code_text::of(&result, limits), result))
    }
}
