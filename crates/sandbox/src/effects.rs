//! What was done on a layer, read as hostile input.

#![cfg(target_os = "linux")]

use std::os::fd::BorrowedFd;

use garret_core::{Effects, Error, ErrorKind, Mark, Result};

/// What the upper layer of an overlay says was done to `lower`.
pub fn of_upper(upper: BorrowedFd<'_>, lower: BorrowedFd<'_>, since: Option<&Mark>) -> Result<Effects> {
    let _ = (upper, lower, since);
    Err(coming())
}

/// What was done to `copy`, a whole copy of `bench`.
pub fn of_copy(copy: BorrowedFd<'_>, bench: BorrowedFd<'_>, since: Option<&Mark>) -> Result<Effects> {
    let _ = (copy, bench, since);
    Err(coming())
}

/// A copy that was made, and where it stood then.
#[derive(Debug, Default)]
pub struct Copied {
    /// What the copy was like when it was finished: [`of_copy`] since then misses nothing, whatever times a command sets.
    pub mark: Mark,
}

/// Copies everything in `from` into `to`, an empty directory.
pub fn copy_tree(from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> Result<Copied> {
    let _ = (from, to);
    Err(coming())
}

fn coming() -> Error {
    Error::new(ErrorKind::Unsupported, "effects cannot be read yet")
}
