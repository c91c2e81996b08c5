//! Locks on directories, by which writers of Garret in any process take turns.
//!
//! A lock is an exclusive `flock` on a fresh handle of the directory, so it follows the directory when it is renamed and is freed by
//! the kernel when its process dies. It is taken for the duration of one synchronous call and never across an `await`. A second lock
//! that does not come free soon is given up together with the first: directories that change places can turn the order of two
//! writers around, and then both would wait for ever.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{FlockOperation, Stat, flock, fstat};
use rustix::io::Errno;

use super::owner::Owner;

const FIRST_PAUSE: Duration = Duration::from_micros(50);
const LONGEST_PAUSE: Duration = Duration::from_millis(2);

/// How long a writer waits for a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Patience {
    /// For the first lock.
    pub(super) first: Duration,
    /// For each further one, while others are held.
    pub(super) further: Duration,
    /// What it means when the first lock did not come free.
    pub(super) at_end: Refusal,
}

impl Patience {
    /// Only locks that are free.
    pub(super) const NONE: Self = Self {
        first: Duration::ZERO,
        further: Duration::ZERO,
        at_end: Refusal::Held,
    };
    /// Long enough for any writer that is alive.
    pub(super) const LONG: Self = Self {
        first: Duration::from_secs(30),
        further: Duration::from_millis(200),
        at_end: Refusal::WaitedLong,
    };
}

/// A directory whose lock is held until the last clone goes.
#[derive(Debug)]
pub(super) struct Locked {
    handle: OwnedFd,
    identity: (u64, u64),
    owner: Owner,
}

impl AsFd for Locked {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }
}

impl Locked {
    /// Whose it was when it was locked.
    pub(super) fn owner(&self) -> Owner {
        self.owner
    }

    /// Whether `handle` is the same directory.
    pub(super) fn is(&self, handle: impl AsFd) -> bool {
        fstat(handle).is_ok_and(|stat| identity(&stat) == self.identity)
    }
}

/// Why a lock was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Another writer has it, and the caller should give up what it holds and try again.
    Held,
    /// Another writer has had it for longer than is worth waiting.
    WaitedLong,
    /// The system refuses.
    System(Errno),
}

/// The locks of one batch.
#[derive(Debug)]
pub(super) struct Locks {
    held: Vec<Arc<Locked>>,
    patience: Patience,
}

impl Locks {
    pub(super) fn new(patience: Patience) -> Self {
        Self {
            held: Vec::new(),
            patience,
        }
    }

    /// Locks the directory, unless this batch has locked it already; tells whether it is new.
    pub(super) fn take(&mut self, handle: OwnedFd) -> Result<(Arc<Locked>, bool), Refusal> {
        let stat = fstat(&handle).map_err(Refusal::System)?;
        let identity = identity(&stat);
        if let Some(held) = self.held.iter().find(|held| held.identity == identity) {
            return Ok((held.clone(), false));
        }
        match self.held.is_empty() {
            true => wait_for(&handle, self.patience.first, self.patience.at_end)?,
            false => wait_for(&handle, self.patience.further, Refusal::Held)?,
        }
        let locked = Arc::new(Locked {
            handle,
            identity,
            owner: Owner::of(&stat),
        });
        self.held.push(locked.clone());
        Ok((locked, true))
    }
}

fn wait_for(handle: &OwnedFd, patience: Duration, at_end: Refusal) -> Result<(), Refusal> {
    let mut waited = Duration::ZERO;
    let mut pause = FIRST_PAUSE;
    loop {
        match flock(handle, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(()),
            Err(Errno::WOULDBLOCK) if waited < patience => {}
            Err(Errno::WOULDBLOCK) => return Err(at_end),
            Err(Errno::INTR) => continue,
            Err(errno) => return Err(Refusal::System(errno)),
        }
        std::thread::sleep(pause);
        waited += pause;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// What tells an entry from every other.
#[allow(clippy::unnecessary_cast, reason = "the fields have other types on other machines")]
pub(super) fn identity(stat: &Stat) -> (u64, u64) {
    (stat.st_dev as u64, stat.st_ino as u64)
}
