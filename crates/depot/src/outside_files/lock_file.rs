//! The lock file of a site: it decides which process may change the files, and tells readers when to wait. There is one
//! small file for each site, beside the log.
//!
//! Writers take an exclusive lock on it, which the kernel frees when they die. The file holds two numbers. The *owner*
//! is the handle that changed something last: a handle that finds its own number there knows that nobody wrote in
//! between, and its index is still valid. The *count* is odd while a change of several paths is in progress; it goes up
//! at the start and at the end of the change.
//!
//! A reader takes no lock. After its read it checks the count: if the count is even and equal to the count after the
//! previous read, no change of several paths started or ended during the read, so the result is not half of one.
//! Otherwise it waits for the change to end and reads again. The cost is one `pread` of eight bytes for each read; a
//! shared lock would take two system calls and would make writers wait. A change of one path needs no count: the
//! storage shows it completely or not at all.

#![allow(
    clippy::disallowed_methods,
    reason = "this file owns the lock file of a place, in the depot's home"
)]

use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::channel::oneshot;
use garret_core::{Error, ErrorKind, Result};

use crate::error;
use crate::home_permissions;
use crate::workspace_places::Site;
use crate::writer::is_removed;

/// The pause between two checks of a waiting thread, and the number of checks: thirty seconds in all.
const PAUSE: Duration = Duration::from_millis(1);
const PASSES: usize = 30_000;
const OWNER_AT: u64 = 0;
const COUNT_AT: u64 = 8;

/// The paths of the files that belong to one site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalFiles {
    /// The folder of all of them.
    pub folder: PathBuf,
    pub(super) lock: PathBuf,
    /// The log that is being written.
    pub(super) log: PathBuf,
    /// A full log that is being moved into the journal.
    pub(super) old: PathBuf,
}

impl JournalFiles {
    /// Returns the paths of the files for `site` below `home`; `None` for a site that does not outlive the program.
    pub fn for_site(home: &Path, site: &Site) -> Option<Self> {
        let place = site.place.as_ref()?;
        let key = blake3::hash(format!("{}\0{place}", site.kind).as_bytes()).to_hex();
        let folder = home.join("journals");
        let file = |ending: &str| folder.join(format!("{}.{ending}", &key[..32]));
        Some(Self {
            lock: file("lock"),
            log: file("log"),
            old: file("old"),
            folder,
        })
    }
}

/// Lets one writer in at a time, and tells readers when to wait.
#[derive(Debug)]
pub struct JournalLockFile {
    files: Option<JournalFiles>,
    lock: OnceLock<File>,
    /// The count of a site without files.
    count: AtomicU64,
    /// The count that a reader saw last.
    met: AtomicU64,
}

/// The result of a reader's check after its read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadStability {
    /// No change of several paths started or ended during the read.
    Steady,
    /// A change of several paths started or ended; the read should be repeated.
    Disturbed,
    /// A change of several paths is still in progress.
    UnderWay,
}

impl JournalLockFile {
    /// Returns the lock of a site; without files for a site that only this handle knows.
    pub fn new(files: Option<JournalFiles>) -> Self {
        let gate = Self {
            files,
            lock: OnceLock::new(),
            count: AtomicU64::new(0),
            met: AtomicU64::new(0),
        };
        gate.met.store(gate.current_count() & !1, Ordering::Release);
        gate
    }

    /// Returns the files of the site; `None` for a site without files.
    pub fn files(&self) -> Option<&JournalFiles> {
        self.files.as_ref()
    }

    /// Checks a read that has just ended and had started at the count `before`.
    pub fn check_read(&self, before: u64) -> ReadStability {
        let count = self.current_count();
        if count % 2 == 1 {
            return ReadStability::UnderWay;
        }
        self.met.fetch_max(count, Ordering::AcqRel);
        if count == before {
            ReadStability::Steady
        } else {
            ReadStability::Disturbed
        }
    }

    /// Returns the count that a reader saw last, for [`JournalLockFile::check_read`]. This costs nothing; an outdated count only makes
    /// a read repeat.
    pub fn last_seen_count(&self) -> u64 {
        self.met.load(Ordering::Acquire)
    }

    /// Returns the present count, for [`JournalLockFile::check_read`].
    pub fn current_count(&self) -> u64 {
        if self.files.is_none() {
            return self.count.load(Ordering::Acquire);
        }
        // Without a file there was no writer yet. A file that cannot be read cannot be locked either, so no writer can
        // be at work.
        self.existing_lock_file()
            .and_then(|file| read_number(file, COUNT_AT).ok())
            .unwrap_or(0)
    }

    fn existing_lock_file(&self) -> Option<&File> {
        if self.lock.get().is_none() {
            let file = open_lock_file(&self.files.as_ref()?.lock).ok()?;
            let _ = self.lock.set(file);
        }
        self.lock.get()
    }

    /// Waits for the present writer, in any process, without keeping other writers out for long.
    pub async fn wait_for_writer(&self) -> Result<JournalReadLock> {
        let Some(files) = &self.files else {
            return Ok(JournalReadLock(None));
        };
        // A separate handle is needed: a lock belongs to the opened file, and a writer of this process may hold the one
        // of `self.lock`.
        let file = open_lock_file(&files.lock).map_err(error::home_not_usable)?;
        let locked = wait_on_thread(move || file.lock_shared().map(|()| file)).await?;
        Ok(JournalReadLock(Some(locked)))
    }

    /// Blocks this thread while a change of several paths is in progress. It does not wait for a change whose process
    /// died: the next read or change of a file recovers that.
    pub fn block_while_changing(&self) {
        for _ in 0..PASSES {
            if self.current_count().is_multiple_of(2) {
                return;
            }
            match self.files.as_ref().map(|files| open_lock_file(&files.lock)) {
                Some(Ok(file)) => {
                    let is_free = file.try_lock_shared().is_ok();
                    // An odd count with a free lock means that the writer died.
                    if is_free && self.current_count() % 2 == 1 {
                        return;
                    }
                    drop(file);
                    std::thread::sleep(PAUSE);
                }
                Some(Err(_)) => return,
                None => std::thread::sleep(PAUSE),
            }
        }
    }

    /// Takes the exclusive lock and waits for its present holder.
    pub async fn lock_exclusively(&self) -> Result<JournalWriteLock<'_>> {
        let Some(files) = &self.files else {
            return Ok(JournalWriteLock { gate: self, file: None });
        };
        if self.existing_lock_file().is_none() {
            home_permissions::make_folder(&files.folder).map_err(error::home_not_usable)?;
            let made = home_permissions::make_file(&files.lock);
            let _ = self.lock.set(made.map_err(error::home_not_usable)?);
        }
        let file = self.existing_lock_file().expect("it was made above");
        // Tried first, because a free lock needs no thread to wait for it.
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let handle = file.try_clone().map_err(error::home_not_usable)?;
                wait_on_thread(move || handle.lock()).await?;
            }
            Err(TryLockError::Error(failure)) => return Err(error::home_not_usable(&failure)),
        }
        let lock = JournalWriteLock {
            gate: self,
            file: Some(file),
        };
        // If the file was removed, other processes lock and log to new files of the same names. This lock no longer
        // excludes them.
        if is_removed(file) {
            Err(error::home_is_gone())
        } else {
            Ok(lock)
        }
    }
}

/// The lock of a reader that waited.
#[derive(Debug)]
pub struct JournalReadLock(#[allow(dead_code, reason = "it is held for its lock")] Option<File>);

/// The lock of a writer; freed when dropped, or when the process dies.
#[derive(Debug)]
pub struct JournalWriteLock<'g> {
    gate: &'g JournalLockFile,
    file: Option<&'g File>,
}

impl JournalWriteLock<'_> {
    /// Returns whether `owner` was the last writer here and left no change unfinished, and makes it the last writer.
    pub fn claim_ownership(&self, owner: u64) -> Result<bool> {
        let Some(file) = self.file else {
            return Ok(self.gate.current_count().is_multiple_of(2));
        };
        let (found, count) = read_owner_and_count(file).map_err(error::home_not_usable)?;
        if found != owner {
            // Both numbers are written, so that the file has its full length and one read returns both.
            let both = [owner.to_le_bytes(), count.to_le_bytes()].concat();
            let written = file.write_all_at(&both, OWNER_AT);
            written.map_err(error::home_not_usable)?;
        }
        Ok(found == owner && count.is_multiple_of(2))
    }

    /// Makes readers wait from now on.
    pub fn begin_change(&self) -> Result<()> {
        self.advance_count(0)
    }

    /// Lets readers continue.
    pub fn end_change(&self) -> Result<()> {
        self.advance_count(1)
    }

    /// Adds one to the count if its parity is `from`.
    fn advance_count(&self, from: u64) -> Result<()> {
        let count = self.gate.current_count();
        if count % 2 != from {
            return Ok(());
        }
        match self.file {
            Some(file) => write_number(file, COUNT_AT, count + 1),
            None => {
                self.gate.count.store(count + 1, Ordering::Release);
                Ok(())
            }
        }
    }
}

impl Drop for JournalWriteLock<'_> {
    fn drop(&mut self) {
        if let Some(file) = self.file {
            let _ = file.unlock();
        }
    }
}

fn open_lock_file(path: &Path) -> io::Result<File> {
    File::options().read(true).write(true).open(path)
}

fn read_number(file: &File, at: u64) -> io::Result<u64> {
    let mut bytes = [0; 8];
    match file.read_exact_at(&mut bytes, at) {
        Ok(()) => Ok(u64::from_le_bytes(bytes)),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(0),
        Err(error) => Err(error),
    }
}

/// Returns the owner and the count.
fn read_owner_and_count(file: &File) -> io::Result<(u64, u64)> {
    let mut bytes = [0; 16];
    match file.read_exact_at(&mut bytes, OWNER_AT) {
        Ok(()) => {}
        // No change has made readers wait yet, so the count was never written.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok((read_number(file, OWNER_AT)?, 0)),
        Err(error) => return Err(error),
    }
    let (owner, count) = bytes.split_at(8);
    let number = |part: &[u8]| u64::from_le_bytes(part.try_into().expect("it has eight bytes"));
    Ok((number(owner), number(count)))
}

fn write_number(file: &File, at: u64, number: u64) -> Result<()> {
    let written = file.write_all_at(&number.to_le_bytes(), at);
    written.map_err(error::home_not_usable)
}

/// Waits on a separate thread, so that the caller's thread can run other futures.
async fn wait_on_thread<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> Result<T> {
    let (sender, done) = oneshot::channel();
    let started = std::thread::Builder::new()
        .name("garret-journal-wait".into())
        .spawn(move || sender.send(work()).map_err(|_| ()));
    started.map_err(error::home_not_usable)?;
    let gone = |_| Error::new(ErrorKind::Internal, "a thread ended in the middle of its work");
    done.await.map_err(gone)?.map_err(error::home_not_usable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_is_told_of_a_change_that_another_reader_met_first() {
        let gate = JournalLockFile::new(None);
        let (one, other) = (gate.last_seen_count(), gate.last_seen_count());
        gate.count.store(1, Ordering::Release);
        assert_eq!(gate.check_read(one), ReadStability::UnderWay);
        gate.count.store(2, Ordering::Release);
        assert_eq!(gate.check_read(other), ReadStability::Disturbed);
        assert_eq!(gate.check_read(one), ReadStability::Disturbed);
        assert_eq!(gate.check_read(gate.last_seen_count()), ReadStability::Steady);
    }
}
