//! Permission bits that a directory's owner lacks, added for the duration of one step.

use std::os::fd::BorrowedFd;

use rustix::fs::{Mode, fchmod, fstat};
use rustix::io::Errno;

/// The bits that its owner needs to change names in a directory.
const BITS_TO_CHANGE: u32 = 0o300;

/// Runs `work`, which changes names in `directory`. If that is denied and the owner lacks permission bits, adds the
/// bits, runs `work` again, and restores the mode.
pub(super) fn with_owner_bits<T, E: From<Errno>>(
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
    // Restored before the outcome is looked at, so that a failure leaves no extra bits.
    fchmod(directory, Mode::from_raw_mode(mode))?;
    done
}
