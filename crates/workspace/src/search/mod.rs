//! Finding files by name and by content, with one meaning on every storage.
//!
//! There is one walk ([`walk`]), over [`garret_core::Directory`] handles: a local storage opens real ones, and [`listed`] makes them from
//! the lists of any other. What is ignored, hidden or out of bounds is decided once, on the way down ([`ignore`]); `glob` and `grep` are
//! visitors of that walk. Nothing is indexed, so a search sees every write that returned before it: of files that are far away, a list tells
//! which version each has now ([`far`]), and only the content of versions that lie at hand is not fetched.
//!
//! What both leave out unless asked: everything named `.git`, and what `.gitignore`, `.ignore` and `.git/info/exclude` exclude, as
//! ripgrep reads them with `--no-require-git`. Those files count from the root of the workspace (or scope) down, whether or not policy
//! lets them be read: they can only take results away. Links are named by `glob` and skipped by `grep`, and never followed, except where
//! the path to search is itself a link that stays inside; results then carry the real path.

mod far;
mod gather;
mod glob;
mod grep;
mod ignore;
mod lines;
mod listed;
mod pattern;
mod plan;
mod run;
mod walk;

use garret_core::EntryPath;
use schemars::JsonSchema;
use serde::Serialize;

pub use glob::{GlobFound, GlobRequest};
pub use grep::{FileCount, GrepFound, GrepMatch, GrepOutput, GrepRequest};
pub use plan::GrepSink;

/// The most skipped files that a result names; `skipped_count` tells how many there were.
pub const MAX_SKIPPED: usize = 1_000;

/// A file or directory that a search left out although it was asked for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub struct Skipped {
    /// Its path; bytes that are not UTF-8 as `\xFF`.
    pub path: String,
    /// Why: `binary`, `too_large`, `special_file`, `name_not_utf8`, `path_too_long`, or the kind of the error that reading it gave.
    pub reason: &'static str,
}

/// What a search did not look at, because a limit of the storage says so.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LeftOut {
    /// Everything that comes after this path in byte order.
    pub after: String,
    /// The option that set the limit.
    pub reason: &'static str,
}

impl Skipped {
    fn new(path: &[u8], reason: &'static str) -> Self {
        let path = shown(path);
        Self { path, reason }
    }
}

fn shown(path: &[u8]) -> String {
    match std::str::from_utf8(path) {
        Ok(text) => text.to_owned(),
        Err(_) => EntryPath::Raw(path.to_vec()).shown(),
    }
}
