//! Plain files in and out: a directory of the host or a tar archive becomes one change of a workspace, and the files of a workspace
//! become a directory or an archive.
//!
//! Names that are not UTF-8 travel as bytes, links as links that are never followed; of modes, the permissions alone. Devices, sockets
//! and fifos are left out and reported. An archive cannot name anything outside the place it is put in: `..` and absolute paths are
//! refused, and nothing is written through a link. What is in memory is a few chunks of one file, and the names of all.
//!
//! The host's side runs on a thread of its own and hands entries over a channel: reading a directory and writing one block, and the
//! rest of the depot does not.

mod export;
mod host;
mod import;
mod made;
mod pack;
mod unfinished;
mod unpack;

use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use garret_core::{Change, EntryKind, EntryPath, Error, ErrorKind, Result};
use serde::Serialize;

pub use export::export_storage;

/// Bytes handed over at once.
const CHUNK: usize = 256 * 1024;
/// What an exported file and directory have until they get their own mode: nobody else writes there, whatever the umask.
const FILE_MODE: u32 = 0o644;
const DIRECTORY_MODE: u32 = 0o755;
/// Messages that may wait.
const WAITING: usize = 16;

/// How an archive is compressed.
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
    /// What the name of an archive says; `None` for a name that is not that of an archive.
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

/// Where plain files come from.
pub enum TreeSource {
    /// A directory of the host.
    Directory(PathBuf),
    /// A tar archive.
    Archive(Box<dyn Read + Send>, Compression),
}

/// Where plain files go.
pub enum TreeTarget {
    /// A directory of the host, which is made, or is there and empty.
    Directory(PathBuf),
    /// A tar archive.
    Archive(Box<dyn Write + Send>, Compression),
}

/// What was brought over.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Moved {
    /// Plain files.
    pub files: u64,
    /// Directories.
    pub directories: u64,
    /// Symbolic links.
    pub links: u64,
    /// Bytes of the files.
    pub bytes: u64,
    /// What was left out, and why.
    pub skipped: Vec<Skipped>,
    /// The change that an import made; `None` where nothing differed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<Change>,
}

/// An entry that was left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Skipped {
    /// The entry.
    pub path: EntryPath,
    /// Why.
    pub why: String,
}

/// An entry on its way.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Item {
    path: Vec<u8>,
    form: Form,
    mode: u32,
    /// When it was last changed, in seconds since 1970.
    modified: i64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Form {
    Directory,
    /// A file; so many bytes follow as data.
    File(u64),
    Link(Vec<u8>),
    /// The same content as an entry that came before.
    Same(Vec<u8>),
}

impl Form {
    /// What it makes; of one that is the same as another, what that most often is.
    fn kind(&self) -> EntryKind {
        match self {
            Self::Directory => EntryKind::Directory,
            Self::Link(_) => EntryKind::Symlink,
            Self::File(_) | Self::Same(_) => EntryKind::File,
        }
    }
}

/// What goes over the channel.
#[derive(Debug)]
enum Message {
    Item(Item),
    Data(Bytes),
    Skipped(Skipped),
    /// Everything came: what was made of it may be kept.
    End,
}

impl Moved {
    /// Where entries of a kind are counted.
    fn count_of(&mut self, kind: EntryKind) -> &mut u64 {
        match kind {
            EntryKind::Directory => &mut self.directories,
            EntryKind::Symlink => &mut self.links,
            EntryKind::File | EntryKind::Other => &mut self.files,
        }
    }
}

/// What is kept of a mode that comes in or goes out: no file that starts with another's rights is made of one that did elsewhere.
pub(crate) fn permissions(mode: u32) -> u32 {
    mode & 0o777
}

fn skipped(path: &[u8], why: &str) -> Skipped {
    Skipped {
        path: EntryPath::from_bytes(path.to_vec()),
        why: why.to_owned(),
    }
}

/// Checks a path that comes from outside: relative, in its normal form, of names and a length that a workspace takes.
fn checked_path(path: &[u8]) -> Result<()> {
    let is_odd = |name: &[u8]| matches!(name, b"" | b"." | b"..") || name.len() > 255 || name.contains(&0);
    if path.is_empty() || path.len() > 4096 || path.split(|byte| *byte == b'/').any(is_odd) {
        let shown = EntryPath::from_bytes(path.to_vec()).shown();
        return Err(Error::invalid("a path is not valid in a workspace")
            .at_text(shown)
            .hint("names can have 255 bytes and paths 4096; `..` and absolute paths are refused"));
    }
    Ok(())
}

/// What the other side of the channel says by going away.
fn gone() -> Error {
    Error::new(
        ErrorKind::Unavailable,
        "the thread at the other end of the copy has ended",
    )
}

/// What the host says, without its paths.
fn host_error(error: &std::io::Error, path: &[u8]) -> Error {
    use std::io::ErrorKind::{NotFound, PermissionDenied, StorageFull};
    let (kind, what) = match error.kind() {
        NotFound => (ErrorKind::NotFound, "it does not exist".to_owned()),
        PermissionDenied => (ErrorKind::Denied, "permission denied".to_owned()),
        StorageFull => (ErrorKind::QuotaExceeded, "the disk is full".to_owned()),
        other => (ErrorKind::Unavailable, other.to_string()),
    };
    let error = Error::new(kind, format!("a file outside the workspace cannot be used: {what}"));
    match path.is_empty() {
        true => error,
        false => error.at_text(EntryPath::from_bytes(path.to_vec()).shown()),
    }
    .hint("check that it exists and that you have access to it")
}

/// A path of the host for an entry below `root`; the entry's path was checked.
fn below(root: &Path, path: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    root.join(std::ffi::OsStr::from_bytes(path))
}
