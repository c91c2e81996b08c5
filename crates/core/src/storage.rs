//! The contract between a workspace and the place where its files live.
//!
//! [`Storage`] is small on purpose: four ways to look, one way to change. Every mutation is data ([`Mutation`]) and goes through
//! [`Storage::apply`], so that policy, quota and journal each look at one list, and "one atomic change" has one meaning. Editing,
//! patching, globbing, searching and everything recursive is written once above it. The trait has no default bodies: a wrapper must
//! forward everything, and the compiler says so.

use std::fmt;
use std::io::Read;
use std::ops::Range;

use async_trait::async_trait;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::time::Timestamp;
use crate::{Actor, Content, EntryPath, Precondition, Result, Version, WsPath};

/// A tree of files.
///
/// Promises of every implementation: a reader sees the old or the new content of a file, never a mix; what a call returned as done is
/// seen by every later call; no path leads outside the root; an error names workspace paths only.
#[async_trait]
pub trait Storage: Send + Sync + fmt::Debug {
    /// What this storage is and does natively.
    fn info(&self) -> StorageInfo;

    /// The real path: every symbolic link on the way, the last component included, is followed. A part that does not exist is kept
    /// as written. A link that leads outside the root is `path_escape`.
    async fn resolve(&self, path: &WsPath) -> Result<WsPath>;

    /// Describes the entry itself; a link in the last place is not followed.
    async fn stat(&self, path: &WsPath, options: StatOptions) -> Result<Stat>;

    /// Reads a file, whole or a range, with the version the bytes belong to.
    async fn read(&self, path: &WsPath, options: ReadOptions) -> Result<ReadResult>;

    /// Lists a directory in the byte order of the full paths, a page at a time. Links are listed, never followed.
    async fn list(&self, path: &WsPath, options: ListOptions) -> Result<ListPage>;

    /// Applies the mutations in order, each seeing the ones before it, all or nothing. Returns one [`Applied`] for each.
    async fn apply(&self, batch: Batch) -> Result<Vec<Applied>>;

    /// Opens a directory for a synchronous walk on several threads; `None` where the storage has nothing better than
    /// [`Storage::list`] and [`Storage::read`].
    fn open_directory(&self, path: &WsPath) -> Result<Option<Box<dyn Directory>>>;
}

/// A directory opened by handle: what is reached through it stays inside the workspace, whatever others rename meanwhile.
pub trait Directory: Send + Sync {
    /// The entries, in no particular order. Links are not followed.
    fn entries(&self) -> Result<Vec<DirectoryEntry>>;
    /// Opens the directory `name` in this one; a link is `not_a_directory`.
    fn open_directory(&self, name: &[u8]) -> Result<Box<dyn Directory>>;
    /// Opens the file `name` in this directory; anything but a plain file is `unsupported`.
    fn open_file(&self, name: &[u8]) -> Result<OpenFile>;
    /// Describes the entry `name` itself. The version of a file is left out where only its content could tell it.
    fn stat(&self, name: &[u8]) -> Result<Stat>;
    /// Changes the entry `name`, for whoever brings back a name that no path can spell. It is done whole or not at all; no lock is taken
    /// and no journal told, so whoever calls this has seen to both.
    fn alter(&self, name: &[u8], alteration: Alteration<'_>) -> Result<()>;
}

/// A name in a [`Directory`] and what it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectoryEntry {
    /// The name, which need not be UTF-8.
    pub name: Vec<u8>,
    /// What it is.
    pub kind: EntryKind,
}

/// What becomes of an entry of a [`Directory`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Alteration<'a> {
    /// It comes to be. A name that is taken is `already_exists`.
    Make(NewEntry<'a>),
    /// The file there gives way to another, in one step.
    Replace {
        /// All of the new content.
        content: &'a Content,
        /// The permission bits.
        mode: u32,
    },
    /// The file, the link or the empty directory goes. One with entries is `not_empty`.
    Remove,
    /// The file or directory gets these permission bits.
    SetMode(u32),
}

/// Something to make in a [`Directory`].
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
        /// Where it points, as written.
        target: &'a str,
    },
}

/// A file opened for reading from its start.
pub struct OpenFile {
    /// The bytes.
    pub content: Box<dyn Read + Send>,
    /// How many there were at opening.
    pub size: u64,
    /// Which file was opened, where it has several names.
    pub hard_linked: Option<HardLinkedFile>,
}

/// Tells whether two names lead to one file. Only for comparison: it is no way to a file, and a file that comes later may have it again.
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
    /// Which file it is.
    pub identity: FileIdentity,
    /// How many names the file has, those outside the workspace included.
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

/// Whether symbolic links on the way to an entry are followed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Follow {
    /// Links that stay inside the workspace work; others are `path_escape`.
    #[default]
    Inside,
    /// A link anywhere in the path is `path_escape`: the caller has resolved the path and checked it, and no race may change it.
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

/// How to [`Storage::stat`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StatOptions {
    /// How links above the entry are treated.
    pub follow: Follow,
    /// Whether the version of a file is wanted; it may cost a read.
    pub with_version: bool,
}

/// A description of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stat {
    /// What it is.
    pub kind: EntryKind,
    /// Bytes of content; 0 for directories.
    pub size: u64,
    /// Permission bits, where the storage keeps them.
    pub mode: Option<u32>,
    /// When it was created, if the storage knows.
    pub created: Option<Timestamp>,
    /// When its content last changed, where the storage knows.
    pub modified: Option<Timestamp>,
    /// When content, mode, name or number of links last changed, by a clock that no program sets; where the storage knows.
    pub changed: Option<Timestamp>,
    /// The version of a file, where it was asked for.
    pub version: Option<Version>,
    /// Where a link points, as written.
    pub target: Option<String>,
    /// Which file it is, where the file has several names (hard links).
    pub hard_linked: Option<HardLinkedFile>,
}

/// How to [`Storage::read`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReadOptions {
    /// The bytes wanted; what lies past the end is left out. `None` for the whole file.
    pub range: Option<Range<u64>>,
    /// How links are treated.
    pub follow: Follow,
    /// More bytes than this are `too_large`, found out before they are read.
    pub max_bytes: Option<u64>,
    /// What must hold of the file; otherwise it is a `conflict`.
    pub precondition: Precondition,
}

/// What [`Storage::read`] gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadResult {
    /// The bytes asked for.
    pub bytes: Bytes,
    /// The size of the whole file.
    pub size: u64,
    /// The version that the bytes belong to.
    pub version: Version,
    /// Permission bits, where the storage keeps them.
    pub mode: Option<u32>,
    /// Which file was read, where it has several names.
    pub hard_linked: Option<HardLinkedFile>,
}

/// How to [`Storage::list`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListOptions {
    /// Whether what lies below the directories is listed too.
    pub is_deep: bool,
    /// The last entry of the page before.
    pub after: Option<EntryPath>,
    /// The most entries in this page.
    pub limit: usize,
    /// How links above the directory are treated.
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
    /// What it is.
    pub kind: EntryKind,
    /// Bytes of content; 0 for directories.
    pub size: u64,
    /// When its content last changed, where the storage knows.
    pub modified: Option<Timestamp>,
    /// The version of a file, where a list tells it at no cost; [`Storage::stat`] tells it everywhere.
    pub version: Option<Version>,
    /// Which file it is, where the file has several names.
    pub hard_linked: Option<HardLinkedFile>,
}

/// Mutations that happen together or not at all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Batch {
    /// The mutations in order.
    pub mutations: Vec<Mutation>,
    /// How links on the way to every path are treated.
    pub follow: Follow,
    /// Where the batch comes from, for a storage that keeps a journal; others pass it by.
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

/// Where a [`Batch`] comes from: what its change says in the journal.
///
/// Never holds content, arguments, environment values or output: a journal outlives the session that wrote it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Origin {
    /// The operation, by the canonical name of its tool; empty where the caller names none.
    pub operation: &'static str,
    /// What was done, in a few words; empty for words made from the mutations.
    pub summary: String,
    /// Who did it.
    pub actor: Actor,
    /// The command that did it, where one did.
    pub command: Option<String>,
}

/// One step of a [`Batch`].
///
/// Paths that are links: `Write`, `Append`, `SetMode` and the source of `Copy` act on what the link leads to; `Remove`, `Rename`
/// and `Symlink` on the link itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mutation {
    /// Puts `content` at `path`; an existing file keeps its mode unless one is given.
    Write {
        /// The file.
        path: WsPath,
        /// All of its new content.
        content: Content,
        /// What must hold.
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
        /// What must hold.
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
        /// What must hold.
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
    /// Makes a symbolic link; one that would lead outside is made all the same and cannot be followed. A target that no system takes
    /// ([`check_target`](crate::path::check_target)) is `invalid`.
    Symlink {
        /// The link.
        path: WsPath,
        /// Where it points, as written.
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
    /// A write that replaces whatever file is there and makes the directories above.
    pub fn write(path: WsPath, content: impl Into<Content>) -> Self {
        Self::Write {
            path,
            content: content.into(),
            precondition: Precondition::Any,
            mode: None,
            parents: true,
        }
    }

    /// The path that this mutation changes; of a rename or copy, the new one.
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

/// What a mutation left behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    /// The version of the file now at the path, where a file is there. A mutation that is alone in its batch tells it, except an append to a
    /// large file; in a larger batch it is told where the storage knows it without more work.
    pub version: Option<Version>,
    /// Its size.
    pub size: u64,
    /// Whether something is there that was not there before.
    pub created: bool,
}

/// What a change that was returned as done survives.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// The end of the process and the loss of power.
    #[default]
    Full,
    /// The end of the process. A loss of power may take the newest changes.
    Relaxed,
}

/// What a storage is.
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
    /// Whether one file can have several names (hard links). Such a storage tells which file an entry is, and opens directories by handle.
    #[serde(skip)]
    pub has_hard_links: bool,
    /// The permission bits that a new file has where none are given, where that is the same for every file.
    #[serde(skip)]
    pub file_mode: Option<u32>,
}
