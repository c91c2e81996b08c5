//! Opening the very entry that was looked at: plain files for reading, anything for its mode.
//!
//! A fifo, socket or device is never opened: each entry is looked at first, and looked at again by its handle after opening, in case
//! it was swapped in between (an open without blocking has no effect on what it meets then).

use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use garret_core::EntryKind;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, Stat, chmodat, fstat, openat, statat};
use rustix::io::Errno;

use super::error::Cause;
use super::names::kind_in;

/// How anything is opened for its content: not through a link, not waiting for a peer, not taking a terminal.
pub(super) const GENTLY: OFlags = OFlags::NOFOLLOW
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);

const MAX_TRIES: usize = 4;

/// Opens the plain file `name` in `parent` with `access` (`RDONLY` or `RDWR | APPEND`, say), and describes it by its handle.
pub(super) fn open_file(parent: impl AsFd, name: &[u8], access: OFlags) -> Result<(OwnedFd, Stat), Cause> {
    for _ in 0..MAX_TRIES {
        expect_file(&statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW)?)?;
        let file = match openat(&parent, name, access | GENTLY, Mode::empty()) {
            // A fifo without a reader or a socket, swapped in since.
            Err(Errno::NXIO) => continue,
            file => file?,
        };
        let stat = fstat(&file)?;
        if kind_in(&stat) == EntryKind::File {
            return Ok((file, stat));
        }
    }
    Err(Cause::Unsteady)
}

/// Refuses what is no plain file, each kind in its own way.
pub(super) fn expect_file(stat: &Stat) -> Result<(), Cause> {
    match kind_in(stat) {
        EntryKind::File => Ok(()),
        EntryKind::Directory => Err(Cause::System(Errno::ISDIR)),
        EntryKind::Symlink => Err(Cause::Link),
        EntryKind::Other => Err(Cause::Special),
    }
}

/// An entry held by a handle that gives no access to its content, so that holding it opens nothing.
pub(super) fn hold(parent: impl AsFd, name: &[u8]) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(parent, name, flags, Mode::empty())
}

/// Sets the mode of an entry held by [`hold`], which is no link.
pub(super) fn set_mode(held: &OwnedFd, mode: u32) -> Result<(), Errno> {
    // Such a handle has no `fchmod`; its name under `/proc` leads to the entry itself, whatever happened to its path.
    let by_handle = format!("/proc/self/fd/{}", held.as_raw_fd());
    match chmodat(CWD, by_handle, Mode::from_raw_mode(mode & 0o7777), AtFlags::empty()) {
        Err(Errno::NOENT) => Err(Errno::OPNOTSUPP),
        other => other,
    }
}

/// Sets the mode of the file or directory `name` in `parent`, not through a link.
pub(super) fn force_mode(parent: impl AsFd, name: &[u8], mode: u32) -> Result<(), Errno> {
    let held = hold(parent, name)?;
    match kind_in(&fstat(&held)?) {
        EntryKind::Symlink => Err(Errno::LOOP),
        _ => set_mode(&held, mode),
    }
}
