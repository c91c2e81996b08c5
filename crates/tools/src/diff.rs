//! `diff`: shows the differences between two points.

use garret_core::{Point, Result};
use garret_workspace::{Diff as Difference, DiffRequest, PathDiff, Workspace};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Annotations;
use crate::answer_limits::AnswerLimits;
use crate::point::text_or_number;
use crate::text::{AnswerPage, cut_line, format_count, group_digits};
use crate::tool::{Tool, ToolOutput};

/// The most text that one call holds for its pages: far more than a page, and far less than the memory of a machine.
const MAX_HELD_BYTES: usize = 8 << 20;

pub(crate) struct DiffTool;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
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
    #[serde(default)]
    offset: Option<u64>,
    #[serde(default)]
    limit: Option<u64>,
}

/// A page of a difference.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct DiffData {
    /// The change of each path; only the first paths if there are many.
    paths: Vec<PathDiff>,
    /// How many paths differ.
    path_count: u64,
    /// The lines of this page.
    diff: String,
    /// Where the next page begins, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_offset: Option<u64>,
    /// How many of the paths no page shows, because the whole is too large.
    left_out: u64,
    /// Set if not every file was captured at both points: a file that was captured later is shown as unchanged until then.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    incomplete: bool,
}

impl Tool for DiffTool {
    type Arguments = Arguments;
    type Data = DiffData;

    const NAME: &'static str = "diff";
    const SHORT: &'static str = "diff";
    const TITLE: &'static str = "Show differences";
    const DESCRIPTION: &'static str =
        "Shows the differences between two points as a unified diff; without arguments, those of the newest change.";
    const ANNOTATIONS: Annotations = Annotations::READS;

    async fn run(workspace: &Workspace, arguments: Arguments, limits: &AnswerLimits) -> Result<ToolOutput<DiffData>> {
        let to = Point::parse_or_now(arguments.to.as_deref());
        // Without `from`, the newest change at `to` alone is shown.
        let from = match Point::parse_or_now(arguments.from.as_deref()) {
            Point::Now if arguments.from.is_none() => workspace.before(&to).await?,
            point => point,
        };
        let request = DiffRequest {
            from,
            to,
            path: Some(arguments.path).filter(|path| !path.is_empty()),
            max_text_bytes: MAX_HELD_BYTES,
        };
        let difference = workspace.diff(request).await?;
        let limits = limits.for_limit(arguments.limit);
        let window = DiffWindow {
            offset: arguments.offset.unwrap_or(0),
            limit: limits.page_size(arguments.limit),
        };
        Ok(format_page(difference, window, &limits))
    }
}

/// The lines that a call asks for.
struct DiffWindow {
    offset: u64,
    limit: usize,
}

fn format_page(difference: Difference, window: DiffWindow, limits: &AnswerLimits) -> ToolOutput<DiffData> {
    let offset = usize::try_from(window.offset).unwrap_or(usize::MAX);
    let mut page = AnswerPage::new(limits);
    let (mut shown, mut diff) = (0, String::new());
    for line in difference.text.split_inclusive('\n').skip(offset).take(window.limit) {
        let bare = cut_line(line.trim_end_matches('\n'), limits);
        if !page.push_block(&bare) {
            break;
        }
        diff.push_str(&bare);
        diff.push('\n');
        shown += 1;
    }
    let all = difference.text.split_inclusive('\n').count() as u64;
    let end = window.offset.saturating_add(shown);
    let path_count = difference.paths.len() as u64;
    let data = DiffData {
        paths: bound_paths(difference.paths, limits),
        path_count,
        diff,
        next_offset: Some(end).filter(|end| *end < all),
        left_out: difference.left_out as u64,
        incomplete: difference.incomplete,
    };
    let footer = format_footer(&data, window.offset, end, all);
    ToolOutput::new(page.finish(Some(footer)), data)
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

fn format_footer(data: &DiffData, offset: u64, end: u64, all: u64) -> String {
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
            group_digits(all)
        ),
        _ if end == offset && offset > 0 => format!("[nothing at offset {}: {paths}{left_out}]", group_digits(offset)),
        _ => format!("[{paths}{left_out}]"),
    }
}
