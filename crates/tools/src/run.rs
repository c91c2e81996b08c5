//! `run`: a command in the foreground.

use std::collections::BTreeMap;

use garret_core::{EffectsMode, Result};
use garret_workspace::{RunRequest, RunResult, Workspace};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::Annotations;
use crate::arguments::unless_empty;
use crate::command::{request, seconds};
use crate::limits::Limits;
use crate::run_text;
use crate::tool::{Output, Tool};

pub(crate) struct Run;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Arguments {
    /// The command, as a text for the shell: pipes, redirections and several lines work.
    command: String,
    /// The directory to run it in, relative to the workspace root. Left out, the root.
    #[serde(default, deserialize_with = "unless_empty")]
    cwd: Option<String>,
    /// What the command reads. Left out, nothing.
    #[serde(default, deserialize_with = "unless_empty")]
    stdin: Option<String>,
    /// Variables to add to its environment.
    #[serde(default)]
    env: Option<BTreeMap<String, String>>,
    /// Seconds after which the command is ended with everything that it started. Left out or 0, the limit of the workspace.
    #[serde(default)]
    timeout_s: Option<f64>,
    /// Whether to only look at what the command does to the files, and forget it.
    #[serde(default)]
    discard: Option<bool>,
}

impl Tool for Run {
    type Arguments = Arguments;
    type Data = RunResult;

    const NAME: &'static str = "run";
    const SHORT: &'static str = "bash";
    const TITLE: &'static str = "Run a command";
    const DESCRIPTION: &'static str = "Runs a shell command in a sandbox on the files of the workspace, which it sees at /workspace, and waits for \
        its end. What it did to the files is one change, which undo takes back. A non-zero exit code is an ordinary answer. Nothing of the \
        machine but its programs can be seen, the network is out of reach unless the workspace allows it, and every process of the command \
        ends with it: use `start` for servers. For reading, searching and editing files, prefer the file tools.";
    const ANNOTATIONS: Annotations = Annotations {
        read_only: false,
        destructive: true,
        idempotent: false,
    };

    async fn run(workspace: &Workspace, arguments: Arguments, limits: &Limits) -> Result<Output<RunResult>> {
        let request = RunRequest {
            stdin: arguments.stdin.map(Into::into),
            timeout: seconds("timeout_s", arguments.timeout_s)?,
            effects: arguments
                .discard
                .filter(|discard| *discard)
                .map(|_| EffectsMode::Discard),
            // Room for the line that says how it ended.
            max_output: Some(limits.bytes as u64 / 2),
            ..request(arguments.command, arguments.cwd, arguments.env)
        };
        let result = workspace.run(request).await?;
        Ok(Output::new(run_text::of(&result, limits), result))
    }
}
