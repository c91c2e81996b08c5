//! `diff`: shows the differences between two points.

use garret_core::Point;
use garret_workspace::{Diff, DiffRequest, PathDiff, Workspace};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::point::text_or_number;
use crate::text::{AnswerPage, cut_line, format_count, group_digits};
use crate::tool::{Tool, ToolOutput, ToolResult};
use crate::{Annotations, AnswerLimits};

/// The most text that one call holds for its pages: far more than a page, and far less than the memory of a machine.
const MAX_HELD_BYTES: usize = 8 << 20;

pub(crate) struct DiffTool;

#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Arguments {
    /// Earlier point: snapshot label, change, or time; 0 is the beginning. Default: just before the newest change at `to`.
    #[serde(default, deserialize_with = "text_or_number")]
    from: Option<String>,
    /// Later point; default now.
    #[serde(default, deserialize_with = "text_or_number")]
    to: Option<String>,
    /// Only this file or directory.
    #[serde(default)]
    path: String,
    /// Lines to skip.
    offset: Option<u64>,
    limit: Option<u64>,
}

impl Tool for DiffTool {
    type Arguments = Arguments;
    type Data = Diff;

    const NAME: &'static str = "diff";
    const SHORT: &'static str = "diff";
    const TITLE: &'static str = "Show differences";
    const DESCRIPTION: &'static str =
        "Shows the differences between two points as a unified diff; without arguments, those of the newest change.";
    const ANNOTATIONS: Annotations = Annotations::READS;

    async fn run(workspace: &Workspace, arguments: Arguments, limits: &AnswerLimits) -> ToolResult<Self> {
        let to = Point::parse_or_now(arguments.to.as_deref());
        // Without `from`, the newest change at `to` alone is shown.
        let from = match Point::parse_or_now(arguments.from.as_deref()) {
            Point::Now if arguments.from.is_none() => workspace.before(&to).await?,
            point => point,
        };
        let limits = limits.for_limit(arguments.limit);
        let offset = arguments.offset.unwrap_or(0);
        let request = DiffRequest {
            from,
            to,
            path: Some(arguments.path).filter(|path| !path.is_empty()),
            max_text_bytes: MAX_HELD_BYTES,
            offset,
            limit: limits.page_size(arguments.limit),
        };
        Ok(format_page(workspace.diff(request).await?, offset, &limits))
    }
}

/// Returns the lines as far as they fit; the others are left to the next page, in the data too.
fn format_page(mut found: Diff, offset: u64, limits: &AnswerLimits) -> ToolOutput<Diff> {
    let mut page = AnswerPage::new(limits);
    let (mut shown, mut diff) = (0, String::new());
    for line in found.diff.lines() {
        let bare = cut_line(line, limits);
        if !page.push_block(&bare) {
            break;
        }
        diff.push_str(&bare);
        diff.push('\n');
        shown += 1;
    }
    let end = offset.saturating_add(shown);
    found.diff = diff;
    found.next_offset = Some(end).filter(|end| *end < found.line_count);
    found.paths = bound_paths(found.paths, limits);
    let footer = format_footer(&found, offset, end);
    ToolOutput::new(page.finish(Some(footer)), found)
}

/// Returns the paths as far as they fit into an answer.
fn bound_paths(paths: Vec<PathDiff>, limits: &AnswerLimits) -> Vec<PathDiff> {
    let mut room = limits.bytes;
    let fits = |one: &PathDiff| {
        let weight = one.path.len() + one.old_path.as_ref().map_or(0, String::len) + 100;
        let fits = weight <= room;
        room = room.saturating_sub(weight);
        fits
    };
    paths.into_iter().take(limits.lines).take_while(fits).collect()
}

fn format_footer(data: &Diff, offset: u64, end: u64) -> String {
    let lacking = if data.incomplete {
        "; files that the history captured only later are shown as unchanged"
    } else {
        ""
    };
    let paths = format_count(data.path_count, "path differs", "paths differ");
    if data.path_count == 0 {
        return format!("[no differences{lacking}]");
    }
    let left_out = match data.left_out {
        0 => lacking.to_owned(),
        number => format!(
            "; {} not shown: give `path`{lacking}",
            format_count(number, "path", "paths")
        ),
    };
    match data.next_offset {
        Some(next) if end > offset => format!(
            "[{paths}; lines {}–{} of {}; more: offset={next}{left_out}]",
            group_digits(offset + 1),
            group_digits(end),
            group_digits(data.line_count)
        ),
        _ if end == offset && offset > 0 => format!("[nothing at offset {}: {paths}{left_out}]", group_digits(offset)),
        _ => format!("[{paths}{left_out}]"),
    }
}
