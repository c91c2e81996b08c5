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

use crate::SkippedPath;

pub use glob::GlobRequest;
pub use grep::{GrepOutput, GrepRequest};
pub use grep_plan::GrepSink;

/// The most skipped files that a result names; `skipped_count` is the number of all.
pub const MAX_SKIPPED: usize = 1_000;

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
