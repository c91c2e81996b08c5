//! The lock file that gives one process at a time the right to run commands in a workspace.
//!
//! The lock is an exclusive `flock`, which the kernel frees when its process dies. The holder writes its identity into
//! the file, so that a waiting process can name it. The text is only for people: the lock alone decides.

use std::os::fd::OwnedFd;
use std::path::PathBuf;

use garret_core::{Error, ErrorKind, Result, Timestamp, TurnAttempt, TurnGuard, TurnHolder};
use rustix::fs::{CWD, FlockOperation, Mode, OFlags, flock, ftruncate, openat};
use rustix::io::{Errno, pread, pwrite};

const MAX_HOLDER_BYTES: usize = 16 * 1024;

/// The lock file of one workspace.
#[derive(Debug, Clone)]
pub struct TurnFile {
    path: PathBuf,
}

impl TurnFile {
    /// Returns the lock file at `path`. Its directory must exist; the file is created when the first turn is taken.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Tries to take the turn for `command`, which contains no secrets.
    pub fn try_take(&self, command: &str, now: Timestamp) -> Result<TurnAttempt> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(CWD, &self.path, flags, Mode::RUSR | Mode::WUSR).map_err(unusable_lock_file)?;
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => break,
                Err(Errno::INTR) => {}
                Err(Errno::WOULDBLOCK) => return Ok(TurnAttempt::HeldBy(read_holder(&file))),
                Err(errno) => return Err(unusable_lock_file(errno)),
            }
        }
        let holder = TurnHolder {
            process: std::process::id(),
            command: command.to_owned(),
            since: now,
        };
        let lock = TurnLock { file };
        // A holder that cannot be written, for example on a full disk, stays unnamed; the lock is valid all the same.
        let _ = lock.write_holder(&holder);
        Ok(TurnAttempt::Taken(TurnGuard::new(lock)))
    }
}

/// A lock file that this process has locked.
struct TurnLock {
    file: OwnedFd,
}

impl TurnLock {
    fn write_holder(&self, holder: &TurnHolder) -> Option<()> {
        let text = serde_json::to_vec(holder).ok()?;
        let written = pwrite(&self.file, &text, 0).ok()?;
        ftruncate(&self.file, written as u64).ok()
    }
}

impl Drop for TurnLock {
    fn drop(&mut self) {
        // The next holder has the lock a moment before its name is written, and a waiting process must not see the
        // previous name.
        let _ = ftruncate(&self.file, 0);
    }
}

/// Returns the holder that the file names, if there is one.
fn read_holder(file: &OwnedFd) -> Option<TurnHolder> {
    let mut bytes = vec![0; MAX_HOLDER_BYTES];
    let length = pread(file, &mut bytes, 0).ok()?;
    serde_json::from_slice(&bytes[..length]).ok()
}

fn unusable_lock_file(errno: Errno) -> Error {
    let message = format!("the lock file of this workspace cannot be used ({errno})");
    Error::new(ErrorKind::Unavailable, message).hint("check that the home can be written and has free space")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        "2026-11-16T05:00:00Z".parse().unwrap()
    }

    #[test]
    fn a_second_holder_waits_and_is_told_who_has_the_turn() {
        let directory = tempfile::tempdir().unwrap();
        let turns = TurnFile::new(directory.path().join("turn"));
        let TurnAttempt::Taken(first) = turns.try_take("cargo build", now()).unwrap() else {
            panic!("the turn is free");
        };
        let TurnAttempt::HeldBy(Some(holder)) = turns.try_take("ls", now()).unwrap() else {
            panic!("the turn is taken, and its holder has a name");
        };
        assert_eq!(
            (holder.command.as_str(), holder.process),
            ("cargo build", std::process::id())
        );
        drop(first);
        let TurnAttempt::Taken(_second) = turns.try_take("ls", now()).unwrap() else {
            panic!("the turn is free again");
        };
        let TurnAttempt::HeldBy(Some(holder)) = turns.try_take("make", now()).unwrap() else {
            panic!("the turn is taken");
        };
        assert_eq!(holder.command, "ls", "nothing of the longer name is left");
    }

    #[test]
    fn a_holder_without_a_readable_name_still_has_the_turn() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("turn");
        let turns = TurnFile::new(&path);
        let TurnAttempt::Taken(_turn) = turns.try_take("x", now()).unwrap() else {
            panic!("the turn is free");
        };
        let file = openat(CWD, &path, OFlags::WRONLY, Mode::empty()).unwrap();
        pwrite(&file, b"no JSON", 0).unwrap();
        assert!(matches!(turns.try_take("y", now()).unwrap(), TurnAttempt::HeldBy(None)));
    }
}
