//! Handles of regular files, for their content.
//!
//! A fifo, socket or device is never opened for its content: each entry is checked by name first, and checked again by
//! its handle after opening, in case it was swapped in between (a non-blocking open has no effect on a special file
//! then).

use std::os::fd::{AsFd, OwnedFd};

use garret_core::EntryKind;
use garret_handles::GENTLY;
use rustix::fs::{AtFlags, Mode, OFlags, Stat, fstat, openat, statat};
use rustix::io::Errno;

use super::directory_entries::stat_kind;
use super::error::AccessError;

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
