//! Batches: the one function through which every change passes.
//!
//! An attempt takes the locks, runs the mutations in order, records how to revert each, syncs, and only then deletes
//! the entries that it had kept for reverting. A failure in between runs the records in reverse. Everything here is
//! synchronous: with relaxed durability and free locks it runs in place, because handing it to another thread would
//! cost as much as the work; otherwise it runs on a thread that may block.

use std::collections::{BTreeSet, HashMap};
use std::os::fd::AsFd;
use std::sync::Arc;

use garret_core::{Batch, Error, Follow, Mutation, MutationOutcome, Result, WsPath};
use rustix::fs::fsync;
use rustix::io::Errno;

use super::MAX_INLINE_BYTES;
use super::beneath::LocalFinalLink;
use super::directory_lock::{DirectoryLocks, LockPatience, LockedDirectory};
use super::error::{AccessError, lock_held_error, path_keeps_changing_error};
use super::undo_log::UndoLog;
use super::version::StatFingerprint;
use super::{Durability, LocalContext, LocalContextHandle, undo_log};

const MAX_TRIES: usize = 32;

/// Applies the batch, all or nothing.
pub(super) async fn apply_batch(shared: &LocalContextHandle, batch: Batch) -> Result<Vec<MutationOutcome>> {
    if shared.durability == Durability::Relaxed && is_quick(&batch) {
        match attempt_batch(shared, &batch, LockPatience::NONE) {
            // Waiting for a lock would block the runtime, so the next attempt runs on a blocking thread.
            Err(AttemptError::Busy(_) | AttemptError::Moved(_)) => {}
            outcome => return outcome.map_err(AttemptError::into_error),
        }
    }
    let shared = shared.clone();
    garret_handles::run_blocking(move || apply_with_waiting(&shared, &batch)).await
}

fn apply_with_waiting(shared: &LocalContext, batch: &Batch) -> Result<Vec<MutationOutcome>> {
    let mut tries = 0;
    loop {
        tries += 1;
        match attempt_batch(shared, batch, LockPatience::LONG) {
            Err(AttemptError::Busy(_) | AttemptError::Moved(_)) if tries < MAX_TRIES => {}
            outcome => return outcome.map_err(AttemptError::into_error),
        }
    }
}

/// Returns whether every mutation touches little data, as far as the batch shows.
fn is_quick(batch: &Batch) -> bool {
    let weight = |mutation: &Mutation| match mutation {
        Mutation::Write { content, .. } => content.len(),
        Mutation::Append { content, .. } => content.len() as u64,
        // The size of a copied file or a removed tree is unknown here, so it counts as too much.
        Mutation::Copy { .. } | Mutation::Remove { recursive: true, .. } => MAX_INLINE_BYTES + 1,
        _ => 0,
    };
    batch.mutations.len() <= 16 && batch.mutations.iter().map(weight).sum::<u64>() <= MAX_INLINE_BYTES
}

/// The reason why an attempt ended.
#[derive(Debug)]
pub(super) enum AttemptError {
    /// The batch cannot be applied.
    Refused(Error),
    /// Another writer holds a lock; worth another attempt.
    Busy(WsPath),
    /// Another program moved an entry that the attempt had found; worth another attempt.
    Moved(WsPath),
}

impl AttemptError {
    fn into_error(self) -> Error {
        match self {
            Self::Refused(error) => error,
            Self::Busy(path) => lock_held_error(&path),
            Self::Moved(path) => path_keeps_changing_error(&path),
        }
    }
}

impl From<Error> for AttemptError {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

/// The result of a step of an attempt.
pub(super) type AttemptResult<T> = Result<T, AttemptError>;

/// Adds the path to the cause of a failed access.
pub(super) trait ResultAtPath<T> {
    fn at_path(self, path: &WsPath) -> AttemptResult<T>;

    /// Adds the path of a new entry in a locked directory. A missing directory means another attempt: another batch
    /// made the directory and has just reverted it, which takes no lock.
    fn at_new_path(self, path: &WsPath) -> AttemptResult<T>;
}

impl<T, C: Into<AccessError>> ResultAtPath<T> for Result<T, C> {
    fn at_path(self, path: &WsPath) -> AttemptResult<T> {
        self.map_err(|cause| AttemptError::Refused(cause.into().into_error(path)))
    }

    fn at_new_path(self, path: &WsPath) -> AttemptResult<T> {
        self.map_err(|cause| match cause.into() {
            AccessError::System(Errno::NOENT) => AttemptError::Moved(path.clone()),
            cause => AttemptError::Refused(cause.into_error(path)),
        })
    }
}

fn attempt_batch(shared: &LocalContext, batch: &Batch, patience: LockPatience) -> AttemptResult<Vec<MutationOutcome>> {
    let mut attempt = BatchAttempt {
        shared,
        follow: batch.follow,
        locks: DirectoryLocks::new(patience),
        undo: UndoLog::default(),
        unsynced: Vec::new(),
        is_last: false,
        is_alone: false,
        named_again: BTreeSet::new(),
        several: HashMap::new(),
    };
    match attempt.run_mutations(&batch.mutations) {
        Ok(applied) => {
            // From here on nothing fails, so the kept entries are not needed any more.
            let doomed = attempt.undo.discard_kept();
            // Readers cannot see a removed tree any more; deleting it needs no lock.
            drop(attempt);
            undo_log::delete_trees(doomed);
            Ok(applied)
        }
        Err(failure) => Err(attempt.revert_mutations(failure)),
    }
}

/// A batch that is being applied.
pub(super) struct BatchAttempt<'a> {
    pub(super) shared: &'a LocalContext,
    pub(super) follow: Follow,
    pub(super) locks: DirectoryLocks,
    pub(super) undo: UndoLog,
    /// Directories whose changed names are not synced to disk yet.
    unsynced: Vec<Arc<LockedDirectory>>,
    /// Whether this is the last mutation, which need not be reversible once it is done.
    pub(super) is_last: bool,
    /// Whether it is the only mutation. Only then do a copy and a move report the version of the file, because that
    /// costs reading it and no caller of a larger batch asks for it.
    pub(super) is_alone: bool,
    /// The files that got another name (hard link) in this batch.
    pub(super) named_again: BTreeSet<WsPath>,
    /// The state of each file with several names when this batch first saw it.
    pub(super) several: HashMap<(u64, u64), StatFingerprint>,
}

impl BatchAttempt<'_> {
    fn run_mutations(&mut self, mutations: &[Mutation]) -> AttemptResult<Vec<MutationOutcome>> {
        self.lock_in_path_order(mutations)?;
        self.is_alone = mutations.len() == 1;
        let mut applied = Vec::with_capacity(mutations.len());
        for (index, mutation) in mutations.iter().enumerate() {
            self.is_last = index + 1 == mutations.len();
            applied.push(self.run_mutation(mutation)?);
        }
        for (mutation, applied) in mutations.iter().zip(&mut applied) {
            // Another hard link changes ctime and with it the version, so the version from before is wrong.
            if self.named_again.contains(mutation.path()) {
                applied.version = None;
            }
        }
        self.sync_directories()?;
        Ok(applied)
    }

    fn run_mutation(&mut self, mutation: &Mutation) -> AttemptResult<MutationOutcome> {
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

    /// Records that names in `directory` changed, so that it is synced at the end.
    pub(super) fn mark_unsynced(&mut self, directory: &Arc<LockedDirectory>) {
        let is_new = !self.unsynced.iter().any(|known| Arc::ptr_eq(known, directory));
        if self.is_durable() && is_new {
            self.unsynced.push(directory.clone());
        }
    }

    pub(super) fn is_durable(&self) -> bool {
        self.shared.durability == Durability::Full
    }

    /// Syncs the content of a file to disk, if the durability promises that.
    pub(super) fn sync_file(&self, file: impl AsFd) -> Result<(), Errno> {
        if self.is_durable() { fsync(file) } else { Ok(()) }
    }

    fn sync_directories(&self) -> AttemptResult<()> {
        // Once for each directory at the end: a batch often changes many names in one directory.
        let mut unsynced = self.unsynced.iter();
        unsynced.try_for_each(|directory| match fsync(directory) {
            // Some file systems sync names with the files and refuse this.
            Ok(()) | Err(Errno::INVAL) => Ok(()),
            failed => failed.at_path(&WsPath::root()),
        })
    }

    /// Reverts the mutations that are done, and adds a hint to the error if some could not be reverted.
    fn revert_mutations(self, failure: AttemptError) -> AttemptError {
        let left = self.undo.revert_all();
        match failure {
            AttemptError::Refused(error) if left > 0 => {
                let hint = format!(
                    "{left} earlier steps of the same request could not be undone, because another program changed those paths; check the files before you try again"
                );
                AttemptError::Refused(error.hint(hint))
            }
            other => other,
        }
    }
}

/// Returns the paths of a mutation that must be locked, and for each whether a link in its last component is followed.
pub(super) fn paths_to_lock(mutation: &Mutation) -> [Option<(&WsPath, LocalFinalLink)>; 2] {
    match mutation {
        Mutation::Write { path, .. }
        | Mutation::Append { path, .. }
        | Mutation::MakeDir { path, .. }
        | Mutation::SetMode { path, .. } => [Some((path, LocalFinalLink::Followed)), None],
        Mutation::Remove { path, .. } | Mutation::Symlink { path, .. } => [Some((path, LocalFinalLink::Kept)), None],
        Mutation::Rename { from, to, .. } => [Some((from, LocalFinalLink::Kept)), Some((to, LocalFinalLink::Kept))],
        // Reading the source takes no lock.
        Mutation::Copy { to, .. } => [Some((to, LocalFinalLink::Kept)), None],
    }
}
