//! `processes`: lists the processes in the background.

use garret_core::path::quote;
use garret_workspace::{ProcessList, ProcessStatus, Workspace};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::tool::{Tool, ToolOutput, ToolResult};
use crate::{Annotations, AnswerLimits, text};

pub(crate) struct ProcessesTool;

#[derive(Debug, Deserialize, JsonSchema)]
// The reader of arguments refuses names that are not in the schema, but the schema of no arguments lists no names.
#[serde(deny_unknown_fields)]
pub(crate) struct Arguments {}

impl Tool for ProcessesTool {
    type Arguments = Arguments;
    type Data = ProcessList;

    const NAME: &'static str = "processes";
    const SHORT: &'static str = "processes";
    const TITLE: &'static str = "List processes";
    const DESCRIPTION: &'static str = "Lists background processes: all running ones, and the last that ended.";
    const ANNOTATIONS: Annotations = Annotations::READS;

    async fn run(workspace: &Workspace, _arguments: Arguments, limits: &AnswerLimits) -> ToolResult<Self> {
        let list = workspace.processes().await?;
        let lines = list
            .processes
            .iter()
            .map(process_line)
            .chain(list.notices.iter().cloned());
        let lines: Vec<String> = lines.collect();
        let shown = if lines.is_empty() {
            "no process was started".to_owned()
        } else {
            lines.join("\n")
        };
        Ok(ToolOutput::new(text::bound_text(&shown, limits), list))
    }
}

fn process_line(process: &ProcessStatus) -> String {
    let ports = process
        .ports
        .iter()
        .map(|one| format!(", port {} is {}", one.port, one.url));
    format!(
        "{} {}: {}{}",
        process.id,
        describe_state(process),
        quote(&process.command),
        ports.collect::<String>()
    )
}

/// Returns the state of a process, in a few words.
pub(crate) fn describe_state(process: &ProcessStatus) -> String {
    match (&process.ended, process.duration_ms) {
        (Some(ended), Some(millis)) => format!("ended ({ended}) after {:.1} s", millis as f64 / 1_000.0),
        (Some(ended), None) => format!("ended ({ended})"),
        (None, _) => "is running".to_owned(),
    }
}
