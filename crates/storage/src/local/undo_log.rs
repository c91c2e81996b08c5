//! The undo log of a batch: one record for each step, run in reverse when a later mutation fails.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{AtFlags, RenameFlags, fstat, ftruncate, renameat, unlinkat};
use rustix::io::Errno;

use super::directory_lock::LockedDirectory;
use super::owner_bits::with_owner_bits;
use super::publish::rename_with;
use super::temporary_files;

/// A step that was done, with the data to revert it.
#[derive(Debug)]
pub(super) enum LocalUndoStep {
    /// A file or link was made.
    Made { parent: Arc<LockedDirectory>, name: String },
    /// A directory was made.
    MadeDirectory { parent: Arc<LockedDirectory>, name: String },
    /// The file at `name` replaced one that is kept under the temporary name `kept`.
    Replaced {
        parent: Arc<LockedDirectory>,
        name: String,
        kept: String,
    },
    /// The entry at `name` was removed and is kept under the temporary name `kept`.
    Kept {
        parent: Arc<LockedDirectory>,
        name: String,
        kept: String,
        what: KeptEntryKind,
    },
    /// An entry was moved.
    Moved {
        from: (Arc<LockedDirectory>, String),
        to: (Arc<LockedDirectory>, String),
    },
    /// Two entries changed places.
    Exchanged {
        one: (Arc<LockedDirectory>, String),
        other: (Arc<LockedDirectory>, String),
    },
    /// A file grew from `size` by `added` bytes.
    Grew { file: OwnedFd, size: u64, added: u64 },
    /// The mode of an entry was changed; it was `mode` before.
    Mode { entry: OwnedFd, mode: u32 },
}

/// The kind of entry that is kept under a temporary name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeptEntryKind {
    File,
    EmptyDirectory,
    Tree,
}

/// A removed tree that is not deleted yet.
#[derive(Debug)]
pub(super) struct RemovedTree {
    parent: OwnedFd,
    name: String,
}

/// The records of one batch.
#[derive(Debug, Default)]
pub(super) struct UndoLog(Vec<LocalUndoStep>);

impl UndoLog {
    pub(super) fn record_step(&mut self, note: LocalUndoStep) {
        self.0.push(note);
    }

    /// Reverts all steps, the last first; returns the number of steps that could not be reverted because another
    /// program changed the entries.
    pub(super) fn revert_all(self) -> usize {
        let outcomes = self.0.into_iter().rev().map(revert_step);
        outcomes.filter(Result::is_err).count()
    }

    /// Deletes the kept files and empty directories of a batch that succeeded. Returns the removed trees, which are
    /// deleted after the locks are released.
    pub(super) fn discard_kept(&mut self) -> Vec<RemovedTree> {
        self.0.drain(..).filter_map(discard_kept_entry).collect()
    }
}

fn revert_step(note: LocalUndoStep) -> Result<(), Errno> {
    match note {
        LocalUndoStep::Made { parent, name } => unlinkat(&parent, &name, AtFlags::empty()),
        LocalUndoStep::MadeDirectory { parent, name } => unlinkat(&parent, &name, AtFlags::REMOVEDIR),
        LocalUndoStep::Replaced { parent, name, kept } => renameat(&parent, &kept, &parent, &name),
        // Another program may have made an entry with this name meanwhile, which must stay.
        LocalUndoStep::Kept { parent, name, kept, .. } => {
            rename_with((&parent, &kept), (&parent, &name), RenameFlags::NOREPLACE)
        }
        LocalUndoStep::Exchanged { one, other } => {
            rename_with((&one.0, &one.1), (&other.0, &other.1), RenameFlags::EXCHANGE)
        }
        LocalUndoStep::Moved { from, to } => rename_with((&to.0, &to.1), (&from.0, &from.1), RenameFlags::NOREPLACE),
        LocalUndoStep::Grew { file, size, added } => cut_appended(&file, size, added),
        LocalUndoStep::Mode { entry, mode } => garret_handles::set_mode(&entry, mode),
    }
}

/// Cuts off the appended bytes, unless a program that takes no locks has appended since.
pub(super) fn cut_appended(file: &OwnedFd, size: u64, added: u64) -> Result<(), Errno> {
    #[allow(clippy::unnecessary_cast, reason = "the field has another type on other machines")]
    let size_now = fstat(file)?.st_size as u64;
    if size_now == size + added {
        ftruncate(file, size)
    } else {
        Err(Errno::BUSY)
    }
}

fn discard_kept_entry(note: LocalUndoStep) -> Option<RemovedTree> {
    match note {
        LocalUndoStep::Replaced { parent, name, kept }
        | LocalUndoStep::Kept {
            parent,
            name,
            kept,
            what: KeptEntryKind::File,
        } => {
            let removed = with_bits_if_denied(&parent, || unlinkat(&parent, &kept, AtFlags::empty()));
            put_back_unless_removed(removed, &parent, &name, &kept);
        }
        LocalUndoStep::Kept {
            parent,
            name,
            kept,
            what: KeptEntryKind::EmptyDirectory,
        } => {
            let removed = with_bits_if_denied(&parent, || {
                temporary_files::remove_empty(parent.as_fd(), kept.as_bytes())
            });
            put_back_unless_removed(removed, &parent, &name, &kept);
        }
        LocalUndoStep::Kept {
            parent,
            kept,
            what: KeptEntryKind::Tree,
            ..
        } => {
            let parent = parent.as_fd().try_clone_to_owned().ok()?;
            return Some(RemovedTree { parent, name: kept });
        }
        _ => {}
    }
    None
}

/// Runs `work`, which changes names in `directory`; adds the owner's permission bits if they are missing.
fn with_bits_if_denied(directory: impl AsFd, work: impl Fn() -> Result<(), Errno>) -> Result<(), Errno> {
    // The batch itself may have removed these bits from the directory.
    with_owner_bits(directory.as_fd(), |errno| *errno == Errno::ACCESS, work)
}

/// Moves a kept entry back to its name if it could not be removed.
fn put_back_unless_removed(removed: Result<(), Errno>, parent: &Arc<LockedDirectory>, name: &str, kept: &str) {
    // A program without locks swapped in another entry before the rename, a directory for a file, for example. That
    // entry belongs to the user and must not stay under a hidden name.
    if removed.is_err() {
        let _ = rename_with((parent, kept), (parent, name), RenameFlags::NOREPLACE);
    }
}

/// Deletes removed trees. A tree that cannot be deleted stays under its hidden name.
pub(super) fn delete_trees(doomed: Vec<RemovedTree>) {
    for RemovedTree { parent, name } in doomed {
        let _ = with_bits_if_denied(&parent, || garret_handles::remove_tree(&parent, name.as_bytes()));
    }
}
