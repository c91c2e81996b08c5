//! Opening the root: the only code of this storage that sees a path of the host.

use std::os::fd::{AsRawFd, BorrowedFd};

use garret_core::path::quote;
use garret_core::{EntryPath, Error, ErrorKind, Result};
use rustix::fs::{CWD, Mode, OFlags, open, readlinkat};
use rustix::io::Errno;

use super::beneath::RootDirectory;
use super::error::AccessError;

/// Opens the directory and checks that the kernel can confine paths below it.
pub(super) fn open_root(dir: &str) -> Result<RootDirectory> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let handle = open(dir, flags, Mode::empty()).map_err(|errno| open_error(dir, errno))?;
    let root = RootDirectory::new(handle);
    // One `openat2` with all flags now, so that a kernel or seccomp profile without it fails at opening and not at the
    // first read.
    match root.open_directory(b"") {
        Ok(_) => Ok(root),
        Err(cause) => Err(confinement_error(cause)),
    }
}

/// Returns the path of the directory on the host, with links resolved; `None` if the directory was removed.
pub(super) fn host_path_of(directory: BorrowedFd<'_>) -> Option<String> {
    let handle = format!("/proc/self/fd/{}", directory.as_raw_fd());
    // The kernel keeps this path up to date when the directory is moved, and appends ` (deleted)` when it is removed.
    let path = readlinkat(CWD, handle, Vec::new()).ok()?.into_bytes();
    let is_removed = path.ends_with(b" (deleted)");
    (!is_removed).then(|| EntryPath::from_bytes(path).to_token())
}

/// Returns the error for a directory that cannot be opened.
fn open_error(dir: &str, errno: Errno) -> Error {
    // The caller gave this text, so showing it reveals nothing new about the host.
    let shown = quote(dir);
    match errno {
        Errno::NOENT => Error::new(ErrorKind::NotFound, format!("the directory {shown} does not exist"))
            .hint("create it first, or name another one"),
        Errno::NOTDIR => Error::new(ErrorKind::NotADirectory, format!("{shown} is not a directory"))
            .hint("a local workspace needs a directory"),
        Errno::ACCESS | Errno::PERM => Error::new(
            ErrorKind::Denied,
            format!("the file permissions deny access to the directory {shown}"),
        )
        .hint("open it as a user who can read it"),
        _ => Error::invalid(format!("the directory {shown} cannot be opened")).hint("name another directory"),
    }
}

fn confinement_error(cause: AccessError) -> Error {
    let reason = match cause {
        AccessError::System(Errno::NOSYS | Errno::PERM) => "the system call `openat2` is missing or blocked here",
        AccessError::System(Errno::ACCESS) => "the file permissions do not allow entering the directory",
        _ => "the system call `openat2` does not work on this directory",
    };
    let message = format!("the storage `local` cannot keep paths below its directory: {reason}");
    Error::new(ErrorKind::Unsupported, message)
        .hint("run on Linux 5.6 or newer, with a seccomp profile that lets `openat2` pass")
}
