//! The names in a directory, read straight from the kernel, and the kinds of entries.

use std::os::fd::{AsFd, OwnedFd};

use garret_core::{EntryKind, Timestamp};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, SeekFrom, Stat, openat, seek, statat};
use rustix::io::Errno;

use super::temporary_files;

const BUFFER_BYTES: usize = 32 * 1024;

/// Calls `take` with each name in `directory` and its type, except `.`, `..` and temporary files. Moves the position of
/// the handle.
pub(super) fn for_each_name(directory: impl AsFd, mut take: impl FnMut(&[u8], FileType)) -> Result<(), Errno> {
    for_each_raw_name(directory, |name, kind| {
        if !temporary_files::is_temporary(name) {
            take(name, kind);
        }
    })
}

/// Calls `take` with each name in `directory` and its type, temporary files included.
pub(super) fn for_each_raw_name(directory: impl AsFd, mut take: impl FnMut(&[u8], FileType)) -> Result<(), Errno> {
    // The handle may have been read before.
    seek(&directory, SeekFrom::Start(0))?;
    let mut buffer = Vec::with_capacity(BUFFER_BYTES);
    let mut entries = RawDir::new(directory.as_fd(), buffer.spare_capacity_mut());
    while let Some(entry) = entries.next() {
        let entry = match entry {
            // The directory was removed while it was read: it has no names any more.
            Err(Errno::NOENT) => return Ok(()),
            other => other?,
        };
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            take(name, entry.file_type());
        }
    }
    Ok(())
}

/// Opens the directory `name` in `parent`; refuses a link.
pub(super) fn open_child(parent: impl AsFd, name: &[u8]) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(parent, name, flags, Mode::empty())
}

/// Returns the stat of an entry without following a link; `None` if it does not exist.
pub(super) fn stat_entry(parent: impl AsFd, name: &[u8]) -> Result<Option<Stat>, Errno> {
    match statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(stat)),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// Converts the type of the system into the kind that callers see.
pub(super) fn entry_kind(kind: FileType) -> EntryKind {
    match kind {
        FileType::RegularFile => EntryKind::File,
        FileType::Directory => EntryKind::Directory,
        FileType::Symlink => EntryKind::Symlink,
        _ => EntryKind::Other,
    }
}

/// Returns the kind of the entry with this stat.
pub(super) fn stat_kind(stat: &Stat) -> EntryKind {
    entry_kind(FileType::from_raw_mode(stat.st_mode))
}

/// Returns the size that callers see: bytes of content, 0 for directories.
#[allow(clippy::unnecessary_cast, reason = "the field has another type on other machines")]
pub(super) fn stat_size(stat: &Stat) -> u64 {
    match stat_kind(stat) {
        EntryKind::File | EntryKind::Symlink => stat.st_size as u64,
        EntryKind::Directory | EntryKind::Other => 0,
    }
}

/// Converts a time of the file system; `None` if it is out of range.
pub(super) fn timestamp_of(seconds: i64, nanoseconds: u32) -> Option<Timestamp> {
    Timestamp::new(seconds, i32::try_from(nanoseconds).ok()?).ok()
}
