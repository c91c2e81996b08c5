//! `start`: a command in the background.

use std::collections::BTreeMap;

use garret_core::Result;
use garret_core::path::quote;
use garret_workspace::{ProcessShown, RunRequest, Workspace};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::Annotations;
use crate::arguments::unless_empty;
use crate::command::{request, seconds};
use crate::limits::Limits;
use crate::tool::{Output, Tool};

pub(crate) struct Start;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Arguments {
    /// The command, as a text for the shell.
    command: String,
    /// The directory to run it in, relative to the workspace root. Left out, the root.
    #[serde(default, deserialize_with = "unless_empty")]
    cwd: Option<String>,
    /// Variables to add to its environment.
    #[serde(default)]
    env: Option<BTreeMap<String, String>>,
    /// Seconds after which it is ended. Left out or 0, it lives until it ends by itself, is ended with `kill`, or the workspace is closed.
    #[serde(default)]
    timeout_s: Option<f64>,
}

impl Tool for Start {
    type Arguments = Arguments;
    type Data = ProcessShown;

    const NAME: &'static str = "start";
    const SHORT: &'static str = "start";
    const TITLE: &'static str = "Start a process in the background";
    const DESCRIPTION: &'static str = "Starts a command that goes on while you do other things: a server, a watcher, a long build. The answer \
        comes at once, with its id. `output` shows what it writes, `kill` ends it. It sees every later change of the files at once, and what \
        it writes becomes part of the workspace as it goes. Commands that you run meanwhile reach it on localhost where they can reach anything.";
    const ANNOTATIONS: Annotations = Annotations {
        read_only: false,
        destructive: true,
        idempotent: false,
    };

    async fn run(workspace: &Workspace, arguments: Arguments, _limits: &Limits) -> Result<Output<ProcessShown>> {
        let request = RunRequest {
            timeout: seconds("timeout_s", arguments.timeout_s)?,
            ..request(arguments.command, arguments.cwd, arguments.env)
        };
        let started = workspace.start(request).await?;
        let text = format!("started {}: {}", started.id, quote(&started.command));
        Ok(Output::new(text, started))
    }
}
