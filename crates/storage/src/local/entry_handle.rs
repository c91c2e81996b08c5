//! Handles of checked entries: regular files for their content, any entry for its mode.
//!
//! A fifo, socket or device is never opened for its content: each entry is checked by name first, and checked again by
//! its handle after opening, in case it was swapped in between (a non-blocking open has no effect on a special file
//! then).

use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use garret_core::EntryKind;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, Stat, chmodat, fstat, openat, statat};
use rustix::io::Errno;

use super::directory_entries::stat_kind;
use super::error::AccessError;

/// The flags of every open for content: no links, no waiting for a peer, no controlling terminal.
pub(super) const GENTLY: OFlags = OFlags::NOFOLLOW
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);

const MAX_TRIES: usize = 4;

/// Opens the regular file `name` in `parent` with `access` (`RDONLY` or `RDWR | APPEND`, say); returns it with its stat
/// by that handle.
pub(super) fn open_file(parent: impl AsFd, name: &[u8], access: OFlags) -> Result<(OwnedFd, Stat), AccessError> {
    for _ in 0..MAX_TRIES {
        expect_file(&statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW)?)?;
        let file = match openat(&parent, name, access | GENTLY, Mode::empty()) {
            // A fifo without a reader, or a socket, was swapped in after the check.
            Err(Errno::NXIO) => continue,
            file => file?,
        };
        let stat = fstat(&file)?;
        if stat_kind(&stat) == EntryKind::File {
            return Ok((file, stat));
        }
    }
    Err(AccessError::Unsteady)
}

/// Refuses an entry that is not a regular file, with an error of its own for each kind.
pub(super) fn expect_file(stat: &Stat) -> Result<(), AccessError> {
    match stat_kind(stat) {
        EntryKind::File => Ok(()),
        EntryKind::Directory => Err(AccessError::System(Errno::ISDIR)),
        EntryKind::Symlink => Err(AccessError::Link),
        EntryKind::Other => Err(AccessError::Special),
    }
}

/// Opens an entry with `O_PATH`, which gives no access to its content and so has no effect on a special file.
pub(super) fn open_path_handle(parent: impl AsFd, name: &[u8]) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(parent, name, flags, Mode::empty())
}

/// Sets the mode of an entry that was opened with `O_PATH` and is no link.
pub(super) fn set_mode(held: &OwnedFd, mode: u32) -> Result<(), Errno> {
    // `fchmod` refuses an `O_PATH` handle; its name under `/proc` leads to the entry itself, even if its path has
    // changed.
    let by_handle = format!("/proc/self/fd/{}", held.as_raw_fd());
    match chmodat(CWD, by_handle, Mode::from_raw_mode(mode & 0o7777), AtFlags::empty()) {
        // The handle exists, so it is `/proc` that is not mounted.
        Err(Errno::NOENT) => Err(Errno::OPNOTSUPP),
        other => other,
    }
}

/// Sets the mode of the file or directory `name` in `parent`; refuses a link.
pub(super) fn force_mode(parent: impl AsFd, name: &[u8], mode: u32) -> Result<(), Errno> {
    let held = open_path_handle(parent, name)?;
    match stat_kind(&fstat(&held)?) {
        EntryKind::Symlink => Err(Errno::LOOP),
        _ => set_mode(&held, mode),
    }
}
