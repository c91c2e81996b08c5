//! Results of operations on files.

use std::ops::Not;

use garret_core::{ChangeMade, ChangedPath, EntryKind, Version};
use schemars::JsonSchema;
use serde::Serialize;

use super::{DiffStatus, is_zero};
use crate::{Encoding, ReadUnit};

/// The part of a file that was returned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ReadRange {
    /// What `start` and `end` count.
    pub unit: ReadUnit,
    /// The first line or byte that is returned.
    pub start: u64,
    /// The first line or byte after it.
    pub end: u64,
}

/// The content of a file, or a part of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FileContent {
    /// The file.
    pub path: String,
    /// Its content, in `encoding`.
    pub content: String,
    /// How `content` is written.
    pub encoding: Encoding,
    /// The version that the content belongs to; a token for `if_version`.
    #[schemars(with = "String")]
    pub version: Version,
    /// The size of the whole file in bytes.
    pub size: u64,
    /// The part returned, where it is not the whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub range: Option<ReadRange>,
    /// The `offset` of the next page, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<u64>,
    /// Whether the content reaches the end of the file.
    pub eof: bool,
    /// Whether the only line returned is cut because it is longer than a page.
    #[serde(skip_serializing_if = "Not::not")]
    pub line_cut: bool,
}

/// A page of a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DirectoryListing {
    /// The entries, each directory before what is in it; by time, the newest first.
    pub entries: Vec<ListedEntry>,
    /// The `cursor` of the next page, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
    /// Set if not every file was captured at this earlier point: the other files are missing.
    #[serde(skip_serializing_if = "Not::not")]
    pub incomplete: bool,
    /// The cursor after each entry, for a caller that shows fewer of them.
    #[serde(skip)]
    pub cursors: Vec<String>,
}

impl DirectoryListing {
    /// Ends the page after `count` entries.
    pub fn shorten(&mut self, count: usize) {
        if count < self.entries.len() {
            self.next_cursor = count.checked_sub(1).and_then(|last| self.cursors.get(last).cloned());
            self.entries.truncate(count);
        }
    }
}

/// An entry of a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ListedEntry {
    /// Its name; the last part of its path.
    #[serde(skip)]
    pub name: String,
    /// Its path.
    pub path: String,
    /// What it is.
    pub r#type: EntryKind,
    /// Bytes of content.
    pub size: u64,
    /// When it last changed, if the storage knows; only in a long list and in a list by time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modified_at: Option<String>,
    /// Set where the name is not UTF-8: it is shown in escaped form, and no tool can open it.
    #[serde(skip_serializing_if = "Not::not")]
    pub escaped: bool,
}

/// A description of an entry; a link is described itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FileStat {
    /// The entry.
    pub path: String,
    /// What it is.
    pub r#type: EntryKind,
    /// Bytes of content.
    pub size: u64,
    /// Permission bits in octal, where the storage keeps them.
    pub mode: Option<String>,
    /// When it was created, if the storage knows.
    pub created_at: Option<String>,
    /// When it last changed, if the storage knows.
    pub modified_at: Option<String>,
    /// The version of a file; a token for `if_version`.
    #[schemars(with = "Option<String>")]
    pub version: Option<Version>,
    /// Where a link points, as written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
}

/// Whether something is there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Existence {
    /// Whether something is there.
    pub exists: bool,
    /// What it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub r#type: Option<EntryKind>,
}

/// A file that was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct WriteResult {
    /// The file.
    pub path: String,
    /// Its version now.
    #[schemars(with = "Option<String>")]
    pub version: Option<Version>,
    /// Its size now.
    pub size: u64,
    /// Whether it is new.
    pub created: bool,
    /// The change that was made, if the history knows it already.
    #[serde(flatten)]
    pub change: Option<ChangeMade>,
}

/// A file that was edited.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct EditResult {
    /// The file.
    pub path: String,
    /// Its version now.
    #[schemars(with = "Option<String>")]
    pub version: Option<Version>,
    /// Its size now; of a trial, the size it would have.
    pub size: u64,
    /// How many places were replaced.
    pub replacements: u64,
    /// How many further places stay, because of `max_replacements`.
    #[serde(skip_serializing_if = "is_zero")]
    pub occurrences_left: u64,
    /// The difference as a unified diff, where the file is text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
    /// The change that was made, if the history knows it already.
    #[serde(flatten)]
    pub change: Option<ChangeMade>,
    /// Set in the result of a dry run, which writes nothing.
    #[serde(skip_serializing_if = "Not::not")]
    pub dry_run: bool,
}

/// The result of a patch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PatchResult {
    /// The paths that it changed, or in a dry run would change, each after `+` (created), `~` (changed) or `-`
    /// (deleted).
    pub paths: Vec<ChangedPath>,
    /// The number of those paths.
    pub path_count: u64,
    /// The files in the order of the patch.
    pub files: Vec<PatchedFile>,
    /// The change that was made, if the history knows it already.
    #[serde(flatten)]
    pub change: Option<ChangeMade>,
    /// Set in the result of a dry run, which writes nothing.
    #[serde(skip_serializing_if = "Not::not")]
    pub dry_run: bool,
}

/// The change that a patch made to one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PatchedFile {
    /// The file; of a rename, its new name.
    pub path: String,
    /// The kind of change.
    pub status: DiffStatus,
    /// The name before, of a rename or copy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub old_path: Option<String>,
    /// The number of added lines.
    pub insertions: usize,
    /// The number of deleted lines.
    pub deletions: usize,
}

/// A directory that was made, or was there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MakeDirResult {
    /// The directory.
    pub path: String,
    /// Whether it is new.
    pub created: bool,
    /// The change that was made, if the history knows it already.
    #[serde(flatten)]
    pub change: Option<ChangeMade>,
}

/// An entry that was removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RemoveResult {
    /// The entry.
    pub path: String,
    /// The change that was made, if the history knows it already.
    #[serde(flatten)]
    pub change: Option<ChangeMade>,
}

/// The result of a copy or a move.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TransferResult {
    /// Where it came from.
    pub src: String,
    /// Where it is now.
    pub dest: String,
    /// How many files arrived; 1 for a single file.
    pub files: u64,
    /// The version of a single file.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub version: Option<Version>,
    /// The change that was made, if the history knows it already.
    #[serde(flatten)]
    pub change: Option<ChangeMade>,
}

/// The number and size of the entries that were put.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PutResult {
    /// How many files.
    pub files: u64,
    /// How many directories.
    pub directories: u64,
    /// How many symbolic links.
    pub links: u64,
    /// Bytes of the files.
    pub bytes: u64,
    /// The change that was made, if the history knows it already.
    #[serde(flatten)]
    pub change: Option<ChangeMade>,
}

/// The entries that several removals removed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RemovalList {
    /// The removed entries, each by a change of its own.
    pub removed: Vec<RemoveResult>,
}

/// The content of one file, or of several.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ReadFilesResult {
    /// The file, if one was requested.
    #[serde(flatten)]
    pub file: Option<FileContent>,
    /// The files that were read, in order, if several were requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files: Option<Vec<FileContent>>,
    /// The files that could not be read, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<FailedRead>,
    /// The files for which the answer had no room.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
}

/// A file that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FailedRead {
    /// The file.
    pub path: String,
    /// The kind of the error, such as `not_found`.
    pub kind: String,
    /// The message of the error.
    pub message: String,
}
