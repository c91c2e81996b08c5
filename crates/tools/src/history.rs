//! `history`: lists changes with their authors, and the versions of a file.

use garret_core::Result;
use garret_core::path::{escape_unprintable, quote};
use garret_workspace::{ChangeShown, LogRequest, VersionShown, VersionsRequest, Workspace};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Annotations;
use crate::answer_limits::AnswerLimits;
use crate::arguments::unless_empty;
use crate::change_text::{self, made_by};
use crate::text::{AnswerPage, cut_line, format_count, quote_token, short_size};
use crate::tool::{Tool, ToolOutput};

/// The number of changes without a `limit`: questions are mostly about the newest ones.
const DEFAULT_LIMIT: u64 = 50;

pub(crate) struct HistoryTool;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Arguments {
    /// Only changes of this file or directory.
    #[serde(default)]
    path: String,
    /// List the versions of the file at `path`, also of a deleted file.
    #[serde(default)]
    versions: Option<bool>,
    /// Most changes; default 50.
    #[serde(default)]
    limit: Option<u64>,
    #[serde(default, deserialize_with = "unless_empty")]
    cursor: Option<String>,
}

/// A page of the history.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct HistoryData {
    /// The changes, newest first; none where versions were asked for.
    changes: Vec<ChangeShown>,
    /// The versions of the file, newest first, where they were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    versions: Option<Vec<VersionShown>>,
    /// Where the next page begins, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

impl Tool for HistoryTool {
    type Arguments = Arguments;
    type Data = HistoryData;

    const NAME: &'static str = "history";
    const SHORT: &'static str = "history";
    const TITLE: &'static str = "Show the history";
    const DESCRIPTION: &'static str =
        "Lists the changes of the workspace, newest first. The number of a change is a point for `at`, diff and undo.";
    const ANNOTATIONS: Annotations = Annotations::READS;

    async fn run(
        workspace: &Workspace,
        arguments: Arguments,
        limits: &AnswerLimits,
    ) -> Result<ToolOutput<HistoryData>> {
        let asked = arguments.limit.filter(|limit| *limit > 0).unwrap_or(DEFAULT_LIMIT);
        let limit = limits.page_size(Some(asked));
        let is_continued = arguments.cursor.is_some();
        if arguments.versions == Some(true) && !arguments.path.is_empty() {
            let request = VersionsRequest {
                limit,
                cursor: arguments.cursor,
            };
            let page = workspace.versions_page(&arguments.path, request).await?;
            return Ok(show_versions(page.versions, page.next_cursor, &arguments.path, limits));
        }
        let request = LogRequest {
            path: Some(arguments.path).filter(|path| !path.is_empty()),
            limit,
            cursor: arguments.cursor,
        };
        let log = workspace.log(request).await?;
        Ok(show_changes(log.changes, log.next_cursor, is_continued, limits))
    }
}

fn show_changes(
    changes: Vec<ChangeShown>,
    next_cursor: Option<String>,
    is_continued: bool,
    limits: &AnswerLimits,
) -> ToolOutput<HistoryData> {
    let mut changes: Vec<_> = changes.into_iter().map(change_text::bound_paths).collect();
    let lines = changes.iter().map(change_text::change_line).collect();
    let mut page = AnswerPage::new(limits);
    let fitting = fill_page(&mut page, lines, limits);
    let next_cursor = shorten_page(&mut changes, fitting, next_cursor, |last| last.number.to_string());
    let shown = format_count(changes.len() as u64, "change", "changes");
    let footer = match &next_cursor {
        Some(cursor) => Some(format!("[{shown}; older: cursor={}]", quote_token(cursor))),
        None if changes.is_empty() && is_continued => Some("[no older changes]".to_owned()),
        None if changes.is_empty() => Some("[no changes]".to_owned()),
        None => None,
    };
    let data = HistoryData {
        changes,
        versions: None,
        next_cursor,
    };
    ToolOutput::new(page.finish(footer), data)
}

fn show_versions(
    mut versions: Vec<VersionShown>,
    next_cursor: Option<String>,
    path: &str,
    limits: &AnswerLimits,
) -> ToolOutput<HistoryData> {
    let mut page = AnswerPage::new(limits);
    let fitting = fill_page(&mut page, versions.iter().map(version_line).collect(), limits);
    let next_cursor = shorten_page(&mut versions, fitting, next_cursor, |last| last.change.clone());
    let shown = format_count(versions.len() as u64, "version", "versions");
    let footer = match &next_cursor {
        Some(cursor) => Some(format!("[{shown}; older: cursor={}]", quote_token(cursor))),
        None if versions.is_empty() => Some(format!("[no versions of {}]", quote(path))),
        None => None,
    };
    let data = HistoryData {
        changes: Vec::new(),
        versions: Some(versions),
        next_cursor,
    };
    ToolOutput::new(page.finish(footer), data)
}

fn version_line(version: &VersionShown) -> String {
    format!(
        "{}  {}  {}  {}  ({})",
        version.version,
        version.timestamp,
        escape_unprintable(&version.path),
        short_size(version.size),
        made_by(&version.tool_name, &version.actor)
    )
}

/// Puts as many lines on the page as fit, and returns their number.
fn fill_page(page: &mut AnswerPage, lines: Vec<String>, limits: &AnswerLimits) -> usize {
    lines
        .iter()
        .take_while(|line| page.push_block(&cut_line(line, limits)))
        .count()
}

/// Ends the page after `fitting` items; returns the cursor of the next page.
fn shorten_page<T>(
    all: &mut Vec<T>,
    fitting: usize,
    next_cursor: Option<String>,
    cursor: impl Fn(&T) -> String,
) -> Option<String> {
    if fitting >= all.len() {
        return next_cursor;
    }
    all.truncate(fitting);
    all.last().map(cursor)
}
