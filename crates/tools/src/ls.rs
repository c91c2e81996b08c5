//! `ls`: lists a directory, or the tree below it.

use garret_core::EntryKind;
use garret_core::path::escape_unprintable;
use garret_workspace::{DirectoryListing, ListRequest, ListSortOrder, ListedEntry, Workspace};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::arguments::unless_empty;
use crate::point::{self, text_or_number};
use crate::text::{AnswerPage, format_count, incomplete_note, quote_token, short_size};
use crate::tool::{Tool, ToolOutput, ToolResult};
use crate::{Annotations, AnswerLimits};

pub(crate) struct LsTool;

#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Arguments {
    /// Directory; default the root.
    #[serde(default)]
    path: String,
    /// List all levels, as a tree.
    recursive: Option<bool>,
    /// Levels; default 1, or all with `recursive`.
    depth: Option<u64>,
    limit: Option<u64>,
    /// By name (default) or the newest first.
    #[serde(default, deserialize_with = "unless_empty")]
    sort: Option<ListSortOrder>,
    /// With times.
    long: Option<bool>,
    #[serde(default, deserialize_with = "unless_empty")]
    cursor: Option<String>,
    #[serde(default, deserialize_with = "text_or_number")]
    at: Option<String>,
}

impl Arguments {
    fn levels(&self) -> usize {
        let asked = self.depth.filter(|depth| *depth > 0);
        match asked {
            Some(depth) => usize::try_from(depth).unwrap_or(usize::MAX),
            None if self.recursive == Some(true) => usize::MAX,
            None => 1,
        }
    }
}

impl Tool for LsTool {
    type Arguments = Arguments;
    type Data = DirectoryListing;

    const NAME: &'static str = "ls";
    const SHORT: &'static str = "ls";
    const TITLE: &'static str = "List a directory";
    const DESCRIPTION: &'static str =
        "Lists a directory, hidden entries included; directories end with `/`. To find files by name, glob is faster.";
    const ANNOTATIONS: Annotations = Annotations::READS;

    async fn run(workspace: &Workspace, arguments: Arguments, limits: &AnswerLimits) -> ToolResult<Self> {
        let limits = limits.for_limit(arguments.limit);
        let request = ListRequest {
            depth: arguments.levels(),
            limit: limits.page_size(arguments.limit),
            cursor: arguments.cursor.clone(),
            sort: arguments.sort.unwrap_or_default(),
            long: arguments.long.unwrap_or(false),
        };
        let (is_continued, sort, depth) = (request.cursor.is_some(), request.sort, request.depth);
        let viewed = point::view_at(workspace, arguments.at.as_deref()).await?;
        let listed = viewed.list(&arguments.path, request).await?;
        let lines = match sort {
            ListSortOrder::Name => entry_lines(&listed, is_continued),
            ListSortOrder::Modified => listed.entries.iter().map(|entry| dated_line(entry, depth)).collect(),
        };
        Ok(format_page(listed, &lines, is_continued, &limits))
    }
}

fn format_page(
    mut listed: DirectoryListing,
    lines: &[String],
    is_continued: bool,
    limits: &AnswerLimits,
) -> ToolOutput<DirectoryListing> {
    let mut page = AnswerPage::new(limits);
    let fitting = lines.iter().take_while(|line| page.push_block(line)).count();
    listed.shorten(fitting);
    let shown = format_count(listed.entries.len() as u64, "entry", "entries");
    let lacking = incomplete_note(listed.incomplete);
    let footer = match &listed.next_cursor {
        Some(cursor) => Some(format!("[{shown}; more: cursor={}{lacking}]", quote_token(cursor))),
        None if listed.entries.is_empty() && is_continued => Some(format!("[no more entries{lacking}]")),
        None if listed.entries.is_empty() && listed.incomplete => Some(format!("[no entries{lacking}]")),
        None if listed.entries.is_empty() => Some("[empty directory]".into()),
        None => listed.incomplete.then(|| format!("[{shown}{lacking}]")),
    };
    ToolOutput::new(page.finish(footer), listed)
}

/// Returns a line for each entry, indented by its level. A page that begins within a directory names that directory
/// first.
fn entry_lines(listed: &DirectoryListing, is_continued: bool) -> Vec<String> {
    let base = listed.entries.iter().map(entry_level).min().unwrap_or(0);
    let indented = |entry| format!("{}{}", "  ".repeat(entry_level(entry) - base), entry_line(entry));
    let mut lines: Vec<_> = listed.entries.iter().map(indented).collect();
    let above = listed.entries.first().and_then(|first| first.path.rsplit_once('/'));
    if let Some((above, _)) = above.filter(|_| is_continued) {
        lines[0] = format!("{}/ (continued)\n{}", escape_unprintable(above), lines[0]);
    }
    lines
}

/// Returns the depth of the entry below the root.
fn entry_level(entry: &ListedEntry) -> usize {
    entry.path.matches('/').count()
}

/// Returns an entry with its time; with its whole path, if the list goes deeper than one directory.
fn dated_line(entry: &ListedEntry, depth: usize) -> String {
    // To the second: `2026-01-02T03:04:05`.
    let time = entry.modified_at.as_deref().and_then(|time| time.get(..19));
    let name = if depth > 1 { &entry.path } else { &entry.name };
    format!(
        "{:<20}  {}",
        time.map_or_else(|| "-".to_owned(), |time| format!("{time}Z")),
        entry_line_with_name(entry, name)
    )
}

fn entry_line(entry: &ListedEntry) -> String {
    entry_line_with_name(entry, &entry.name)
}

fn entry_line_with_name(entry: &ListedEntry, name: &str) -> String {
    let name = escape_unprintable(name);
    let line = match entry.r#type {
        EntryKind::Directory => format!("{name}/"),
        EntryKind::File => format!("{name}  {}", short_size(entry.size)),
        EntryKind::Symlink => format!("{name}  symlink"),
        EntryKind::Other => format!("{name}  special file"),
    };
    if entry.escaped {
        format!("{line}  (the name is not UTF-8: no tool can open it)")
    } else {
        line
    }
}
