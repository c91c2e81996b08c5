//! `output`: what a process in the background wrote.

use std::time::Duration;

use garret_core::Result;
use garret_workspace::{OutputRequest, ProcessOutput, ProcessShown, Workspace};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::Annotations;
use crate::command::seconds;
use crate::limits::Limits;
use crate::tool::{Output as Answered, Tool};
use crate::{processes, text};

pub(crate) struct Output;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Arguments {
    /// The id of the process, from `start` or `processes`.
    id: String,
    /// `cursor` of the last answer, so that only what is new comes. Left out or 0, everything that is still there.
    #[serde(default)]
    cursor: Option<u64>,
    /// Seconds to wait for something new, or for its end; at most 60. Left out or 0, the answer comes at once.
    #[serde(default)]
    wait_s: Option<f64>,
}

impl Tool for Output {
    type Arguments = Arguments;
    type Data = ProcessOutput;

    const NAME: &'static str = "output";
    const SHORT: &'static str = "output";
    const TITLE: &'static str = "Read the output of a process";
    const DESCRIPTION: &'static str = "Shows what a process in the background wrote since the last look, and whether it still runs or how it \
        ended. Pass the `cursor` of the last answer; with `wait_s` the answer waits for something new.";
    const ANNOTATIONS: Annotations = Annotations {
        read_only: true,
        destructive: false,
        idempotent: false,
    };

    async fn run(workspace: &Workspace, arguments: Arguments, limits: &Limits) -> Result<Answered<ProcessOutput>> {
        let request = OutputRequest {
            id: arguments.id,
            cursor: arguments.cursor.unwrap_or(0),
            wait: seconds("wait_s", arguments.wait_s)?.unwrap_or(Duration::ZERO),
            max_bytes: limits.bytes / 2,
        };
        let output = workspace.output(request).await?;
        Ok(Answered::new(shown(&output, limits), output))
    }
}

fn shown(output: &ProcessOutput, limits: &Limits) -> String {
    let written = text::bounded(&output.output, limits);
    let end = if written.is_empty() || written.ends_with('\n') {
        ""
    } else {
        "\n"
    };
    let mut parts = vec![state(&output.process)];
    if output.lost_bytes > 0 {
        parts.push(format!("{} before this are gone", text::bytes(output.lost_bytes)));
    }
    if output.has_more {
        parts.push("more is there".to_owned());
    }
    parts.push(format!("next cursor {}", output.cursor));
    parts.extend(output.notices.iter().cloned());
    format!("{written}{end}[{}]", parts.join("; "))
}

/// How a process is, in a few words.
fn state(process: &ProcessShown) -> String {
    format!("{} {}", process.id, processes::state(process))
}
