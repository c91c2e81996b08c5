//! A workspace as one portable file: with its history, or only its files at a point.
//!
//! # The format, version 1
//!
//! A tar archive compressed with zstd, in this order:
//!
//! | entry | what it holds |
//! |---|---|
//! | `manifest.json` | `format` (`garret-workspace`), `version` (1), `name`, `head`, `oldest`, `oldest_at`, `has_history` |
//! | `journal/N.jsonl` | records, one JSON object a line, each with its `type`: `change`, `entry`, `move`, `reversal`, `snapshot` |
//! | `content/HASH` | a piece of content, plain, by the BLAKE3 of its bytes |
//! | `lists/HASH` | the parts of a larger content (32 bytes of address and 8 of size, little-endian, for each), after the parts themselves |
//! | `end.json` | how many records and pieces there are, and the BLAKE3 of everything before (name, NUL, bytes of each entry) |
//!
//! Paths are written as [`garret_core::EntryPath::to_token`] does, so a name that is not UTF-8 travels too. Times are microseconds since
//! 1970. An entry without `until` lives. A branch travels as a workspace of its own: what it inherits becomes what it begins with.
//!
//! Both directions stream: what is in memory is one piece of content (at most a few MiB) and the addresses of all of them. A file is
//! read twice on import: once to verify every byte of it, and only then to take it in, out of everybody's sight until it is whole. So a
//! file that is cut short, damaged, or of a newer version leaves nothing behind.

mod contents;
mod export;
mod file;
mod import;
mod records;

pub use export::{Exported, Extent};
pub use file::Manifest;
pub use import::Imported;

use serde::Serialize;

/// How far a long operation has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Progress {
    /// Files, or pieces of content, that are done.
    pub files: u64,
    /// Bytes of content that are done.
    pub bytes: u64,
    /// Bytes of content in all, where that is known.
    pub total: Option<u64>,
}

/// Is told how far a long operation has come.
pub type Watch<'w> = &'w mut (dyn FnMut(Progress) + Send);
