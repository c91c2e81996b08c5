//! `glob`: finds files by their names.

use garret_core::path::{escape_unprintable, quote};
use garret_workspace::{GlobRequest, GlobResult, ListSortOrder, Workspace};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::arguments::unless_empty;
use crate::point::{self, text_or_number};
use crate::text::{AnswerPage, format_count, incomplete_note, left_out_note, quote_token, skipped_note};
use crate::tool::{Tool, ToolOutput, ToolResult};
use crate::{Annotations, AnswerLimits};

pub(crate) struct GlobTool;

#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Arguments {
    /// Matched against the path below `path`: `*.rs` in that directory alone, `**/*.rs` at any depth; `{a,b}` and `[!a]` work.
    pattern: String,
    /// Directory; default the root.
    #[serde(default)]
    path: String,
    limit: Option<u64>,
    /// By path (default) or the newest first.
    #[serde(default, deserialize_with = "unless_empty")]
    sort: Option<ListSortOrder>,
    #[serde(default, deserialize_with = "unless_empty")]
    cursor: Option<String>,
    /// Also what `.gitignore` excludes.
    include_ignored: Option<bool>,
    include_git: Option<bool>,
    include_directories: Option<bool>,
    #[serde(default, deserialize_with = "text_or_number")]
    at: Option<String>,
}

impl Tool for GlobTool {
    type Arguments = Arguments;
    type Data = GlobResult;

    const NAME: &'static str = "glob";
    const SHORT: &'static str = "glob";
    const TITLE: &'static str = "Find files by name";
    const DESCRIPTION: &'static str = "Finds files by name, including hidden files, but not `.git` or ignored files.";
    const ANNOTATIONS: Annotations = Annotations::READS;

    async fn run(workspace: &Workspace, arguments: Arguments, limits: &AnswerLimits) -> ToolResult<Self> {
        let viewed = point::view_at(workspace, arguments.at.as_deref()).await?;
        let pattern = arguments.pattern.clone();
        let limits = limits.for_limit(arguments.limit);
        let request = GlobRequest {
            pattern: arguments.pattern,
            path: arguments.path,
            limit: limits.page_size(arguments.limit),
            cursor: arguments.cursor,
            sort: arguments.sort.unwrap_or_default(),
            include_ignored: arguments.include_ignored.unwrap_or(false),
            include_git: arguments.include_git.unwrap_or(false),
            include_directories: arguments.include_directories.unwrap_or(false),
            ..GlobRequest::default()
        };
        let found = viewed.glob(request).await?;
        Ok(format_page(found, &pattern, &limits))
    }
}

fn format_page(mut found: GlobResult, pattern: &str, limits: &AnswerLimits) -> ToolOutput<GlobResult> {
    let mut page = AnswerPage::new(limits);
    let fitting = found
        .paths
        .iter()
        .take_while(|path| page.push_block(&escape_unprintable(path)))
        .count();
    found.shorten(fitting);
    let footer = format_footer(&found, pattern);
    ToolOutput::new(page.finish(footer), found)
}

fn format_footer(found: &GlobResult, pattern: &str) -> Option<String> {
    let skipped = skipped_note(&found.skipped, found.skipped.len() as u64);
    let left_out = left_out_note(found.left_out.as_ref());
    let skipped = format!("{skipped}{left_out}{}", incomplete_note(found.incomplete));
    let paths = format_count(found.paths.len() as u64, "path", "paths");
    match &found.next_cursor {
        Some(cursor) => Some(format!("[{paths}; more: cursor={}{skipped}]", quote_token(cursor))),
        None if found.paths.is_empty() => Some(format!("[no path matches {}{skipped}]", quote(pattern))),
        None if skipped.is_empty() => None,
        None => Some(format!("[{paths}{skipped}]")),
    }
}
