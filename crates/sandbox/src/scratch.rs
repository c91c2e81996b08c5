//! The directories of a sandbox, below its scratch directory.

#![cfg(target_os = "linux")]

use std::os::fd::{AsFd, OwnedFd};

use garret_core::{Error, ErrorKind, Result};
use rustix::fs::{Mode, OFlags};
use rustix::path::Arg;

/// Opens a directory of Garret or of the user, through links.
pub(crate) fn open_directory(at: impl AsFd, path: impl Arg) -> Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::openat(at, path, flags, Mode::empty()).map_err(|_| unusable_directories_error())
}

pub(crate) fn unusable_directories_error() -> Error {
    Error::new(ErrorKind::Unavailable, "the directories of the sandbox cannot be used")
        .hint("check that Garret may write its home, and that the disk is not full")
}
