//! The undo log of a batch: one record for each step, run in reverse when a later mutation fails.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{AtFlags, RenameFlags, fstat, ftruncate, renameat, unlinkat};
use rustix::io::Errno;

use super::lend::lending;
use super::lock::Locked;
use super::publish::rename_with;
use super::{reopen, temp};

/// A step that was done, with the data to revert it.
#[derive(Debug)]
pub(super) enum Note {
    /// A file or link was made.
    Made { parent: Arc<Locked>, name: String },
    /// A directory was made.
    MadeDirectory { parent: Arc<Locked>, name: String },
    /// The file at `name` replaced one that is kept under the temporary name `kept`.
    Replaced {
        parent: Arc<Locked>,
        name: String,
        kept: String,
    },
    /// The entry at `name` was removed and is kept under the temporary name `kept`.
    Kept {
        parent: Arc<Locked>,
        name: String,
        kept: String,
        what: Kept,
    },
    /// An entry was moved.
    Moved {
        from: (Arc<Locked>, String),
        to: (Arc<Locked>, String),
    },
    /// Two entries changed places.
    Exchanged {
        one: (Arc<Locked>, String),
        other: (Arc<Locked>, String),
    },
    /// A file grew from `size` by `added` bytes.
    Grew { file: OwnedFd, size: u64, added: u64 },
    /// The mode of an entry was changed; it was `mode` before.
    Mode { entry: OwnedFd, mode: u32 },
}

/// The kind of entry that is kept under a temporary name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kept {
    File,
    EmptyDirectory,
    Tree,
}

/// A removed tree that is not deleted yet.
#[derive(Debug)]
pub(super) struct Doomed {
    parent: OwnedFd,
    name: String,
}

/// The records of one batch.
#[derive(Debug, Default)]
pub(super) struct UndoLog(Vec<Note>);

impl UndoLog {
    pub(super) fn note(&mut self, note: Note) {
        self.0.push(note);
    }

    /// Reverts all steps, the last first; returns the number of steps that could not be reverted because another
    /// program changed the entries.
    pub(super) fn take_back(self) -> usize {
        let outcomes = self.0.into_iter().rev().map(take_back);
        outcomes.filter(Result::is_err).count()
    }

    /// Deletes the kept files and empty directories of a batch that succeeded. Returns the removed trees, which are
    /// deleted after the locks are released.
    pub(super) fn settle(&mut self) -> Vec<Doomed> {
        self.0.drain(..).filter_map(settle).collect()
    }
}

fn take_back(note: Note) -> Result<(), Errno> {
    match note {
        Note::Made { parent, name } => unlinkat(&parent, &name, AtFlags::empty()),
        Note::MadeDirectory { parent, name } => unlinkat(&parent, &name, AtFlags::REMOVEDIR),
        Note::Replaced { parent, name, kept } => renameat(&parent, &kept, &parent, &name),
        // Another program may have made an entry with this name meanwhile, which must stay.
        Note::Kept { parent, name, kept, .. } => {
            rename_with((&parent, &kept), (&parent, &name), RenameFlags::NOREPLACE)
        }
        Note::Exchanged { one, other } => rename_with((&one.0, &one.1), (&other.0, &other.1), RenameFlags::EXCHANGE),
        Note::Moved { from, to } => rename_with((&to.0, &to.1), (&from.0, &from.1), RenameFlags::NOREPLACE),
        Note::Grew { file, size, added } => shrink(&file, size, added),
        Note::Mode { entry, mode } => reopen::set_mode(&entry, mode),
    }
}

/// Cuts off the appended bytes, unless a program that takes no locks has appended since.
pub(super) fn shrink(file: &OwnedFd, size: u64, added: u64) -> Result<(), Errno> {
    #[allow(clippy::unnecessary_cast, reason = "the field has another type on other machines")]
    let size_now = fstat(file)?.st_size as u64;
    if size_now == size + added {
        ftruncate(file, size)
    } else {
        Err(Errno::BUSY)
    }
}

fn settle(note: Note) -> Option<Doomed> {
    match note {
        Note::Replaced { parent, name, kept }
        | Note::Kept {
            parent,
            name,
            kept,
            what: Kept::File,
        } => {
            let removed = unless_shut(&parent, || unlinkat(&parent, &kept, AtFlags::empty()));
            put_back_unless(removed, &parent, &name, &kept);
        }
        Note::Kept {
            parent,
            name,
            kept,
            what: Kept::EmptyDirectory,
        } => {
            let removed = unless_shut(&parent, || temp::remove_empty(parent.as_fd(), kept.as_bytes()));
            put_back_unless(removed, &parent, &name, &kept);
        }
        Note::Kept {
            parent,
            kept,
            what: Kept::Tree,
            ..
        } => {
            let parent = parent.as_fd().try_clone_to_owned().ok()?;
            return Some(Doomed { parent, name: kept });
        }
        _ => {}
    }
    None
}

/// Runs `work`, which changes names in `directory`; adds the owner's permission bits if they are missing.
fn unless_shut(directory: impl AsFd, work: impl Fn() -> Result<(), Errno>) -> Result<(), Errno> {
    // The batch itself may have removed these bits from the directory.
    lending(directory.as_fd(), |errno| *errno == Errno::ACCESS, work)
}

/// Moves a kept entry back to its name if it could not be removed.
fn put_back_unless(removed: Result<(), Errno>, parent: &Arc<Locked>, name: &str, kept: &str) {
    // A program without locks swapped in another entry before the rename, a directory for a file, for example. That
    // entry belongs to the user and must not stay under a hidden name.
    if removed.is_err() {
        let _ = rename_with((parent, kept), (parent, name), RenameFlags::NOREPLACE);
    }
}

/// Deletes removed trees. A tree that cannot be deleted stays under its hidden name.
pub(super) fn delete(doomed: Vec<Doomed>) {
    for Doomed { parent, name } in doomed {
        let _ = unless_shut(&parent, || temp::remove_any(parent.as_fd(), name.as_bytes()));
    }
}
