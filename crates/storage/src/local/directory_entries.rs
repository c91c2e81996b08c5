//! The names in a directory that callers see, and the kinds of entries.

use std::ops::ControlFlow;
use std::os::fd::AsFd;

use garret_core::{EntryKind, Timestamp};
use rustix::fs::{FileType, Stat};
use rustix::io::Errno;

use super::temporary_files;

/// Calls `take` with each name in `directory` and its type, except `.`, `..` and temporary files. Moves the position of
/// the handle.
pub(super) fn for_each_name(directory: impl AsFd, mut take: impl FnMut(&[u8], FileType)) -> Result<(), Errno> {
    let listed = garret_handles::for_each_name(directory, |name, kind| {
        if !temporary_files::is_temporary(name) {
            take(name, kind);
        }
        ControlFlow::Continue(())
    });
    match listed {
        // The directory was removed while it was read: it has no names any more.
        Err(Errno::NOENT) => Ok(()),
        other => other,
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
