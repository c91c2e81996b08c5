//! The contract between a workspace and the storage of its files.
//!
//! [`Storage`] is small on purpose: four ways to look, one way to change. Every mutation is data ([`Mutation`]) and
//! goes through [`Storage::apply`], so that policy, quota and journal each look at one list, and "one atomic change"
//! has one meaning. Editing, patching, globbing, searching and everything recursive is written once above it. The trait
//! has no default bodies: a wrapper must forward everything, and the compiler says so.

use std::borrow::Cow;
use std::fmt;
use std::io::Read;
use std::ops::Range;

use async_trait::async_trait;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::time::Timestamp;
use crate::{Actor, ChangeMade, Content, EntryPath, Precondition, Result, Version, WsPath};

/// A tree of files.
///
/// Promises of every implementation: a reader sees the old or the new content of a file, never a mix; every later call
/// sees the result of a call that returned successfully; no path leads outside the root; an error names workspace paths
/// only.
#[async_trait]
pub trait Storage: Send + Sync + fmt::Debug {
    /// Returns the kind of the storage and its native features.
    fn info(&self) -> StorageInfo;

    /// Returns the real path: every symbolic link in it, the last component included, is followed. A component that
    /// does not exist is kept as written. A link that leads outside the root is `path_escape`.
    async fn resolve(&self, path: &WsPath) -> Result<WsPath>;

    /// Describes the entry itself; a link in the last component is not followed.
    async fn stat(&self, path: &WsPath, options: StatOptions) -> Result<Stat>;

    /// Reads a file, whole or a range, with the version that the bytes belong to.
    async fn read(&self, path: &WsPath, options: ReadOptions) -> Result<ReadResult>;

    /// Lists a directory in the byte order of the full paths, a page at a time. Links are listed, never followed.
    async fn list(&self, path: &WsPath, options: ListOptions) -> Result<ListPage>;

    /// Applies the mutations in order, each seeing the ones before it, all or nothing. Returns one [`MutationOutcome`] for
    /// each.
    async fn apply(&self, batch: Batch) -> Result<Vec<MutationOutcome>>;

    /// Opens a directory for a synchronous walk on several threads; `None` if the storage has nothing better than
    /// [`Storage::list`] and [`Storage::read`].
    fn open_directory(&self, path: &WsPath) -> Result<Option<Box<dyn DirectoryHandle>>>;
}

/// A directory opened by handle: everything reached through it stays inside the workspace, whatever others rename
/// meanwhile.
pub trait DirectoryHandle: Send + Sync {
    /// Returns the entries, in no particular order. Links are not followed.
    fn list_entries(&self) -> Result<Vec<DirectoryEntry>>;
    /// Opens the directory `name` in this one; a link is `not_a_directory`.
    fn open_directory(&self, name: &[u8]) -> Result<Box<dyn DirectoryHandle>>;
    /// Opens the file `name` in this directory; any entry other than a plain file is `unsupported`.
    fn open_file(&self, name: &[u8]) -> Result<OpenFile>;
    /// Describes the entry `name` itself. The version of a file is left out if only its content could tell it.
    fn stat_entry(&self, name: &[u8]) -> Result<Stat>;
    /// Changes the entry `name`, to bring back a name that no path can spell. It is done whole or not at all. It takes
    /// no lock and writes to no journal: the caller must have done both.
    fn alter_entry(&self, name: &[u8], alteration: EntryAlteration<'_>) -> Result<()>;
}

/// A name in a [`DirectoryHandle`] and the kind of its entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectoryEntry {
    /// The name, which need not be UTF-8.
    pub name: Vec<u8>,
    /// The kind of the entry.
    pub kind: EntryKind,
}

/// A change of an entry of a [`DirectoryHandle`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryAlteration<'a> {
    /// The entry is created. A name that is taken is `already_exists`.
    Make(NewEntry<'a>),
    /// The file there is replaced by another, in one step.
    Replace {
        /// All of the new content.
        content: &'a Content,
        /// The permission bits.
        mode: u32,
    },
    /// The file, the link or the empty directory is removed. A directory with entries is `not_empty`.
    Remove,
    /// The file or directory gets these permission bits.
    SetMode(u32),
}

/// An entry to create in a [`DirectoryHandle`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NewEntry<'a> {
    /// An empty directory.
    Directory {
        /// The permission bits.
        mode: u32,
    },
    /// A file.
    File {
        /// All of its content.
        content: &'a Content,
        /// The permission bits.
        mode: u32,
    },
    /// A symbolic link.
    Symlink {
        /// The target, as written.
        target: &'a str,
    },
}

/// A file opened for reading from its start.
pub struct OpenFile {
    /// The bytes.
    pub content: Box<dyn Read + Send>,
    /// The number of bytes at opening.
    pub size: u64,
    /// The identity of the opened file, if it has several names.
    pub hard_linked: Option<HardLinkedFile>,
}

/// The identity of a file: it tells whether two names lead to one file. Only for comparison: it does not open a file,
/// and a later file may have the same one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileIdentity {
    /// The device that holds the file.
    pub device: u64,
    /// The number of the file on that device.
    pub number: u64,
}

/// A file that has several names (hard links).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HardLinkedFile {
    /// The identity of the file.
    pub identity: FileIdentity,
    /// The number of names of the file, including those outside the workspace.
    pub names: u64,
}

impl fmt::Debug for OpenFile {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("OpenFile")
            .field("size", &self.size)
            .finish_non_exhaustive()
    }
}

/// Whether symbolic links in the path of an entry are followed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Follow {
    /// Links that stay inside the workspace work; others are `path_escape`.
    #[default]
    Inside,
    /// A link anywhere in the path is `path_escape`: the caller has resolved and checked the path, and no race may
    /// change it.
    Never,
}

/// What is at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EntryKind {
    /// A plain file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A fifo, socket or device: listed, never opened.
    Other,
}

/// The options of [`Storage::stat`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StatOptions {
    /// The treatment of links above the entry.
    pub follow: Follow,
    /// Whether the version of a file is wanted; it may cost a read.
    pub with_version: bool,
}

/// A description of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stat {
    /// The kind of the entry.
    pub kind: EntryKind,
    /// Bytes of content; 0 for directories.
    pub size: u64,
    /// Permission bits, if the storage keeps them.
    pub mode: Option<u32>,
    /// The time of its creation, if the storage knows it.
    pub created: Option<Timestamp>,
    /// The time of the last change of its content, if the storage knows it.
    pub modified: Option<Timestamp>,
    /// The time of the last change of content, mode, name or number of links, by a clock that no program sets; if the
    /// storage knows it.
    pub changed: Option<Timestamp>,
    /// The version of a file, if it was requested.
    pub version: Option<Version>,
    /// The target of a link, as written.
    pub target: Option<String>,
    /// The identity of the file, if it has several names (hard links).
    pub hard_linked: Option<HardLinkedFile>,
}

/// The options of [`Storage::read`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReadOptions {
    /// The range of bytes; bytes past the end are left out. `None` for the whole file.
    pub range: Option<Range<u64>>,
    /// The treatment of links.
    pub follow: Follow,
    /// More bytes than this are `too_large`; this is checked before they are read.
    pub max_bytes: Option<u64>,
    /// A condition on the file; if it does not hold, the read is a `conflict`.
    pub precondition: Precondition,
}

/// The result of [`Storage::read`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadResult {
    /// The requested bytes.
    pub bytes: Bytes,
    /// The size of the whole file.
    pub size: u64,
    /// The version that the bytes belong to.
    pub version: Version,
    /// Permission bits, if the storage keeps them.
    pub mode: Option<u32>,
    /// The identity of the file, if it has several names.
    pub hard_linked: Option<HardLinkedFile>,
}

/// The options of [`Storage::list`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListOptions {
    /// Whether the entries below the directories are listed too.
    pub is_deep: bool,
    /// The last entry of the page before.
    pub after: Option<EntryPath>,
    /// The most entries in this page.
    pub limit: usize,
    /// The treatment of links above the directory.
    pub follow: Follow,
}

impl Default for ListOptions {
    fn default() -> Self {
        Self {
            is_deep: false,
            after: None,
            limit: 1_000,
            follow: Follow::Inside,
        }
    }
}

/// A page of a list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListPage {
    /// The entries in order.
    pub entries: Vec<Entry>,
    /// Whether more follow the last one.
    pub has_more: bool,
}

/// An entry of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its path below the root.
    pub path: EntryPath,
    /// The kind of the entry.
    pub kind: EntryKind,
    /// Bytes of content; 0 for directories.
    pub size: u64,
    /// The time of the last change of its content, if the storage knows it.
    pub modified: Option<Timestamp>,
    /// The version of a file, if a list tells it at no cost; [`Storage::stat`] tells it for every storage.
    pub version: Option<Version>,
    /// The identity of the file, if it has several names.
    pub hard_linked: Option<HardLinkedFile>,
}

/// Mutations that happen together or not at all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Batch {
    /// The mutations in order.
    pub mutations: Vec<Mutation>,
    /// The treatment of links in every path.
    pub follow: Follow,
    /// The operation and actor behind the batch, for a storage that keeps a journal; others ignore it.
    pub origin: Origin,
}

impl From<Mutation> for Batch {
    fn from(mutation: Mutation) -> Self {
        Self {
            mutations: vec![mutation],
            ..Self::default()
        }
    }
}

/// The origin of a [`Batch`]: the description of its change in the journal.
///
/// Never holds content, arguments, environment values or output: a journal outlives the session that wrote it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Origin {
    /// The operation, by the canonical name of its tool; empty if the caller names none.
    pub operation: Cow<'static, str>,
    /// A description of the change, in a few words; empty for a description made from the mutations.
    pub summary: String,
    /// The actor.
    pub actor: Actor,
    /// The command that made the change, if one did.
    pub command: Option<String>,
}

/// One step of a [`Batch`].
///
/// Paths that are links: `Write`, `Append`, `SetMode` and the source of `Copy` act on the target of the link; `Remove`,
/// `Rename` and `Symlink` act on the link itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mutation {
    /// Puts `content` at `path`; an existing file keeps its mode unless one is given.
    Write {
        /// The file.
        path: WsPath,
        /// All of its new content.
        content: Content,
        /// The condition for the write.
        precondition: Precondition,
        /// New permission bits.
        mode: Option<u32>,
        /// Whether missing directories above are made.
        parents: bool,
    },
    /// Puts `content` at the end of `path`.
    Append {
        /// The file.
        path: WsPath,
        /// The bytes to add.
        content: Bytes,
        /// The condition for the append.
        precondition: Precondition,
        /// Whether a missing file, and missing directories above, are made.
        create: bool,
    },
    /// Removes a file, a link or a directory; the root is `denied`.
    Remove {
        /// The entry.
        path: WsPath,
        /// Whether a directory may have entries.
        recursive: bool,
        /// The condition for the removal.
        precondition: Precondition,
    },
    /// Moves a file, a link or a whole directory. Onto itself it is a no-op; below itself it is `invalid`.
    Rename {
        /// The entry.
        from: WsPath,
        /// Its new path.
        to: WsPath,
        /// Whether a file (or an empty directory, by a directory) at `to` is replaced.
        overwrite: bool,
        /// Whether missing directories above `to` are made.
        parents: bool,
    },
    /// Copies one file with its mode.
    Copy {
        /// The file.
        from: WsPath,
        /// The copy.
        to: WsPath,
        /// Whether a file at `to` is replaced.
        overwrite: bool,
        /// Whether missing directories above `to` are made.
        parents: bool,
    },
    /// Makes a directory.
    MakeDir {
        /// The directory.
        path: WsPath,
        /// Whether missing directories above are made, and an existing directory is fine.
        parents: bool,
    },
    /// Makes a symbolic link; one that would lead outside is made all the same and cannot be followed. A target that no
    /// system takes ([`check_target`](crate::path::check_target)) is `invalid`.
    Symlink {
        /// The link.
        path: WsPath,
        /// The target, as written.
        target: String,
    },
    /// Sets the permission bits of a file or directory.
    SetMode {
        /// The entry.
        path: WsPath,
        /// The permission bits, of `0o7777`.
        mode: u32,
    },
}

impl Mutation {
    /// Returns a write that replaces any file at the path and makes the directories above it.
    pub fn write(path: WsPath, content: impl Into<Content>) -> Self {
        Self::Write {
            path,
            content: content.into(),
            precondition: Precondition::Any,
            mode: None,
            parents: true,
        }
    }

    /// Returns the path that this mutation changes; for a rename or copy, the new one.
    pub fn path(&self) -> &WsPath {
        match self {
            Self::Write { path, .. }
            | Self::Append { path, .. }
            | Self::Remove { path, .. }
            | Self::MakeDir { path, .. }
            | Self::Symlink { path, .. }
            | Self::SetMode { path, .. } => path,
            Self::Rename { to, .. } | Self::Copy { to, .. } => to,
        }
    }
}

/// The state of a path after its mutation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MutationOutcome {
    /// The version of the file at the path now, if a file is there. A mutation that is alone in its batch always has
    /// it, except an append to a large file; in a larger batch it is set if the storage knows it without more work.
    pub version: Option<Version>,
    /// Its size.
    pub size: u64,
    /// Whether the mutation created the entry.
    pub created: bool,
    /// The change that the batch became, if the storage keeps a history and knows the change without more work.
    pub change: Option<ChangeMade>,
}

/// The failures that a successfully returned change survives.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// The end of the process and the loss of power.
    #[default]
    Full,
    /// The end of the process. A loss of power may take the newest changes.
    Relaxed,
}

/// The kind of a storage and its native features.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StorageInfo {
    /// The kind under which it is registered.
    pub kind: String,
    /// Whether its content outlives the process.
    pub is_durable: bool,
    /// Whether it keeps permission bits.
    pub has_modes: bool,
    /// Whether it keeps symbolic links.
    pub has_symlinks: bool,
    /// Whether one file can have several names (hard links). Such a storage tells the identity of each entry, and opens
    /// directories by handle.
    #[serde(skip)]
    pub has_hard_links: bool,
    /// The permission bits of a new file that is written without a mode; `None` if they depend on the file.
    #[serde(skip)]
    pub file_mode: Option<u32>,
}
