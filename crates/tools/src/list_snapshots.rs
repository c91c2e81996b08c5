//! `list_snapshots`: lists the named states and the branches.

use garret_core::path::{escape_unprintable, quote};
use garret_core::{Branch, Snapshot};
use garret_workspace::{SnapshotList, SnapshotListRequest, Workspace};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::arguments::unless_empty;
use crate::text::{AnswerPage, cut_line, format_count, quote_token};
use crate::tool::{Tool, ToolOutput, ToolResult};
use crate::{Annotations, AnswerLimits};

pub(crate) struct ListSnapshotsTool;

#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Arguments {
    limit: Option<u64>,
    #[serde(default, deserialize_with = "unless_empty")]
    cursor: Option<String>,
    /// Show files and bytes of each; slow.
    sizes: Option<bool>,
}

impl Tool for ListSnapshotsTool {
    type Arguments = Arguments;
    type Data = SnapshotList;

    const NAME: &'static str = "list_snapshots";
    const SHORT: &'static str = "list_snapshots";
    const TITLE: &'static str = "List snapshots and branches";
    const DESCRIPTION: &'static str = "Lists snapshots, oldest first, then branches.";
    const ANNOTATIONS: Annotations = Annotations::READS;

    async fn run(workspace: &Workspace, arguments: Arguments, limits: &AnswerLimits) -> ToolResult<Self> {
        let limits = limits.for_limit(arguments.limit);
        let is_continued = arguments.cursor.is_some();
        let request = SnapshotListRequest {
            with_sizes: arguments.sizes.unwrap_or(false),
            limit: limits.page_size(arguments.limit),
            cursor: arguments.cursor,
        };
        Ok(format_page(
            workspace.list_snapshots(request).await?,
            is_continued,
            &limits,
        ))
    }
}

fn format_page(mut list: SnapshotList, is_continued: bool, limits: &AnswerLimits) -> ToolOutput<SnapshotList> {
    let mut page = AnswerPage::new(limits);
    let snapshots = list.snapshots.iter().map(snapshot_line);
    let lines = snapshots.chain(list.branches.iter().map(branch_line));
    let fitting = lines
        .take_while(|line| page.push_block(&cut_line(line, limits)))
        .count();
    list.shorten(fitting);
    let footer = match &list.next_cursor {
        Some(cursor) => Some(format!(
            "[{} shown; more: cursor={}]",
            format_count(fitting as u64, "name", "names"),
            quote_token(cursor)
        )),
        None if fitting == 0 && is_continued => Some("[no more snapshots or branches]".to_owned()),
        None if fitting == 0 => Some("[no snapshots, no branches]".to_owned()),
        None => None,
    };
    ToolOutput::new(page.finish(footer), list)
}

fn snapshot_line(snapshot: &Snapshot) -> String {
    let lazy = if snapshot.lazy { "  (lazy)" } else { "" };
    let label = escape_unprintable(&snapshot.label);
    let size = snapshot.size.as_ref().map_or_else(String::new, |size| {
        let files = format_count(size.files, "file", "files");
        format!(
            "  {files}, {} bytes, {} freed by deleting it",
            size.bytes, size.alone_bytes
        )
    });
    format!("{label}  change #{}  {}{lazy}{size}", snapshot.number, snapshot.at)
}

fn branch_line(branch: &Branch) -> String {
    format!(
        "branch {}  from change #{}  {}  ({} of its own)",
        quote(branch.name.as_deref().unwrap_or(&branch.id)),
        branch.fork,
        branch.at,
        format_count(branch.change_count, "change", "changes")
    )
}
