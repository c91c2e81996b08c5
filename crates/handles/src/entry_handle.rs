//! Handles of single entries: their modes, their paths under `/proc`, and writing to a file.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, chmodat, fstat, openat};
use rustix::io::{Errno, write};
use rustix::path::Arg;

/// Opens an entry with `O_PATH`, which gives no access to its content and so has no effect on a special file.
pub fn open_path_handle(parent: impl AsFd, name: &[u8]) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(parent, name, flags, Mode::empty())
}

/// Creates the file `name` in `parent` for writing; fails if an entry of that name exists, also a link.
pub fn create_file(parent: impl AsFd, name: impl Arg, mode: u32) -> Result<OwnedFd, Errno> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(parent, name, flags, Mode::from_raw_mode(mode))
}

/// Returns the path under `/proc` that leads to the entry of a handle.
pub fn path_of_handle(held: impl AsFd) -> String {
    format!("/proc/self/fd/{}", held.as_fd().as_raw_fd())
}

/// Sets the mode of an entry that was opened with `O_PATH` and is no link.
pub fn set_mode(held: impl AsFd, mode: u32) -> Result<(), Errno> {
    // `fchmod` refuses an `O_PATH` handle; its name under `/proc` leads to the entry itself, even if its path has
    // changed.
    let mode = Mode::from_raw_mode(mode & 0o7777);
    match chmodat(CWD, path_of_handle(&held), mode, AtFlags::empty()) {
        // The handle exists, so it is `/proc` that is not mounted.
        Err(Errno::NOENT) => Err(Errno::OPNOTSUPP),
        other => other,
    }
}

/// Sets the mode of the file or directory `name` in `parent`; refuses a link.
pub fn force_mode(parent: impl AsFd, name: &[u8], mode: u32) -> Result<(), Errno> {
    let held = open_path_handle(parent, name)?;
    match FileType::from_raw_mode(fstat(&held)?.st_mode) {
        FileType::Symlink => Err(Errno::LOOP),
        _ => set_mode(&held, mode),
    }
}

/// Writes all of `bytes` at the position of the handle.
pub fn write_all(file: impl AsFd, bytes: &[u8]) -> Result<(), Errno> {
    let mut rest = bytes;
    while !rest.is_empty() {
        match write(&file, rest) {
            Ok(count) => rest = &rest[count..],
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}
