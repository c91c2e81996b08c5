//! Who may change the files, and whether readers must wait: one small file for each place, beside the log.
//!
//! Writers take an exclusive lock on it that the kernel frees when they die. It holds two numbers. The *owner* is the handle that last
//! changed something: one that finds its own number there knows that nobody wrote in between, and its memory still holds. The *count*
//! is odd while a change of several paths is under way and goes up at its begin and its end.
//!
//! A reader takes no lock. After its read it looks at the count: where it is even and the same as after the read before, no change of
//! several paths began or ended meanwhile, and what was read is not half of one. Otherwise it waits for the change to end and reads
//! again. That is one `pread` of eight bytes for each read; a shared lock would be two system calls and would keep writers waiting.
//! A change of one path needs no count: the storage shows it at once or not at all.

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
use crate::places::Site;
use crate::private;
use crate::writer::is_removed;

/// How long a thread waits for a change to end, and how often: thirty seconds in all.
const PAUSE: Duration = Duration::from_millis(1);
const PASSES: usize = 30_000;
const OWNER_AT: u64 = 0;
const COUNT_AT: u64 = 8;

/// The files that belong to one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Files {
    pub(super) folder: PathBuf,
    pub(super) lock: PathBuf,
    /// The log that is written.
    pub(super) log: PathBuf,
    /// A full log on its way into the journal.
    pub(super) old: PathBuf,
}

impl Files {
    /// The files for `site` below `home`.
    pub(super) fn of(home: &Path, site: &Site) -> Option<Self> {
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

/// Lets writers pass one at a time, and tells readers when to wait.
#[derive(Debug)]
pub(super) struct Gate {
    files: Option<Files>,
    lock: OnceLock<File>,
    /// The count where there is no file.
    count: AtomicU64,
    /// The count that a reader last met.
    met: AtomicU64,
}

/// What a reader found out after its read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reading {
    /// Nothing of several paths happened meanwhile.
    Steady,
    /// Something did; worth another read.
    Disturbed,
    /// It is still under way.
    UnderWay,
}

impl Gate {
    /// The gate of a place; without files for one that only this handle knows.
    pub(super) fn new(files: Option<Files>) -> Self {
        let gate = Self {
            files,
            lock: OnceLock::new(),
            count: AtomicU64::new(0),
            met: AtomicU64::new(0),
        };
        gate.met.store(gate.count() & !1, Ordering::Release);
        gate
    }

    pub(super) fn files(&self) -> Option<&Files> {
        self.files.as_ref()
    }

    /// What became of a read that just ended and had begun at the count `before`.
    pub(super) fn check(&self, before: u64) -> Reading {
        let count = self.count();
        if count % 2 == 1 {
            return Reading::UnderWay;
        }
        self.met.fetch_max(count, Ordering::AcqRel);
        match count == before {
            true => Reading::Steady,
            false => Reading::Disturbed,
        }
    }

    /// The count as a reader last met it, for [`Gate::check`]: at no cost, and at worst older than it is, so that a read is made again.
    pub(super) fn met(&self) -> u64 {
        self.met.load(Ordering::Acquire)
    }

    /// The count as it is, for [`Gate::check`].
    pub(super) fn now(&self) -> u64 {
        self.count()
    }

    fn count(&self) -> u64 {
        if self.files.is_none() {
            return self.count.load(Ordering::Acquire);
        }
        // No file, no writer yet. One that cannot be read cannot be locked either, so no writer gets far.
        self.existing()
            .and_then(|file| number_at(file, COUNT_AT).ok())
            .unwrap_or(0)
    }

    fn existing(&self) -> Option<&File> {
        if self.lock.get().is_none() {
            let file = open(&self.files.as_ref()?.lock).ok()?;
            let _ = self.lock.set(file);
        }
        self.lock.get()
    }

    /// Waits for the writer of now, in whatever process, without keeping others from writing for long.
    pub(super) async fn wait(&self) -> Result<Shared> {
        let Some(files) = &self.files else {
            return Ok(Shared(None));
        };
        // A handle of its own: a lock belongs to the opened file, and the gate's may be the writer's.
        let file = open(&files.lock).map_err(|failure| error::home(&failure))?;
        let locked = elsewhere(move || file.lock_shared().map(|()| file)).await?;
        Ok(Shared(Some(locked)))
    }

    /// Waits on this thread while a change of several paths is under way. One whose maker died is not waited for: whoever reads a file
    /// or changes one next settles it.
    pub(super) fn pass(&self) {
        for _ in 0..PASSES {
            if self.count().is_multiple_of(2) {
                return;
            }
            match self.files.as_ref().map(|files| open(&files.lock)) {
                Some(Ok(file)) => {
                    let is_free = file.try_lock_shared().is_ok();
                    if is_free && self.count() % 2 == 1 {
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

    /// Takes the lock, waiting for whoever has it.
    pub(super) async fn enter(&self) -> Result<Exclusive<'_>> {
        let Some(files) = &self.files else {
            return Ok(Exclusive { gate: self, file: None });
        };
        if self.existing().is_none() {
            private::make_folder(&files.folder).map_err(|failure| error::home(&failure))?;
            let made = private::make_file(&files.lock);
            let _ = self.lock.set(made.map_err(|failure| error::home(&failure))?);
        }
        let file = self.existing().expect("it was made above");
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let handle = file.try_clone().map_err(|failure| error::home(&failure))?;
                elsewhere(move || handle.lock()).await?;
            }
            Err(TryLockError::Error(failure)) => return Err(error::home(&failure)),
        }
        let lock = Exclusive {
            gate: self,
            file: Some(file),
        };
        // Others lock the file of that name, and write the log of that name: this one keeps nobody out any more.
        match is_removed(file) {
            true => Err(error::home_is_gone()),
            false => Ok(lock),
        }
    }
}

/// The lock of a reader that waited.
#[derive(Debug)]
pub(super) struct Shared(#[allow(dead_code, reason = "it is held for its lock")] Option<File>);

/// The lock of a writer; freed when dropped, or when the process dies.
#[derive(Debug)]
pub(super) struct Exclusive<'g> {
    gate: &'g Gate,
    file: Option<&'g File>,
}

impl Exclusive<'_> {
    /// Whether `owner` was the last to write here and left nothing in its middle; from now on it is the last.
    pub(super) fn claim(&self, owner: u64) -> Result<bool> {
        let Some(file) = self.file else {
            return Ok(self.gate.count().is_multiple_of(2));
        };
        let (found, count) = numbers(file).map_err(|failure| error::home(&failure))?;
        if found != owner {
            // Both, so that the file has its whole length and one look tells both.
            let both = [owner.to_le_bytes(), count.to_le_bytes()].concat();
            let written = file.write_all_at(&both, OWNER_AT);
            written.map_err(|failure| error::home(&failure))?;
        }
        Ok(found == owner && count.is_multiple_of(2))
    }

    /// Has readers wait from now on.
    pub(super) fn begin(&self) -> Result<()> {
        self.step(0)
    }

    /// Lets readers go on.
    pub(super) fn end(&self) -> Result<()> {
        self.step(1)
    }

    /// Moves the count on, unless it is past the parity that it leaves.
    fn step(&self, from: u64) -> Result<()> {
        let count = self.gate.count();
        if count % 2 != from {
            return Ok(());
        }
        match self.file {
            Some(file) => put_number(file, COUNT_AT, count + 1),
            None => {
                self.gate.count.store(count + 1, Ordering::Release);
                Ok(())
            }
        }
    }
}

impl Drop for Exclusive<'_> {
    fn drop(&mut self) {
        if let Some(file) = self.file {
            let _ = file.unlock();
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    File::options().read(true).write(true).open(path)
}

fn number_at(file: &File, at: u64) -> io::Result<u64> {
    let mut bytes = [0; 8];
    match file.read_exact_at(&mut bytes, at) {
        Ok(()) => Ok(u64::from_le_bytes(bytes)),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(0),
        Err(error) => Err(error),
    }
}

/// The owner and the count.
fn numbers(file: &File) -> io::Result<(u64, u64)> {
    let mut bytes = [0; 16];
    match file.read_exact_at(&mut bytes, OWNER_AT) {
        Ok(()) => {}
        // Nobody has had readers wait yet, so the count was never written.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok((number_at(file, OWNER_AT)?, 0)),
        Err(error) => return Err(error),
    }
    let (owner, count) = bytes.split_at(8);
    let number = |part: &[u8]| u64::from_le_bytes(part.try_into().expect("it has eight bytes"));
    Ok((number(owner), number(count)))
}

fn put_number(file: &File, at: u64, number: u64) -> Result<()> {
    let written = file.write_all_at(&number.to_le_bytes(), at);
    written.map_err(|failure| error::home(&failure))
}

/// Waits on a thread of its own, so that the caller's drives other futures.
async fn elsewhere<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> Result<T> {
    let (sender, done) = oneshot::channel();
    let started = std::thread::Builder::new()
        .name("garret-journal-wait".into())
        .spawn(move || sender.send(work()).map_err(|_| ()));
    started.map_err(|failure| error::home(&failure))?;
    let gone = |_| Error::new(ErrorKind::Internal, "a thread ended in the middle of its work");
    done.await.map_err(gone)?.map_err(|failure| error::home(&failure))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_is_told_of_a_change_that_another_reader_met_first() {
        let gate = Gate::new(None);
        let (one, other) = (gate.met(), gate.met());
        gate.count.store(1, Ordering::Release);
        assert_eq!(gate.check(one), Reading::UnderWay);
        gate.count.store(2, Ordering::Release);
        assert_eq!(gate.check(other), Reading::Disturbed);
        assert_eq!(gate.check(one), Reading::Disturbed);
        assert_eq!(gate.check(gate.met()), Reading::Steady);
    }
}
