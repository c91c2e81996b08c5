//! Bits of a directory that stand in the way of its owner, lent for as long as one step takes.

use std::os::fd::BorrowedFd;

use rustix::fs::{Mode, fchmod, fstat};
use rustix::io::Errno;

/// What it takes to change the names in a directory.
const BITS_TO_CHANGE: u32 = 0o300;

/// Does `work`, which changes names in `directory`; where that is denied for want of bits, again with those bits.
pub(super) fn lending<T, E: From<Errno>>(
    directory: BorrowedFd<'_>,
    is_denied: impl Fn(&E) -> bool,
    work: impl Fn() -> Result<T, E>,
) -> Result<T, E> {
    let denied = match work() {
        Err(error) if is_denied(&error) => error,
        done => return done,
    };
    let mode = fstat(directory)?.st_mode & 0o7777;
    if mode & BITS_TO_CHANGE == BITS_TO_CHANGE {
        return Err(denied);
    }
    fchmod(directory, Mode::from_raw_mode(mode | BITS_TO_CHANGE))?;
    let done = work();
    fchmod(directory, Mode::from_raw_mode(mode))?;
    done
}
