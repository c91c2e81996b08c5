//! Batches: the one function through which every change passes.
//!
//! An attempt takes the locks, runs the mutations in order, notes how to take each back, syncs, and only then throws away what it
//! kept for taking back. A failure in between runs the notes in reverse. Everything here is synchronous: with relaxed durability and
//! free locks it runs in place, because handing it to another thread would cost as much as the work; otherwise on a thread that may
//! wait.

use std::collections::{BTreeSet, HashMap};
use std::os::fd::AsFd;
use std::sync::Arc;

use garret_core::{Applied, Batch, Error, Follow, Mutation, Result, WsPath};
use rustix::fs::fsync;
use rustix::io::Errno;

use super::beneath::Last;
use super::blocking::{self, MAX_INLINE_BYTES};
use super::error::{Cause, lock_is_held, path_keeps_changing};
use super::lock::{Locked, Locks, Patience};
use super::undo::UndoLog;
use super::version::Snapshot;
use super::{Durability, Shared, SharedHandle, undo};

const MAX_TRIES: usize = 32;

/// Applies the batch, all or nothing.
pub(super) async fn apply(shared: &SharedHandle, batch: Batch) -> Result<Vec<Applied>> {
    if shared.durability == Durability::Relaxed && is_quick(&batch) {
        match attempt(shared, &batch, Patience::NONE) {
            Err(Failure::Busy(_) | Failure::Moved(_)) => {}
            outcome => return outcome.map_err(Failure::into_error),
        }
    }
    let shared = shared.clone();
    blocking::run(move || apply_patiently(&shared, &batch)).await
}

fn apply_patiently(shared: &Shared, batch: &Batch) -> Result<Vec<Applied>> {
    let mut tries = 0;
    loop {
        tries += 1;
        match attempt(shared, batch, Patience::LONG) {
            Err(Failure::Busy(_) | Failure::Moved(_)) if tries < MAX_TRIES => {}
            outcome => return outcome.map_err(Failure::into_error),
        }
    }
}

/// Whether every mutation touches little, as far as can be told beforehand.
fn is_quick(batch: &Batch) -> bool {
    let weight = |mutation: &Mutation| match mutation {
        Mutation::Write { content, .. } => content.len(),
        Mutation::Append { content, .. } => content.len() as u64,
        Mutation::Copy { .. } | Mutation::Remove { recursive: true, .. } => MAX_INLINE_BYTES + 1,
        _ => 0,
    };
    batch.mutations.len() <= 16 && batch.mutations.iter().map(weight).sum::<u64>() <= MAX_INLINE_BYTES
}

/// Why an attempt ended.
#[derive(Debug)]
pub(super) enum Failure {
    /// The batch cannot be applied.
    Refused(Error),
    /// Another writer holds a lock that was not waited for; worth another attempt.
    Busy(WsPath),
    /// Others moved what the attempt had found; worth another attempt.
    Moved(WsPath),
}

impl Failure {
    fn into_error(self) -> Error {
        match self {
            Self::Refused(error) => error,
            Self::Busy(path) => lock_is_held(&path),
            Self::Moved(path) => path_keeps_changing(&path),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

/// A result in the middle of an attempt.
pub(super) type Step<T> = Result<T, Failure>;

/// Names the path that a cause belongs to.
pub(super) trait At<T> {
    fn at(self, path: &WsPath) -> Step<T>;

    /// The same for what is put into a directory that is locked: where that is not there, whoever made it has just taken it away again,
    /// which takes no lock.
    fn at_new(self, path: &WsPath) -> Step<T>;
}

impl<T, C: Into<Cause>> At<T> for Result<T, C> {
    fn at(self, path: &WsPath) -> Step<T> {
        self.map_err(|cause| Failure::Refused(cause.into().at(path)))
    }

    fn at_new(self, path: &WsPath) -> Step<T> {
        self.map_err(|cause| match cause.into() {
            Cause::System(Errno::NOENT) => Failure::Moved(path.clone()),
            cause => Failure::Refused(cause.at(path)),
        })
    }
}

fn attempt(shared: &Shared, batch: &Batch, patience: Patience) -> Step<Vec<Applied>> {
    let mut attempt = Attempt {
        shared,
        follow: batch.follow,
        locks: Locks::new(patience),
        undo: UndoLog::default(),
        unsynced: Vec::new(),
        is_last: false,
        is_alone: false,
        named_again: BTreeSet::new(),
        several: HashMap::new(),
    };
    match attempt.run(&batch.mutations) {
        Ok(applied) => {
            let doomed = attempt.undo.settle();
            // Readers cannot see a removed tree any more; deleting it needs no lock.
            drop(attempt);
            undo::delete(doomed);
            Ok(applied)
        }
        Err(failure) => Err(attempt.take_back(failure)),
    }
}

/// A batch on its way.
pub(super) struct Attempt<'a> {
    pub(super) shared: &'a Shared,
    pub(super) follow: Follow,
    pub(super) locks: Locks,
    pub(super) undo: UndoLog,
    /// Directories with names that are not on the disk yet.
    unsynced: Vec<Arc<Locked>>,
    /// Whether nothing comes after this mutation, so that it need not be taken back once it is done.
    pub(super) is_last: bool,
    /// Whether it is the only mutation. Then a copy and a move tell the version of the file, which costs reading it; in a batch nobody asks.
    pub(super) is_alone: bool,
    /// The files that got another name.
    pub(super) named_again: BTreeSet<WsPath>,
    /// The files with several names that were met, as they were then.
    pub(super) several: HashMap<(u64, u64), Snapshot>,
}

impl Attempt<'_> {
    fn run(&mut self, mutations: &[Mutation]) -> Step<Vec<Applied>> {
        self.lock_in_path_order(mutations)?;
        self.is_alone = mutations.len() == 1;
        let mut applied = Vec::with_capacity(mutations.len());
        for (index, mutation) in mutations.iter().enumerate() {
            self.is_last = index + 1 == mutations.len();
            applied.push(self.step(mutation)?);
        }
        for (mutation, applied) in mutations.iter().zip(&mut applied) {
            // A name that was added since made it another version.
            if self.named_again.contains(mutation.path()) {
                applied.version = None;
            }
        }
        self.sync_directories()?;
        Ok(applied)
    }

    fn step(&mut self, mutation: &Mutation) -> Step<Applied> {
        match mutation {
            Mutation::Write {
                path,
                content,
                precondition,
                mode,
                parents,
            } => self.write(path, content, precondition, *mode, *parents),
            Mutation::Append {
                path,
                content,
                precondition,
                create,
            } => self.append(path, content, precondition, *create),
            Mutation::Remove {
                path,
                recursive,
                precondition,
            } => self.remove(path, *recursive, precondition),
            Mutation::Rename {
                from,
                to,
                overwrite,
                parents,
            } => self.rename(from, to, *overwrite, *parents),
            Mutation::Copy {
                from,
                to,
                overwrite,
                parents,
            } => self.copy(from, to, *overwrite, *parents),
            Mutation::MakeDir { path, parents } => self.make_dir(path, *parents),
            Mutation::Symlink { path, target } => self.make_link(path, target),
            Mutation::SetMode { path, mode } => self.set_mode(path, *mode),
        }
    }

    /// Notes that names in `directory` changed.
    pub(super) fn touched(&mut self, directory: &Arc<Locked>) {
        let is_new = !self.unsynced.iter().any(|known| Arc::ptr_eq(known, directory));
        if self.is_durable() && is_new {
            self.unsynced.push(directory.clone());
        }
    }

    pub(super) fn is_durable(&self) -> bool {
        self.shared.durability == Durability::Full
    }

    /// Waits until a file's content is on the disk, where that was promised.
    pub(super) fn sync_file(&self, file: impl AsFd) -> Result<(), Errno> {
        if self.is_durable() { fsync(file) } else { Ok(()) }
    }

    fn sync_directories(&self) -> Step<()> {
        let mut unsynced = self.unsynced.iter();
        unsynced.try_for_each(|directory| match fsync(directory) {
            // Some file systems sync names with the files and refuse this.
            Ok(()) | Err(Errno::INVAL) => Ok(()),
            failed => failed.at(&WsPath::root()),
        })
    }

    /// Takes back what was done, and says so where that did not work for everything.
    fn take_back(self, failure: Failure) -> Failure {
        let left = self.undo.take_back();
        match failure {
            Failure::Refused(error) if left > 0 => {
                let hint = format!(
                    "{left} earlier steps of the same request could not be undone, because another program changed those paths; check the files before you try again"
                );
                Failure::Refused(error.hint(hint))
            }
            other => other,
        }
    }
}

/// The paths of a mutation, with what happens to a link in the last place of each.
pub(super) fn paths_of(mutation: &Mutation) -> [Option<(&WsPath, Last)>; 2] {
    match mutation {
        Mutation::Write { path, .. }
        | Mutation::Append { path, .. }
        | Mutation::MakeDir { path, .. }
        | Mutation::SetMode { path, .. } => [Some((path, Last::Followed)), None],
        Mutation::Remove { path, .. } | Mutation::Symlink { path, .. } => [Some((path, Last::Kept)), None],
        Mutation::Rename { from, to, .. } => [Some((from, Last::Kept)), Some((to, Last::Kept))],
        // Reading the source takes no lock.
        Mutation::Copy { to, .. } => [Some((to, Last::Kept)), None],
    }
}
