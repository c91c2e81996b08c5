//! What is in a directory, straight from the kernel, and the kinds of entries.

use std::os::fd::{AsFd, OwnedFd};

use garret_core::{EntryKind, Timestamp};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, SeekFrom, Stat, openat, seek, statat};
use rustix::io::Errno;

use super::temp;

const BUFFER_BYTES: usize = 32 * 1024;

/// Gives each name in `directory` with its type, except `.`, `..` and temporary files. Moves the position of the handle.
pub(super) fn for_each_name(directory: impl AsFd, mut take: impl FnMut(&[u8], FileType)) -> Result<(), Errno> {
    for_each_raw_name(directory, |name, kind| {
        if !temp::is_temporary(name) {
            take(name, kind);
        }
    })
}

/// Gives each name in `directory`, temporary files included.
pub(super) fn for_each_raw_name(directory: impl AsFd, mut take: impl FnMut(&[u8], FileType)) -> Result<(), Errno> {
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

/// Opens the directory `name` in `parent`, not through a link.
pub(super) fn open_child(parent: impl AsFd, name: &[u8]) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(parent, name, flags, Mode::empty())
}

/// Describes the entry itself; `None` where nothing is.
pub(super) fn stat_entry(parent: impl AsFd, name: &[u8]) -> Result<Option<Stat>, Errno> {
    match statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(stat)),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// The kind that callers see.
pub(super) fn kind_of(kind: FileType) -> EntryKind {
    match kind {
        FileType::RegularFile => EntryKind::File,
        FileType::Directory => EntryKind::Directory,
        FileType::Symlink => EntryKind::Symlink,
        _ => EntryKind::Other,
    }
}

/// The kind in a stat.
pub(super) fn kind_in(stat: &Stat) -> EntryKind {
    kind_of(FileType::from_raw_mode(stat.st_mode))
}

/// The size that callers see: bytes of content, 0 for directories.
#[allow(clippy::unnecessary_cast, reason = "the field has another type on other machines")]
pub(super) fn size_in(stat: &Stat) -> u64 {
    match kind_in(stat) {
        EntryKind::File | EntryKind::Symlink => stat.st_size as u64,
        EntryKind::Directory | EntryKind::Other => 0,
    }
}

/// A time of the file system; `None` where it is out of range.
pub(super) fn time(seconds: i64, nanoseconds: u32) -> Option<Timestamp> {
    Timestamp::new(seconds, i32::try_from(nanoseconds).ok()?).ok()
}
