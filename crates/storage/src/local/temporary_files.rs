//! Temporary entries: content before it is renamed into place, and entries that a batch may have to restore.
//!
//! Their names begin with [`PREFIX`], are never listed, and cannot be named by a caller. A temporary entry is made only
//! under the lock of its directory and is gone when the lock is released, apart from a removed tree that is still being
//! deleted. So a writer that holds the lock of a directory, and has no temporary entries of its own left there, may
//! remove those that a crashed process left.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use garret_core::Ids;
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, fchmod, fstat, linkat, openat, renameat_with, unlinkat,
};
use rustix::io::Errno;

use super::directory_entries::{for_each_name, for_each_raw_name, open_child, stat_entry};
use super::directory_lock::LockedDirectory;
use super::entry_handle::force_mode;

/// The prefix of the name of every temporary entry.
pub(super) const PREFIX: &str = ".garret-tmp-";

/// Below this depth, directories are moved up before they are emptied, so that a deep tree does not use up the handles.
const MAX_OPEN_DEPTH: usize = 64;
const MAX_TRIES: usize = 8;

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
        let by_handle = format!("/proc/self/fd/{}", file.as_raw_fd());
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
    let mut stale = Vec::new();
    for_each_raw_name(&directory, |name, _| stale.push(name.to_vec()))?;
    for entry in stale.iter().filter(|entry| is_temporary(entry)) {
        remove_any(directory.as_fd(), entry)?;
    }
    unlinkat(parent, name, AtFlags::REMOVEDIR)
}

/// Removes a file, a link, or a directory with everything in it.
pub(super) fn remove_any(parent: BorrowedFd<'_>, name: &[u8]) -> Result<(), Errno> {
    match unlinkat(parent, name, AtFlags::empty()) {
        // Linux answers `EISDIR` for a directory; POSIX and some file systems answer `EPERM`.
        Err(Errno::ISDIR | Errno::PERM) => remove_tree(parent, name),
        Err(Errno::NOENT) => Ok(()),
        other => other,
    }
}

/// Removes the directory `name` in `parent` with everything in it. Entries that other programs remove at the same time
/// count as removed.
pub(super) fn remove_tree(parent: BorrowedFd<'_>, name: &[u8]) -> Result<(), Errno> {
    for _ in 0..MAX_TRIES {
        let top = match open_to_empty(parent, name) {
            Err(Errno::NOENT) => return Ok(()),
            top => top?,
        };
        let mut removal = TreeRemoval {
            top: top.as_fd(),
            hoisted: 0,
        };
        removal.empty_directory(top.as_fd(), 0)?;
        // Hoisted directories are now entries of the top, so each round empties the levels below them.
        while removal.hoisted > 0 {
            removal.empty_directory(top.as_fd(), 0)?;
        }
        match unlinkat(parent, name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => return Ok(()),
            // Another program added an entry after the scan: empty the directory again.
            Err(Errno::NOTEMPTY) => {}
            Err(errno) => return Err(errno),
        }
    }
    Err(Errno::NOTEMPTY)
}

struct TreeRemoval<'a> {
    top: BorrowedFd<'a>,
    hoisted: usize,
}

impl TreeRemoval<'_> {
    fn empty_directory(&mut self, directory: BorrowedFd<'_>, depth: usize) -> Result<(), Errno> {
        if depth == 0 {
            self.hoisted = 0;
        }
        let mut names = Vec::new();
        for_each_raw_name(directory, |name, kind| names.push((name.to_vec(), kind)))?;
        names
            .iter()
            .try_for_each(|(name, kind)| self.remove_entry(directory, name, *kind, depth))
    }

    fn remove_entry(
        &mut self,
        directory: BorrowedFd<'_>,
        name: &[u8],
        kind: FileType,
        depth: usize,
    ) -> Result<(), Errno> {
        if !is_directory(directory, name, kind)? {
            return ignore_missing(unlinkat(directory, name, AtFlags::empty()));
        }
        if depth >= MAX_OPEN_DEPTH {
            return self.hoist_directory(directory, name);
        }
        match open_to_empty(directory, name) {
            Err(Errno::NOENT) => return Ok(()),
            child => self.empty_directory(child?.as_fd(), depth + 1)?,
        }
        match unlinkat(directory, name, AtFlags::REMOVEDIR) {
            // Directories that were hoisted, or entries that were added meanwhile, are removed in the next round.
            Err(Errno::NOTEMPTY) => Ok(()),
            other => ignore_missing(other),
        }
    }

    fn hoist_directory(&mut self, directory: BorrowedFd<'_>, name: &[u8]) -> Result<(), Errno> {
        let mut number = self.hoisted;
        loop {
            // A directory that was hoisted in an earlier round may still have this number.
            let new = format!("{PREFIX}{number}");
            match renameat_with(directory, name, self.top, &new, RenameFlags::NOREPLACE) {
                Err(Errno::EXIST) => number += 1,
                other => {
                    self.hoisted = number + 1;
                    return ignore_missing(other);
                }
            }
        }
    }
}

fn is_directory(parent: BorrowedFd<'_>, name: &[u8], kind: FileType) -> Result<bool, Errno> {
    if kind != FileType::Unknown {
        return Ok(kind == FileType::Directory);
    }
    let stat = stat_entry(parent, name)?;
    Ok(stat.is_some_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory))
}

/// Opens a directory that is to be emptied; gives its owner the missing permission bits first.
fn open_to_empty(parent: BorrowedFd<'_>, name: &[u8]) -> Result<OwnedFd, Errno> {
    let directory = match open_child(parent, name) {
        Err(Errno::ACCESS) => {
            force_mode(parent, name, 0o700)?;
            open_child(parent, name)?
        }
        other => other?,
    };
    let lacks_bits = fstat(&directory)?.st_mode & 0o700 != 0o700;
    if lacks_bits {
        // A failure is ignored: it shows at the removal of the first entry, with a better error.
        let _ = fchmod(&directory, Mode::RWXU);
    }
    Ok(directory)
}

fn ignore_missing(outcome: Result<(), Errno>) -> Result<(), Errno> {
    match outcome {
        Err(Errno::NOENT) => Ok(()),
        other => other,
    }
}
