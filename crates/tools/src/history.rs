//! `history`: lists changes with their authors, and the versions of a file.

use garret_core::path::{escape_unprintable, quote};
use garret_workspace::{
    FileVersion, HistoryPage, LogPage, LogRequest, VersionsPage, VersionsRequest, Workspace, fold_derived_changes,
};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::arguments::unless_empty;
use crate::change_text::{self, made_by};
use crate::text::{AnswerPage, cut_line, format_count, quote_token, short_size};
use crate::tool::{Tool, ToolOutput, ToolResult};
use crate::{Annotations, AnswerLimits};

/// The number of changes without a `limit`: questions are mostly about the newest ones.
const DEFAULT_LIMIT: u64 = 50;

pub(crate) struct HistoryTool;

#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Arguments {
    /// Only changes of this file or directory.
    #[serde(default)]
    path: String,
    /// List the versions of the file at `path`, also of a deleted file.
    versions: Option<bool>,
    /// Most changes; default 50.
    limit: Option<u64>,
    #[serde(default, deserialize_with = "unless_empty")]
    cursor: Option<String>,
}

impl Tool for HistoryTool {
    type Arguments = Arguments;
    type Data = HistoryPage;

    const NAME: &'static str = "history";
    const SHORT: &'static str = "history";
    const TITLE: &'static str = "Show the history";
    const DESCRIPTION: &'static str =
        "Lists changes, newest first. The number of a change is a point for `at`, diff and undo.";
    const ANNOTATIONS: Annotations = Annotations::READS;

    async fn run(workspace: &Workspace, arguments: Arguments, limits: &AnswerLimits) -> ToolResult<Self> {
        let asked = arguments.limit.filter(|limit| *limit > 0).unwrap_or(DEFAULT_LIMIT);
        let limit = limits.page_size(Some(asked));
        let is_continued = arguments.cursor.is_some();
        // Who asks for a path wants each change of it.
        let is_folded = arguments.path.is_empty();
        if arguments.versions == Some(true) && !arguments.path.is_empty() {
            let request = VersionsRequest {
                limit,
                cursor: arguments.cursor,
            };
            let page = workspace.versions_page(&arguments.path, request).await?;
            return Ok(show_versions(page, &arguments.path, limits));
        }
        let request = LogRequest {
            path: Some(arguments.path).filter(|path| !path.is_empty()),
            limit,
            cursor: arguments.cursor,
        };
        let log = workspace.log(request).await?;
        Ok(show_changes(log, is_continued, is_folded, limits))
    }
}

fn show_changes(
    mut log: LogPage,
    is_continued: bool,
    is_folded: bool,
    limits: &AnswerLimits,
) -> ToolOutput<HistoryPage> {
    let rows: Vec<_> = if is_folded {
        fold_derived_changes(&log.changes).collect()
    } else {
        log.changes.chunks(1).collect()
    };
    let lines = rows.iter().map(|row| change_text::folded_line(row)).collect();
    let mut page = AnswerPage::new(limits);
    let fitting = fill_page(&mut page, lines, limits);
    let fitting = rows[..fitting].iter().map(|row| row.len()).sum();
    shorten_page(&mut log.changes, &mut log.next_cursor, fitting, |last| {
        last.number.to_string()
    });
    let shown = format_count(log.changes.len() as u64, "change", "changes");
    let footer = match &log.next_cursor {
        Some(cursor) => Some(format!("[{shown}; older: cursor={}]", quote_token(cursor))),
        None if log.changes.is_empty() && is_continued => Some("[no older changes]".to_owned()),
        None if log.changes.is_empty() => Some("[no changes]".to_owned()),
        None => None,
    };
    let data = HistoryPage {
        changes: Some(log),
        versions: None,
    };
    ToolOutput::new(page.finish(footer), data)
}

fn show_versions(mut found: VersionsPage, path: &str, limits: &AnswerLimits) -> ToolOutput<HistoryPage> {
    let mut page = AnswerPage::new(limits);
    let fitting = fill_page(&mut page, found.versions.iter().map(version_line).collect(), limits);
    shorten_page(&mut found.versions, &mut found.next_cursor, fitting, |last| {
        last.change.clone()
    });
    let shown = format_count(found.versions.len() as u64, "version", "versions");
    let footer = match &found.next_cursor {
        Some(cursor) => Some(format!("[{shown}; older: cursor={}]", quote_token(cursor))),
        None if found.versions.is_empty() => Some(format!("[no versions of {}]", quote(path))),
        None => None,
    };
    let data = HistoryPage {
        changes: None,
        versions: Some(found),
    };
    ToolOutput::new(page.finish(footer), data)
}

fn version_line(version: &FileVersion) -> String {
    format!(
        "{}  {}  {}  {}  ({})",
        version.version,
        version.at,
        escape_unprintable(&version.path),
        short_size(version.size),
        made_by(&version.operation, &version.actor)
    )
}

/// Puts as many lines on the page as fit, and returns their number.
fn fill_page(page: &mut AnswerPage, lines: Vec<String>, limits: &AnswerLimits) -> usize {
    lines
        .iter()
        .take_while(|line| page.push_block(&cut_line(line, limits)))
        .count()
}

/// Ends the page after `fitting` items.
fn shorten_page<T>(all: &mut Vec<T>, next_cursor: &mut Option<String>, fitting: usize, cursor: impl Fn(&T) -> String) {
    if fitting < all.len() {
        all.truncate(fitting);
        *next_cursor = all.last().map(cursor);
    }
}
