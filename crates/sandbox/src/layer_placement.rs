//! Places entries in a layer in which processes work.
//!
//! The tree belongs to those processes: a path is walked name by name, through no link and at any length, and a file
//! appears complete, by a rename.

#![cfg(target_os = "linux")]

use std::fs::File;
use std::os::fd::{BorrowedFd, OwnedFd};

use garret_core::path::split_path;
use garret_handles::{create_file, remove_tree, set_mode, stat_entry, write_all};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Timespec};
use rustix::io::Errno;

use crate::file_times::same_times;

const DRAFT: &[u8] = b".garret-draft";

/// Removes the entry at `path`, with everything in it; succeeds if there is none.
pub(crate) fn remove_path(top: BorrowedFd<'_>, path: &[u8]) -> rustix::io::Result<()> {
    let (above, name) = split_path(path);
    match open_directory(top, above) {
        Ok(directory) => remove_tree(&directory, name),
        // The directory above does not exist, so neither does the entry.
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(()),
        Err(errno) => Err(errno),
    }
}

/// Makes a directory, or gives an existing one these bits and keeps its entries. The empty path is the top itself.
pub(crate) fn make_directory(top: BorrowedFd<'_>, path: &[u8], mode: u32) -> rustix::io::Result<()> {
    let (above, name) = split_path(path);
    let directory = open_directory(top, above)?;
    let is_directory = |stat: rustix::fs::Stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
    if !name.is_empty() && !stat_entry(&directory, name)?.is_some_and(is_directory) {
        remove_tree(&directory, name)?;
        rustix::fs::mkdirat(&directory, name, Mode::RWXU)?;
    }
    let name = if name.is_empty() { b"." } else { name };
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match rustix::fs::openat(&directory, name, flags, Mode::empty()) {
        Ok(made) => rustix::fs::fchmod(&made, Mode::from_raw_mode(mode & 0o777)),
        // A directory without the read bit can be opened only as a path, which `fchmod` does not take.
        Err(Errno::ACCESS) => {
            let held = rustix::fs::openat(&directory, name, flags | OFlags::PATH, Mode::empty())?;
            set_mode(&held, mode & 0o777)
        }
        Err(errno) => Err(errno),
    }
}

/// Makes a symbolic link, in the place of any existing entry.
pub(crate) fn make_link(top: BorrowedFd<'_>, path: &[u8], target: &str) -> rustix::io::Result<()> {
    let (above, name) = split_path(path);
    let directory = open_directory(top, above)?;
    remove_tree(&directory, name)?;
    rustix::fs::symlinkat(target, &directory, name)
}

/// A file that is being written under a temporary name; removed if it is dropped before [`DraftFile::finish`].
#[derive(Debug)]
pub(crate) struct DraftFile {
    directory: OwnedFd,
    name: Vec<u8>,
    file: File,
    is_in_place: bool,
}

impl DraftFile {
    /// Begins the file that will be at `path`.
    pub(crate) fn begin(top: BorrowedFd<'_>, path: &[u8], mode: u32) -> rustix::io::Result<Self> {
        let (above, name) = split_path(path);
        let directory = open_directory(top, above)?;
        // A process of the command may have put an entry under this name.
        remove_tree(&directory, DRAFT)?;
        let file = create_file(&directory, DRAFT, 0o600)?;
        let draft = Self {
            directory,
            name: name.to_vec(),
            file: File::from(file),
            is_in_place: false,
        };
        rustix::fs::fchmod(&draft.file, Mode::from_raw_mode(mode & 0o777))?;
        Ok(draft)
    }

    /// Appends bytes.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> rustix::io::Result<()> {
        write_all(&self.file, bytes)
    }

    /// Renames the file to its path, in the place of any existing entry, with this time of modification.
    pub(crate) fn finish(mut self, modified: Option<Timespec>) -> rustix::io::Result<()> {
        if let Some(time) = modified {
            rustix::fs::futimens(&self.file, &same_times(time))?;
        }
        let moved = || rustix::fs::renameat(&self.directory, DRAFT, &self.directory, self.name.as_slice());
        match moved() {
            // A rename does not replace a directory by a file.
            Err(Errno::ISDIR | Errno::NOTEMPTY | Errno::EXIST) => {
                remove_tree(&self.directory, &self.name)?;
                moved()?;
            }
            answer => answer?,
        }
        self.is_in_place = true;
        Ok(())
    }
}

impl Drop for DraftFile {
    fn drop(&mut self) {
        if !self.is_in_place {
            let _ = rustix::fs::unlinkat(&self.directory, DRAFT, AtFlags::empty());
        }
    }
}

/// Opens the directory at `path`, or the top itself if `path` is empty.
fn open_directory(top: BorrowedFd<'_>, path: &[u8]) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    // Name by name, because the kernel takes no path of more than 4095 bytes at once.
    let mut directory = rustix::fs::openat(top, ".", flags, Mode::empty())?;
    for part in path.split(|byte| *byte == b'/').filter(|part| !part.is_empty()) {
        if part == b".." {
            return Err(Errno::XDEV);
        }
        directory = rustix::fs::openat(&directory, part, flags, Mode::empty())?;
    }
    Ok(directory)
}
