//! Putting things on a layer while processes work on it.
//!
//! Everything goes through the mounted layer, where the processes see it, and never into its upper directory behind the kernel's back. The
//! tree belongs to those processes: a path is walked through no link, and what is new appears whole, by a rename.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Timespec, Timestamps};
use rustix::io::Errno;

use super::layers::open_below;
use super::protocol::{Failure, Item};

const DRAFT: &str = ".garret-draft";

/// A file whose bytes still arrive.
#[derive(Debug)]
pub(super) struct Draft {
    directory: OwnedFd,
    name: Vec<u8>,
    file: OwnedFd,
    left: u64,
    modified: Option<(i64, i64)>,
}

/// Puts an item at a path; a file comes back to be filled.
pub(super) fn place(base: &OwnedFd, path: &[u8], item: &Item) -> Result<Option<Draft>, Failure> {
    try_place(base, path, item).map_err(|error| Failure::new("placing a file", error))
}

fn try_place(base: &OwnedFd, path: &[u8], item: &Item) -> rustix::io::Result<Option<Draft>> {
    let (above, name) = split(path);
    let directory = open_bytes(base, above)?;
    match item {
        Item::Nothing => remove(directory.as_fd(), name)?,
        Item::Directory { mode } => make_directory(&directory, name, *mode)?,
        Item::Symlink { target } => {
            remove(directory.as_fd(), name)?;
            rustix::fs::symlinkat(target, &directory, name)?;
        }
        Item::File { mode, size, modified } => {
            let draft = Draft::begin(directory, name, *mode, *size, *modified)?;
            return if draft.left == 0 {
                draft.finish().map(|()| None)
            } else {
                Ok(Some(draft))
            };
        }
    }
    Ok(None)
}

impl Draft {
    fn begin(
        directory: OwnedFd,
        name: &[u8],
        mode: u32,
        left: u64,
        modified: Option<(i64, i64)>,
    ) -> rustix::io::Result<Self> {
        remove(directory.as_fd(), DRAFT.as_bytes())?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = rustix::fs::openat(&directory, DRAFT, flags, Mode::RUSR | Mode::WUSR)?;
        rustix::fs::fchmod(&file, Mode::from_raw_mode(mode & 0o777))?;
        Ok(Self {
            directory,
            name: name.to_vec(),
            file,
            left,
            modified,
        })
    }

    /// Adds bytes; whether they were the last. A draft that fails leaves nothing behind.
    pub(super) fn add(&mut self, bytes: &[u8]) -> Result<bool, Failure> {
        let added = self.try_add(bytes);
        if added.is_err() {
            self.discard();
        }
        added.map_err(|error| Failure::new("placing a file", error))
    }

    fn try_add(&mut self, bytes: &[u8]) -> rustix::io::Result<bool> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let written = rustix::io::write(&self.file, rest)?;
            rest = &rest[written..];
        }
        self.left = self.left.saturating_sub(bytes.len() as u64);
        if self.left > 0 {
            return Ok(false);
        }
        self.finish().map(|()| true)
    }

    fn finish(&self) -> rustix::io::Result<()> {
        if let Some((seconds, nanos)) = self.modified {
            let time = Timespec {
                tv_sec: seconds,
                tv_nsec: nanos as _,
            };
            let times = Timestamps {
                last_access: time,
                last_modification: time,
            };
            rustix::fs::futimens(&self.file, &times)?;
        }
        let moved = || rustix::fs::renameat(&self.directory, DRAFT, &self.directory, self.name.as_slice());
        match moved() {
            Err(Errno::ISDIR | Errno::NOTEMPTY | Errno::EXIST) => {
                remove(self.directory.as_fd(), &self.name)?;
                moved()
            }
            other => other,
        }
    }

    fn discard(&self) {
        let _ = rustix::fs::unlinkat(&self.directory, DRAFT, AtFlags::empty());
    }
}

fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(at) => (&path[..at], &path[at + 1..]),
        None => (b"", path),
    }
}

/// Opens the directory at `path`, name by name, so that neither a link nor the length of the path matters.
fn open_bytes(base: &OwnedFd, path: &[u8]) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut directory = open_below(base, "", OFlags::RDONLY | OFlags::DIRECTORY)?;
    for part in path.split(|byte| *byte == b'/').filter(|part| !part.is_empty()) {
        if part == b".." {
            return Err(Errno::XDEV);
        }
        directory = rustix::fs::openat(&directory, part, flags, Mode::empty())?;
    }
    Ok(directory)
}

fn make_directory(directory: &OwnedFd, name: &[u8], mode: u32) -> rustix::io::Result<()> {
    let is_directory = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory);
    if !is_directory && !name.is_empty() {
        remove(directory.as_fd(), name)?;
        rustix::fs::mkdirat(directory, name, Mode::RWXU)?;
    }
    let made = if name.is_empty() {
        directory.try_clone().map_err(|_| Errno::MFILE)?
    } else {
        open_bytes(directory, name)?
    };
    rustix::fs::fchmod(&made, Mode::from_raw_mode(mode & 0o777))
}

/// Removes what is at `name`, with everything in it; nothing there is fine.
pub(crate) fn remove(directory: std::os::fd::BorrowedFd<'_>, name: &[u8]) -> rustix::io::Result<()> {
    if name.is_empty() {
        return Err(Errno::INVAL);
    }
    match rustix::fs::unlinkat(directory, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(Errno::ISDIR | Errno::PERM) => crate::namespace::remove::remove_tree(directory, name),
        Err(error) => Err(error),
    }
}
