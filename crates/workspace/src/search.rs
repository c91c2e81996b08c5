//! Finding files by name and by content, with one meaning on every storage.
//!
//! There is one walk ([`walk`]), over [`garret_core::DirectoryHandle`] handles: a local storage opens real ones, and for any
//! other storage they are made from its lists. Ignored, hidden and denied entries are left out once, on the way down
//! ([`ignore`]); `glob` and `grep` are visitors of that walk. Nothing is indexed, so a search sees every write that
//! returned before it. For remote files, a list tells the current version of each; content is fetched unless this
//! machine has that very version.
//!
//! Unless the request says otherwise, both leave out everything named `.git` and all paths that `.gitignore`, `.ignore`
//! and `.git/info/exclude` exclude, as ripgrep reads these files with `--no-require-git`. They count from the root of
//! the workspace (or scope) down, whether or not the policy lets them be read: they can only take results away. Links
//! are named by `glob` and skipped by `grep`, and never followed. Only the path to search may itself be a link that
//! stays inside; results then carry the real path.

mod first_results;
mod glob;
mod grep;
mod grep_plan;
mod ignore;
mod line_collector;
mod listed_tree;
mod path_glob;
mod remote_list;
mod search_task;
mod walk;

use garret_core::EntryPath;
use schemars::JsonSchema;
use serde::Serialize;

pub use glob::{GlobRequest, GlobResult};
pub use grep::{FileCount, GrepMatch, GrepOutput, GrepRequest, GrepResult};
pub use grep_plan::GrepSink;

/// The most skipped files that a result names; `skipped_count` is the number of all.
pub const MAX_SKIPPED: usize = 1_000;

/// A file or directory that a search left out although it was asked for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub struct SkippedPath {
    /// Its path; bytes that are not UTF-8 as `\xFF`.
    pub path: String,
    /// Why: `binary`, `too_large`, `special_file`, `name_not_utf8`, `path_too_long`, or the kind of the error that reading it gave.
    pub reason: &'static str,
}

/// The paths that a search did not look at because of a limit of the storage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SearchCutoff {
    /// Everything that comes after this path in byte order.
    pub after: String,
    /// The option that set the limit.
    pub reason: &'static str,
}

impl SkippedPath {
    fn new(path: &[u8], reason: &'static str) -> Self {
        let path = show_path(path);
        Self { path, reason }
    }
}

fn show_path(path: &[u8]) -> String {
    match std::str::from_utf8(path) {
        Ok(text) => text.to_owned(),
        Err(_) => EntryPath::Raw(path.to_vec()).display_path(),
    }
}
