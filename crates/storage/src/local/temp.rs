//! Temporary entries: content before it is renamed into place, and what a batch may yet put back.
//!
//! Their names begin with [`PREFIX`], are never listed, and cannot be named by a caller. One is made only under the lock of its
//! directory and is gone when the lock is released, apart from a removed tree that is still being deleted. So whoever holds the lock
//! of a directory, and has settled their own, may remove what a crashed process left there.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use garret_core::Ids;
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, fchmod, fstat, linkat, openat, renameat_with, unlinkat,
};
use rustix::io::Errno;

use super::lock::Locked;
use super::names::{for_each_name, for_each_raw_name, open_child, stat_entry};
use super::reopen::force_mode;

/// How the name of every temporary entry begins.
pub(super) const PREFIX: &str = ".garret-tmp-";

/// Below this depth, directories are moved up before they are emptied, so that a deep tree does not use up the handles.
const MAX_OPEN_DEPTH: usize = 64;
const MAX_TRIES: usize = 8;

/// Whether a name is one of ours.
pub(super) fn is_temporary(name: &[u8]) -> bool {
    name.starts_with(PREFIX.as_bytes())
}

/// A new name.
pub(super) fn fresh_name(ids: &dyn Ids) -> String {
    format!("{PREFIX}{}", ids.next())
}

/// A temporary file in a locked directory; removed when dropped, unless it was renamed into place.
#[derive(Debug)]
pub(super) struct Temporary {
    pub(super) file: OwnedFd,
    pub(super) name: String,
    parent: Arc<Locked>,
    is_placed: bool,
}

impl Temporary {
    /// Makes an empty file with the bits of `mode` that the umask leaves.
    pub(super) fn create(parent: &Arc<Locked>, ids: &dyn Ids, mode: u32) -> Result<Self, Errno> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        loop {
            let name = fresh_name(ids);
            match openat(parent, &name, flags, Mode::from_raw_mode(mode & 0o777)) {
                // Identifiers that count can meet those of another process.
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

    /// Gives a file another name, in the way of a file that is new there.
    pub(super) fn name(file: OwnedFd, parent: &Arc<Locked>, ids: &dyn Ids) -> Result<Self, Errno> {
        // By its handle, so that it is the very file that was looked at.
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

    /// Says that the name is no longer this file's to remove.
    pub(super) fn mark_placed(&mut self) {
        self.is_placed = true;
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.is_placed {
            let _ = unlinkat(&self.parent, &self.name, AtFlags::empty());
        }
    }
}

/// Whether nothing but temporary entries is in the directory.
pub(super) fn is_empty(directory: BorrowedFd<'_>) -> Result<bool, Errno> {
    let mut is_empty = true;
    for_each_name(directory, |_, _| is_empty = false)?;
    Ok(is_empty)
}

/// Removes a directory with only temporary entries in it, which a crashed writer left. The caller holds its lock, has none of its own
/// there any more, and gets `NOTEMPTY` where something else is in it.
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
        Err(Errno::ISDIR | Errno::PERM) => remove_tree(parent, name),
        Err(Errno::NOENT) => Ok(()),
        other => other,
    }
}

/// Removes the directory `name` in `parent` with everything in it. What others remove meanwhile is as good as removed.
pub(super) fn remove_tree(parent: BorrowedFd<'_>, name: &[u8]) -> Result<(), Errno> {
    for _ in 0..MAX_TRIES {
        let top = match open_to_empty(parent, name) {
            Err(Errno::NOENT) => return Ok(()),
            top => top?,
        };
        let mut removal = Removal {
            top: top.as_fd(),
            hoisted: 0,
        };
        removal.empty(top.as_fd(), 0)?;
        while removal.hoisted > 0 {
            removal.empty(top.as_fd(), 0)?;
        }
        match unlinkat(parent, name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => return Ok(()),
            Err(Errno::NOTEMPTY) => {}
            Err(errno) => return Err(errno),
        }
    }
    Err(Errno::NOTEMPTY)
}

struct Removal<'a> {
    top: BorrowedFd<'a>,
    hoisted: usize,
}

impl Removal<'_> {
    fn empty(&mut self, directory: BorrowedFd<'_>, depth: usize) -> Result<(), Errno> {
        if depth == 0 {
            self.hoisted = 0;
        }
        let mut names = Vec::new();
        for_each_raw_name(directory, |name, kind| names.push((name.to_vec(), kind)))?;
        names
            .iter()
            .try_for_each(|(name, kind)| self.remove(directory, name, *kind, depth))
    }

    fn remove(&mut self, directory: BorrowedFd<'_>, name: &[u8], kind: FileType, depth: usize) -> Result<(), Errno> {
        if !is_directory(directory, name, kind)? {
            return gone(unlinkat(directory, name, AtFlags::empty()));
        }
        if depth >= MAX_OPEN_DEPTH {
            return self.hoist(directory, name);
        }
        match open_to_empty(directory, name) {
            Err(Errno::NOENT) => return Ok(()),
            child => self.empty(child?.as_fd(), depth + 1)?,
        }
        match unlinkat(directory, name, AtFlags::REMOVEDIR) {
            // What was moved up or added meanwhile is met in the next round.
            Err(Errno::NOTEMPTY) => Ok(()),
            other => gone(other),
        }
    }

    fn hoist(&mut self, directory: BorrowedFd<'_>, name: &[u8]) -> Result<(), Errno> {
        let mut number = self.hoisted;
        loop {
            let new = format!("{PREFIX}{number}");
            match renameat_with(directory, name, self.top, &new, RenameFlags::NOREPLACE) {
                Err(Errno::EXIST) => number += 1,
                other => {
                    self.hoisted = number + 1;
                    return gone(other);
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

/// Opens a directory that is to be emptied, if need be by giving its owner the bits for it.
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
        // Whether it was ours to give shows when the first entry is to go.
        let _ = fchmod(&directory, Mode::RWXU);
    }
    Ok(directory)
}

fn gone(outcome: Result<(), Errno>) -> Result<(), Errno> {
    match outcome {
        Err(Errno::NOENT) => Ok(()),
        other => other,
    }
}
