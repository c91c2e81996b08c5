//! Import and export of plain files: a directory of the host or a tar archive becomes one change of a workspace, and
//! the files of a workspace become a directory or an archive.
//!
//! Names that are not UTF-8 are kept as bytes. Links are kept as links and never followed. Of modes, only the
//! permissions are kept. Devices, sockets and fifos are skipped and reported. An archive cannot name anything outside
//! its destination: `..` and absolute paths are refused, and nothing is written through a link. Memory holds a few
//! chunks of one file, and the names of all files.
//!
//! The host's side runs on a separate thread and sends entries over a channel, because reading and writing a directory
//! blocks, and the depot does not.

mod export;
mod host_directory;
mod import;
mod import_files;
mod pack;
mod unfinished_directory;
mod unpack;

use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use garret_core::{Change, EntryKind, EntryPath, Error, ErrorKind, Result};
use serde::Serialize;

pub use export::{export_storage, export_tree};
pub use import::import_tree;
pub use import_files::import_files;

/// Bytes in one data message.
const CHUNK: usize = 256 * 1024;
/// The modes of an exported file and directory until they get their own: nobody else can write there, whatever the
/// umask.
const FILE_MODE: u32 = 0o644;
const DIRECTORY_MODE: u32 = 0o755;
/// The most messages that wait in the channel.
const WAITING: usize = 16;

/// The compression of an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// `.tar`
    None,
    /// `.tar.gz`, `.tgz`
    Gzip,
    /// `.tar.zst`, `.tzst`
    Zstd,
}

impl Compression {
    /// Returns the compression that the name of an archive implies; `None` for a name that is not that of an archive.
    pub fn of_name(name: &str) -> Option<Self> {
        let name = name.to_ascii_lowercase();
        let ends = |endings: &[&str]| endings.iter().any(|ending| name.ends_with(ending));
        match () {
            () if ends(&[".tar"]) => Some(Self::None),
            () if ends(&[".tar.gz", ".tgz"]) => Some(Self::Gzip),
            () if ends(&[".tar.zst", ".tzst", ".tar.zstd"]) => Some(Self::Zstd),
            () => None,
        }
    }
}

/// The source of an import.
pub enum TreeSource {
    /// A directory of the host.
    Directory(PathBuf),
    /// A tar archive.
    Archive(Box<dyn Read + Send>, Compression),
}

/// The target of an export.
pub enum TreeTarget {
    /// A directory of the host, which is created, or exists and is empty.
    Directory(PathBuf),
    /// A tar archive.
    Archive(Box<dyn Write + Send>, Compression),
}

/// The counts of an import or export.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct TreeTransferReport {
    /// Number of plain files.
    pub files: u64,
    /// Number of directories.
    pub directories: u64,
    /// Number of symbolic links.
    pub links: u64,
    /// Bytes of the files.
    pub bytes: u64,
    /// The entries that were skipped, with the reasons.
    pub skipped: Vec<SkippedEntry>,
    /// The change that an import made; `None` if nothing differed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<Change>,
}

/// An entry that was skipped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SkippedEntry {
    /// The entry.
    pub path: EntryPath,
    /// The reason.
    pub why: String,
}

/// An entry in transfer.
#[derive(Debug, Clone, PartialEq, Eq)]
struct TreeItem {
    path: Vec<u8>,
    form: TreeItemForm,
    mode: u32,
    /// The time of its last modification, in seconds since 1970.
    modified: i64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum TreeItemForm {
    Directory,
    /// A file; this number of bytes follows as data.
    File(u64),
    SymbolicLink(Vec<u8>),
    /// A hard link: the content of an earlier entry.
    HardLink(Vec<u8>),
}

impl TreeItemForm {
    /// Returns the kind of entry that the form makes. A hard link counts as a file, which it nearly always is.
    fn kind(&self) -> EntryKind {
        match self {
            Self::Directory => EntryKind::Directory,
            Self::SymbolicLink(_) => EntryKind::Symlink,
            Self::File(_) | Self::HardLink(_) => EntryKind::File,
        }
    }
}

/// A message over the channel.
#[derive(Debug)]
enum TreeMessage {
    Item(TreeItem),
    Data(Bytes),
    Skipped(SkippedEntry),
    /// All entries were sent, so the result may be kept.
    End,
}

impl TreeTransferReport {
    /// Returns the counter for entries of a kind.
    fn counter_for(&mut self, kind: EntryKind) -> &mut u64 {
        match kind {
            EntryKind::Directory => &mut self.directories,
            EntryKind::Symlink => &mut self.links,
            EntryKind::File | EntryKind::Other => &mut self.files,
        }
    }
}

/// Returns the permissions in a mode. The set-user-id, set-group-id and sticky bits are dropped in both directions, so
/// that no file gains the rights of another user in a new place.
pub(crate) fn permission_bits(mode: u32) -> u32 {
    mode & 0o777
}

fn skipped_entry(path: &[u8], why: &str) -> SkippedEntry {
    SkippedEntry {
        path: EntryPath::from_bytes(path.to_vec()),
        why: why.to_owned(),
    }
}

/// Checks a path from outside: it must be relative, in normal form, and have names and a length that a workspace
/// accepts.
fn check_outside_path(path: &[u8]) -> Result<()> {
    let is_odd = |name: &[u8]| matches!(name, b"" | b"." | b"..") || name.len() > 255 || name.contains(&0);
    if path.is_empty() || path.len() > 4096 || path.split(|byte| *byte == b'/').any(is_odd) {
        let shown = EntryPath::from_bytes(path.to_vec()).display_path();
        return Err(Error::invalid("a path is not valid in a workspace")
            .at_path_text(shown)
            .hint("names can have 255 bytes and paths 4096; `..` and absolute paths are refused"));
    }
    Ok(())
}

/// Returns the error for a channel whose other end is closed.
fn channel_closed() -> Error {
    Error::new(
        ErrorKind::Unavailable,
        "the thread at the other end of the copy has ended",
    )
}

/// Converts an error of the host, without its paths.
fn host_error(error: &std::io::Error, path: &[u8]) -> Error {
    use std::io::ErrorKind::{NotFound, PermissionDenied, StorageFull};
    let (kind, what) = match error.kind() {
        NotFound => (ErrorKind::NotFound, "it does not exist".to_owned()),
        PermissionDenied => (ErrorKind::Denied, "permission denied".to_owned()),
        StorageFull => (ErrorKind::QuotaExceeded, "the disk is full".to_owned()),
        other => (ErrorKind::Unavailable, other.to_string()),
    };
    let error = Error::new(kind, format!("a file outside the workspace cannot be used: {what}"));
    if path.is_empty() {
        error
    } else {
        error.at_path_text(EntryPath::from_bytes(path.to_vec()).display_path())
    }
    .hint("check that it exists and that you have access to it")
}

/// Returns the path on the host of an entry below `root`. The path of the entry was checked.
fn host_path(root: &Path, path: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    root.join(std::ffi::OsStr::from_bytes(path))
}
