//! Temporary entries: content before it is renamed into place, and entries that a batch may have to restore.
//!
//! Their names begin with [`PREFIX`], are never listed, and cannot be named by a caller. A temporary entry is made only
//! under the lock of its directory and is gone when the lock is released, apart from a removed tree that is still being
//! deleted. So a writer that holds the lock of a directory, and has no temporary entries of its own left there, may
//! remove those that a crashed process left.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use garret_core::Ids;
use garret_handles::{list_names, open_child, path_of_handle, remove_tree};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat, openat, unlinkat};
use rustix::io::Errno;

use super::directory_entries::for_each_name;
use super::directory_lock::LockedDirectory;

/// The prefix of the name of every temporary entry.
pub(super) const PREFIX: &str = ".garret-tmp-";

/// Returns whether `name` is the name of a temporary entry.
pub(super) fn is_temporary(name: &[u8]) -> bool {
    name.starts_with(PREFIX.as_bytes())
}

/// Returns a new name for a temporary entry.
pub(super) fn fresh_name(ids: &dyn Ids) -> String {
    format!("{PREFIX}{}", ids.next_id())
}

/// A temporary file in a locked directory; removed when dropped, unless it was renamed into place.
#[derive(Debug)]
pub(super) struct TemporaryFile {
    pub(super) file: OwnedFd,
    pub(super) name: String,
    parent: Arc<LockedDirectory>,
    is_placed: bool,
}

impl TemporaryFile {
    /// Makes an empty file with those bits of `mode` that the umask allows.
    pub(super) fn create(parent: &Arc<LockedDirectory>, ids: &dyn Ids, mode: u32) -> Result<Self, Errno> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        loop {
            let name = fresh_name(ids);
            match openat(parent, &name, flags, Mode::from_raw_mode(mode & 0o777)) {
                // A counter as the source of ids can repeat the ids of another process.
                Err(Errno::EXIST) => {}
                file => {
                    return Ok(Self {
                        file: file?,
                        name,
                        parent: parent.clone(),
                        is_placed: false,
                    });
                }
            }
        }
    }

    /// Adds a temporary name to an existing file, so that the file can be published like a new one.
    pub(super) fn link_existing(file: OwnedFd, parent: &Arc<LockedDirectory>, ids: &dyn Ids) -> Result<Self, Errno> {
        // By its handle, so that no other file can be swapped in between the comparison and the link.
        let by_handle = path_of_handle(&file);
        loop {
            let name = fresh_name(ids);
            match linkat(CWD, &by_handle, parent, &name, AtFlags::SYMLINK_FOLLOW) {
                Err(Errno::EXIST) => {}
                named => {
                    return named.map(|()| Self {
                        file,
                        name,
                        parent: parent.clone(),
                        is_placed: false,
                    });
                }
            }
        }
    }

    /// Marks the file as renamed into place, so that a drop does not remove it.
    pub(super) fn mark_placed(&mut self) {
        self.is_placed = true;
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        if !self.is_placed {
            let _ = unlinkat(&self.parent, &self.name, AtFlags::empty());
        }
    }
}

/// Returns whether the directory has no entries, apart from temporary ones.
pub(super) fn is_empty(directory: BorrowedFd<'_>) -> Result<bool, Errno> {
    let mut is_empty = true;
    for_each_name(directory, |_, _| is_empty = false)?;
    Ok(is_empty)
}

/// Removes a directory that is empty or has only temporary entries, which a crashed writer left. The caller holds its
/// lock and has no temporary entries of its own there. Fails with `NOTEMPTY` if there is any other entry.
pub(super) fn remove_empty(parent: BorrowedFd<'_>, name: &[u8]) -> Result<(), Errno> {
    match unlinkat(parent, name, AtFlags::REMOVEDIR) {
        Err(Errno::NOTEMPTY) => {}
        other => return other,
    }
    let directory = open_child(parent, name)?;
    if !is_empty(directory.as_fd())? {
        return Err(Errno::NOTEMPTY);
    }
    for entry in list_names(&directory)?.iter().filter(|entry| is_temporary(entry)) {
        remove_tree(&directory, entry)?;
    }
    unlinkat(parent, name, AtFlags::REMOVEDIR)
}
