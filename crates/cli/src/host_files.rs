//! Files of this machine that go into a workspace, and files of a workspace that are written onto this machine.
//!
//! The user chose the files of this machine, so a link that the command names is followed. The files of a workspace
//! were written by others: nothing is written through a link, and no file is replaced unless the user asks for it.

#![allow(
    clippy::disallowed_methods,
    reason = "the command line reads and writes the files that its user names"
)]

use std::fs::{File, Metadata, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use garret::path::quote;
use garret::{Content, ContentSource, Error, ErrorKind, PutEntry, PutItem, Result};
use tempfile::NamedTempFile;

use crate::progress::ProgressCounter;

/// The most bytes that are read of a file without a size.
const MAX_UNSIZED_BYTES: u64 = 64 << 20;

/// Files and directories of this machine that go into a workspace.
#[derive(Debug, Default)]
pub(crate) struct HostTree {
    pub(crate) entries: Vec<PutEntry>,
    /// Bytes of all files.
    pub(crate) bytes: u64,
    /// One line for each entry that is left out, with the reason.
    pub(crate) left_out: String,
}

impl HostTree {
    /// Adds the file or directory `source`, with everything below it, to go to `path` of the workspace.
    pub(crate) fn add_source(&mut self, source: &Path, path: &str, counter: &ProgressCounter) -> Result<()> {
        // Follows a link, because the user named it; links below it stay links.
        let metadata = std::fs::metadata(source).map_err(|error| file_error(source, "read", &error))?;
        self.add_entry(source, path, &metadata, counter)
    }

    fn add_entry(&mut self, source: &Path, path: &str, metadata: &Metadata, counter: &ProgressCounter) -> Result<()> {
        let kind = metadata.file_type();
        if kind.is_dir() {
            self.push_entry(path, PutItem::Directory);
            return self.add_below(source, path, counter);
        }
        if kind.is_symlink() {
            let target = std::fs::read_link(source).map_err(|error| file_error(source, "read", &error))?;
            match target.to_str() {
                Some(target) => self.push_entry(path, PutItem::Symlink { target: target.into() }),
                None => self.leave_out(source, "its target is not UTF-8"),
            }
            return Ok(());
        }
        if !kind.is_file() {
            self.leave_out(source, "it is a special file");
            return Ok(());
        }
        // Files of `/proc` report a size of 0, although they have content.
        let unsized_bytes = match metadata.len() {
            0 => read_unsized(source)?,
            _ => Vec::new(),
        };
        let content = if unsized_bytes.is_empty() {
            self.bytes += metadata.len();
            Content::from_source(HostFile {
                path: source.to_owned(),
                size: metadata.len(),
                counter: counter.clone(),
            })
        } else {
            self.bytes += unsized_bytes.len() as u64;
            Content::from(unsized_bytes)
        };
        // Without set-user-id and its like: a copy must not give anybody the rights of its owner.
        let mode = Some(metadata.permissions().mode() & 0o777);
        self.push_entry(path, PutItem::File { content, mode });
        Ok(())
    }

    fn add_below(&mut self, directory: &Path, path: &str, counter: &ProgressCounter) -> Result<()> {
        let unreadable = |error: io::Error| file_error(directory, "read", &error);
        let mut entries = Vec::new();
        for entry in std::fs::read_dir(directory).map_err(unreadable)? {
            entries.push(entry.map_err(unreadable)?);
        }
        // The kernel lists a directory in no fixed order.
        entries.sort_by_key(std::fs::DirEntry::file_name);
        for entry in entries {
            let source = entry.path();
            let name = entry.file_name();
            let Some(name) = name.to_str() else {
                self.leave_out(&source, "its name is not UTF-8");
                continue;
            };
            let metadata = entry.metadata().map_err(|error| file_error(&source, "read", &error))?;
            self.add_entry(&source, &join_path(path, name), &metadata, counter)?;
        }
        Ok(())
    }

    fn push_entry(&mut self, path: &str, item: PutItem) {
        self.entries.push(PutEntry {
            path: path.to_owned(),
            item,
        });
    }

    fn leave_out(&mut self, source: &Path, why: &str) {
        let name = garret::path::quote(&source.to_string_lossy());
        self.left_out.push_str(&format!("left out: {name} ({why})\n"));
    }
}

/// Returns the path of `name` in the directory `path` of a workspace.
pub(crate) fn join_path(path: &str, name: &str) -> String {
    match path.trim_end_matches('/') {
        "" | "." => name.to_owned(),
        path => format!("{path}/{name}"),
    }
}

/// Returns the last name of a path as it was typed; empty for `.`, `..` and the root, which have none.
pub(crate) fn last_name(path: &str) -> &str {
    match path.trim_end_matches('/').rsplit('/').next() {
        Some("." | "..") | None => "",
        Some(name) => name,
    }
}

/// A file of this machine as content.
#[derive(Debug)]
struct HostFile {
    path: PathBuf,
    size: u64,
    counter: ProgressCounter,
}

impl ContentSource for HostFile {
    fn size(&self) -> u64 {
        self.size
    }

    fn open(&self) -> Result<Box<dyn Read + Send>> {
        // Opened only now: the files of a large tree would be more than a process may have open.
        let file = File::open(&self.path).map_err(|error| file_error(&self.path, "read", &error))?;
        Ok(Box::new(CountedReader {
            // A file that grows meanwhile must not give more bytes than the size it was announced with.
            source: file.take(self.size),
            counter: self.counter.clone(),
        }))
    }
}

struct CountedReader<R> {
    source: R,
    counter: ProgressCounter,
}

impl<R: Read> Read for CountedReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.source.read(buffer)?;
        self.counter.add(count as u64);
        Ok(count)
    }
}

/// Reads a file that reports no size, such as those of `/proc`.
fn read_unsized(path: &Path) -> Result<Vec<u8>> {
    let unreadable = |error: io::Error| file_error(path, "read", &error);
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(unreadable)?;
    // One byte more than allowed tells a file that is too large from one that just fits.
    file.take(MAX_UNSIZED_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(unreadable)?;
    if bytes.len() as u64 > MAX_UNSIZED_BYTES {
        let message = format!(
            "{} has no size, and more than {MAX_UNSIZED_BYTES} bytes",
            shown_path(path)
        );
        return Err(Error::new(ErrorKind::TooLarge, message).hint("copy it to a file first"));
    }
    Ok(bytes)
}

/// Whether this is a directory of this machine.
pub(crate) fn is_directory(path: &Path) -> bool {
    path.is_dir()
}

/// Refuses a destination that is taken: for a directory, by anything but a directory; for a file, by a directory, or by
/// anything unless `may_replace`. A link is not followed.
pub(crate) fn check_destination_free(place: &Path, is_for_directory: bool, may_replace: bool) -> Result<()> {
    let Ok(there) = place.symlink_metadata() else {
        return Ok(());
    };
    let shown = shown_path(place);
    match (is_for_directory, there.is_dir()) {
        (true, true) => Ok(()),
        (true, false) => Err(Error::new(
            ErrorKind::NotADirectory,
            format!("{shown} is not a directory, and nothing is written through a link"),
        )
        .hint("remove it first, or choose another place")),
        (false, true) => {
            Err(Error::new(ErrorKind::IsADirectory, format!("{shown} is a directory")).hint("choose another place"))
        }
        (false, false) if may_replace => Ok(()),
        (false, false) => Err(Error::new(ErrorKind::AlreadyExists, format!("{shown} exists already"))
            .hint("give --force to replace it, or choose another place")),
    }
}

/// Makes a directory; an existing one stays unchanged.
pub(crate) fn make_directory(place: &Path) -> Result<()> {
    match std::fs::create_dir(place) {
        // A link to a directory is refused, because nothing is written through a link.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && !place.is_symlink() && place.is_dir() => Ok(()),
        made => made.map_err(|error| file_error(place, "made", &error)),
    }
}

/// A new file that appears at its path only when it is complete.
pub(crate) struct NewFile {
    place: PathBuf,
    file: NamedTempFile,
}

impl NewFile {
    /// Begins a file that will appear at `place`.
    pub(crate) fn begin(place: &Path) -> Result<Self> {
        let directory = match place.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        // In the directory of the destination, because a rename cannot leave a filesystem. The umask limits the
        // permissions, as for a file that any other program makes.
        let made = tempfile::Builder::new()
            .prefix(".garret-")
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(directory);
        Ok(Self {
            place: place.to_owned(),
            file: made.map_err(|error| file_error(place, "written", &error))?,
        })
    }

    /// Writes the next bytes.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.file
            .write_all(bytes)
            .map_err(|error| file_error(&self.place, "written", &error))
    }

    /// Moves the file to its path, with the permissions `mode` if they are given.
    pub(crate) fn keep(self, mode: Option<u32>, may_replace: bool) -> Result<()> {
        let place = self.place;
        let failed = |error: &io::Error| file_error(&place, "written", error);
        if let Some(mode) = mode {
            // Without set-user-id: others wrote the file, and it would run with the rights of this user.
            let mode = Permissions::from_mode(mode & 0o777);
            self.file
                .as_file()
                .set_permissions(mode)
                .map_err(|error| failed(&error))?;
        }
        let kept = if may_replace {
            self.file.persist(&place)
        } else {
            self.file.persist_noclobber(&place)
        };
        kept.map(drop).map_err(|error| failed(&error.error))
    }
}

/// Makes a symbolic link at `place`.
pub(crate) fn make_link(place: &Path, target: &str, may_replace: bool) -> Result<()> {
    if may_replace && place.symlink_metadata().is_ok_and(|there| !there.is_dir()) {
        // A new link never replaces an entry, so the old one goes first.
        std::fs::remove_file(place).map_err(|error| file_error(place, "replaced", &error))?;
    }
    std::os::unix::fs::symlink(target, place).map_err(|error| file_error(place, "made", &error))
}

fn shown_path(path: &Path) -> String {
    quote(&String::from_utf8_lossy(path.as_os_str().as_bytes()))
}

fn file_error(path: &Path, verb: &str, error: &io::Error) -> Error {
    let shown = shown_path(path);
    match error.kind() {
        io::ErrorKind::NotFound => Error::new(ErrorKind::NotFound, format!("no such file on this machine: {shown}"))
            .hint("check the name, and that its directory exists"),
        io::ErrorKind::AlreadyExists => Error::new(ErrorKind::AlreadyExists, format!("{shown} exists already"))
            .hint("give --force to replace it, or choose another place"),
        io::ErrorKind::StorageFull => Error::new(ErrorKind::QuotaExceeded, format!("no space is left for {shown}"))
            .hint("free some space on the disk, or choose another place"),
        _ => Error::new(ErrorKind::Denied, format!("{shown} cannot be {verb}: {}", error.kind())).hint(match verb {
            "read" => "choose a file that you can read",
            _ => "choose a place that you can write to",
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_in_a_workspace_is_the_directory_and_the_name() {
        assert_eq!(join_path("", "a"), "a");
        assert_eq!(join_path("/", "a"), "a");
        assert_eq!(join_path(".", "a"), "a");
        assert_eq!(join_path("x/y/", "a"), "x/y/a");
    }

    #[test]
    fn the_last_name_is_that_of_the_entry() {
        assert_eq!(last_name("a/b.txt"), "b.txt");
        assert_eq!(last_name("a/b/"), "b");
        for none in [".", "..", "/", "a/..", "./"] {
            assert_eq!(last_name(none), "", "{none}");
        }
    }
}
