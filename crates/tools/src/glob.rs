//! `glob`: files by their names.

use garret_core::path::{printable, quote};
use garret_core::{EntryPath, Result, WsPath};
use garret_workspace::{GlobFound, GlobRequest, Workspace};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::Annotations;
use crate::arguments::unless_empty;
use crate::limits::Limits;
use crate::point::{self, text_or_number};
use crate::text::{Page, count, incomplete_note, left_out_note, skipped_note, token};
use crate::tool::{Output, Tool};

pub(crate) struct Glob;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Arguments {
    /// The glob, matched against the path below `path`: `*` and `?` stay within one name, `**` crosses directories, `[!a]` and `{a,b}`
    /// work. `*.rs` finds files in the directory itself, `**/*.rs` at any depth.
    pattern: String,
    /// The directory to search, relative to the workspace root. Left out or empty, the root.
    #[serde(default)]
    path: String,
    /// The most paths in this answer. Left out or 0, as many as fit.
    #[serde(default)]
    limit: Option<u64>,
    /// `next_cursor` of the page before, to get the next page.
    #[serde(default, deserialize_with = "unless_empty")]
    cursor: Option<String>,
    /// Also find what `.gitignore` and `.ignore` exclude. Default false.
    #[serde(default)]
    include_ignored: Option<bool>,
    /// Also find what is in `.git`. Default false.
    #[serde(default)]
    include_git: Option<bool>,
    /// Also find directories. Default false.
    #[serde(default)]
    include_directories: Option<bool>,
    /// Look at the past: the label of a snapshot, the id or number of a change (the state just after it), or a time in RFC 3339. Left
    /// out, empty or `now`: now.
    #[serde(default, deserialize_with = "text_or_number")]
    at: Option<String>,
}

impl Tool for Glob {
    type Arguments = Arguments;
    type Data = GlobFound;

    const NAME: &'static str = "glob";
    const SHORT: &'static str = "glob";
    const TITLE: &'static str = "Find files by name";
    const DESCRIPTION: &'static str = "Finds files by a glob on their paths, in byte order, hidden files included. `.git` and ignored files are \
        left out unless asked for. A long result comes in pages; the last line says which `cursor` continues.";
    const ANNOTATIONS: Annotations = Annotations::READS;

    async fn run(workspace: &Workspace, arguments: Arguments, limits: &Limits) -> Result<Output<GlobFound>> {
        let viewed = point::at(workspace, arguments.at.as_deref()).await?;
        let pattern = arguments.pattern.clone();
        let request = GlobRequest {
            pattern: arguments.pattern,
            path: arguments.path,
            limit: limits.page(arguments.limit),
            cursor: arguments.cursor,
            include_ignored: arguments.include_ignored.unwrap_or(false),
            include_git: arguments.include_git.unwrap_or(false),
            include_directories: arguments.include_directories.unwrap_or(false),
            ..GlobRequest::default()
        };
        let found = viewed.glob(request).await?;
        Ok(show(found, &pattern, limits))
    }
}

fn show(mut found: GlobFound, pattern: &str, limits: &Limits) -> Output<GlobFound> {
    let mut page = Page::new(limits);
    let fitting = found
        .paths
        .iter()
        .take_while(|path| page.push(&printable(path)))
        .count();
    shorten(&mut found, fitting);
    let footer = footer(&found, pattern);
    Output::new(page.finish(footer), found)
}

fn footer(found: &GlobFound, pattern: &str) -> Option<String> {
    let skipped = skipped_note(&found.skipped, found.skipped.len() as u64);
    let left_out = left_out_note(found.left_out.as_ref());
    let skipped = format!("{skipped}{left_out}{}", incomplete_note(found.incomplete));
    let paths = count(found.paths.len() as u64, "path", "paths");
    match &found.next_cursor {
        Some(cursor) => Some(format!("[{paths}; more: cursor={}{skipped}]", token(cursor))),
        None if found.paths.is_empty() => Some(format!("[no path matches {}{skipped}]", quote(pattern))),
        None if skipped.is_empty() => None,
        None => Some(format!("[{paths}{skipped}]")),
    }
}

/// Ends the page after `fitting` paths. A path that is shown escaped cannot be a cursor here, so the page ends before it.
fn shorten(found: &mut GlobFound, fitting: usize) {
    if fitting >= found.paths.len() {
        return;
    }
    let last = found.paths[..fitting]
        .iter()
        .rposition(|path| !found.escaped.contains(path));
    let cursor = last.and_then(|last| WsPath::parse(&found.paths[last]).ok().map(|path| (last, path)));
    if let Some((last, path)) = cursor {
        found.paths.truncate(last + 1);
        found.escaped.retain(|path| found.paths.contains(path));
        found.truncated = true;
        found.next_cursor = Some(EntryPath::from(path).to_token());
    }
}
