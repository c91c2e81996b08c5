//! `output`: shows the output of a process in the background.

use std::time::Duration;

use garret_workspace::{LONGEST_WAIT, OutputRequest, ProcessOutput, ProcessStatus, Workspace};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::command_request::parse_seconds;
use crate::output_room::{self, OutputRoom};
use crate::tool::{Tool, ToolOutput, ToolResult};
use crate::{Annotations, AnswerLimits, processes, run_text, text};

/// The bytes reserved for the last line.
const FOOTER_ROOM: usize = 500;
/// The bytes reserved for the line in the middle.
const GAP_ROOM: usize = 60;

pub(crate) struct OutputTool;

#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Arguments {
    /// From `start` or `processes`.
    id: String,
    /// From the last answer, to see only what is new.
    cursor: Option<u64>,
    max_output_bytes: Option<u64>,
    /// Seconds to wait for something new, at most 60.
    wait_s: Option<f64>,
    details: Option<bool>,
}

impl Tool for OutputTool {
    type Arguments = Arguments;
    type Data = ProcessOutput;

    const NAME: &'static str = "output";
    const SHORT: &'static str = "output";
    const TITLE: &'static str = "Read the output of a process";
    const DESCRIPTION: &'static str = "Shows the output of a background process, and whether it runs or how it ended.";
    const ANNOTATIONS: Annotations = Annotations::TAKES;

    async fn run(workspace: &Workspace, arguments: Arguments, limits: &AnswerLimits) -> ToolResult<Self> {
        let room = OutputRoom::for_call(arguments.max_output_bytes, workspace, limits);
        let request = OutputRequest {
            id: arguments.id,
            cursor: arguments.cursor.unwrap_or(0),
            wait: parse_seconds("wait_s", arguments.wait_s)?.unwrap_or(Duration::ZERO),
            max_bytes: room.bytes.saturating_sub(FOOTER_ROOM).max(room.bytes / 2),
            with_tail: true,
            with_details: arguments.details.unwrap_or(false),
        };
        let (is_long_wait, most) = (request.wait > LONGEST_WAIT, request.max_bytes);
        let output = workspace.output(request).await?;
        Ok(ToolOutput::new(format_output(&output, is_long_wait, most), output))
    }
}

fn format_output(output: &ProcessOutput, is_long_wait: bool, most: usize) -> String {
    let mut written = output.output.clone();
    let between = output.tail.as_ref().map(|tail| {
        let between = (output.written - output.cursor).saturating_sub(tail.len() as u64);
        written.push_str(&format!("\n… {} left out …\n{tail}", text::format_bytes(between)));
        between
    });
    if written.len() > most + GAP_ROOM {
        // Bytes that are not text take more room as text.
        written = output_room::head_and_tail(&written, most);
    }
    let end = if written.is_empty() || written.ends_with('\n') {
        ""
    } else {
        "\n"
    };
    let mut parts = vec![describe_process(&output.process)];
    if output.lost_bytes > 0 {
        parts.push(format!(
            "{} before this are no longer stored",
            text::format_bytes(output.lost_bytes)
        ));
    }
    if is_long_wait {
        parts.push(format!("the wait is limited to {} s", LONGEST_WAIT.as_secs()));
    }
    if let Some(between) = between {
        parts.push(format!(
            "{} left out: pass `cursor` {} or a larger `max_output_bytes`",
            text::format_bytes(between),
            output.cursor
        ));
    }
    let next = if between.is_some() {
        output.written
    } else {
        output.cursor
    };
    if !output.changed.is_nothing() {
        parts.extend(run_text::change_phrases(&output.changed));
    }
    parts.extend(run_text::network_notes(output.network.as_ref()));
    parts.push(format!("next cursor {next}"));
    parts.extend(output.notices.iter().cloned());
    format!("{written}{end}{}", output_room::format_footer(&parts))
}

/// Returns the state of a process, in a few words.
fn describe_process(process: &ProcessStatus) -> String {
    format!("{} {}", process.id, processes::describe_state(process))
}
