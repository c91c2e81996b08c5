//! Locks on directories, by which the Garret writers of all processes take turns.
//!
//! A lock is an exclusive `flock` on a fresh handle of the directory, so it follows the directory when it is renamed
//! and the kernel frees it when its process dies. It is taken for the duration of one synchronous call and never across
//! an `await`. If a second lock does not become free soon, the first is given up, too: directories that change places
//! can reverse the lock order of two writers, and then both would wait for ever.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{FlockOperation, Stat, flock, fstat};
use rustix::io::Errno;

use super::owner::FileOwner;

const FIRST_PAUSE: Duration = Duration::from_micros(50);
const LONGEST_PAUSE: Duration = Duration::from_millis(2);

/// The time limits of a writer that waits for locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LockPatience {
    /// The limit for the first lock.
    pub(super) first: Duration,
    /// The limit for each further lock, while others are held.
    pub(super) further: Duration,
    /// The refusal to report when the first lock did not become free.
    pub(super) at_end: DirectoryLockError,
}

impl LockPatience {
    /// Takes only locks that are free.
    pub(super) const NONE: Self = Self {
        first: Duration::ZERO,
        further: Duration::ZERO,
        at_end: DirectoryLockError::Held,
    };
    /// Waits long enough for any live writer to finish.
    pub(super) const LONG: Self = Self {
        first: Duration::from_secs(30),
        further: Duration::from_millis(200),
        at_end: DirectoryLockError::WaitedLong,
    };
}

/// A directory whose lock is held until the last clone is dropped.
#[derive(Debug)]
pub(super) struct LockedDirectory {
    handle: OwnedFd,
    identity: (u64, u64),
    owner: FileOwner,
}

impl AsFd for LockedDirectory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }
}

impl LockedDirectory {
    /// Returns the owner of the directory at the time it was locked.
    pub(super) fn owner(&self) -> FileOwner {
        self.owner
    }

    /// Returns whether `handle` is a handle of this directory.
    pub(super) fn is_same_directory(&self, handle: impl AsFd) -> bool {
        fstat(handle).is_ok_and(|stat| inode_identity(&stat) == self.identity)
    }
}

/// The reason why a lock was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DirectoryLockError {
    /// Another writer has it; the caller should release its own locks and try again.
    Held,
    /// Another writer has had it for longer than the time limit.
    WaitedLong,
    /// The system refuses.
    System(Errno),
}

/// The locks of one batch.
#[derive(Debug)]
pub(super) struct DirectoryLocks {
    held: Vec<Arc<LockedDirectory>>,
    patience: LockPatience,
}

impl DirectoryLocks {
    pub(super) fn new(patience: LockPatience) -> Self {
        Self {
            held: Vec::new(),
            patience,
        }
    }

    /// Locks the directory, unless this batch has locked it already; returns whether the lock is new.
    pub(super) fn take_lock(&mut self, handle: OwnedFd) -> Result<(Arc<LockedDirectory>, bool), DirectoryLockError> {
        // `flock` belongs to the open handle: a second handle of a directory that this batch has locked would wait for
        // itself, so locks are compared by inode.
        let stat = fstat(&handle).map_err(DirectoryLockError::System)?;
        let identity = inode_identity(&stat);
        if let Some(held) = self.held.iter().find(|held| held.identity == identity) {
            return Ok((held.clone(), false));
        }
        if self.held.is_empty() {
            wait_for_lock(&handle, self.patience.first, self.patience.at_end)?;
        } else {
            wait_for_lock(&handle, self.patience.further, DirectoryLockError::Held)?;
        }
        let locked = Arc::new(LockedDirectory {
            handle,
            identity,
            owner: FileOwner::from_stat(&stat),
        });
        self.held.push(locked.clone());
        Ok((locked, true))
    }
}

fn wait_for_lock(handle: &OwnedFd, patience: Duration, at_end: DirectoryLockError) -> Result<(), DirectoryLockError> {
    let mut waited = Duration::ZERO;
    let mut pause = FIRST_PAUSE;
    loop {
        // Polled, because a blocking `flock` cannot have a time limit.
        match flock(handle, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(()),
            Err(Errno::WOULDBLOCK) if waited < patience => {}
            Err(Errno::WOULDBLOCK) => return Err(at_end),
            Err(Errno::INTR) => continue,
            Err(errno) => return Err(DirectoryLockError::System(errno)),
        }
        std::thread::sleep(pause);
        waited += pause;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Returns the device and inode numbers, which identify an entry on this machine.
#[allow(clippy::unnecessary_cast, reason = "the fields have other types on other machines")]
pub(super) fn inode_identity(stat: &Stat) -> (u64, u64) {
    (stat.st_dev as u64, stat.st_ino as u64)
}
