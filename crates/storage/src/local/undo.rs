//! How to take a batch back: notes made by its mutations, run in reverse when a later one fails.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{AtFlags, RenameFlags, fstat, ftruncate, renameat, unlinkat};
use rustix::io::Errno;

use super::lend::lending;
use super::lock::Locked;
use super::publish::rename_with;
use super::{reopen, temp};

/// What was done, as far as taking it back needs.
#[derive(Debug)]
pub(super) enum Note {
    /// A file or link came to be.
    Made { parent: Arc<Locked>, name: String },
    /// A directory came to be.
    MadeDirectory { parent: Arc<Locked>, name: String },
    /// The file at `name` took the place of one that is kept under the temporary name `kept`.
    Replaced {
        parent: Arc<Locked>,
        name: String,
        kept: String,
    },
    /// What was at `name` is kept under the temporary name `kept`.
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
    /// The mode was `mode` before.
    Mode { entry: OwnedFd, mode: u32 },
}

/// What lies under a temporary name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kept {
    File,
    EmptyDirectory,
    Tree,
}

/// A removed tree that waits to be deleted.
#[derive(Debug)]
pub(super) struct Doomed {
    parent: OwnedFd,
    name: String,
}

/// The notes of one batch.
#[derive(Debug, Default)]
pub(super) struct UndoLog(Vec<Note>);

impl UndoLog {
    pub(super) fn note(&mut self, note: Note) {
        self.0.push(note);
    }

    /// Takes everything back, last first; gives how many steps others made impossible.
    pub(super) fn take_back(self) -> usize {
        let outcomes = self.0.into_iter().rev().map(take_back);
        outcomes.filter(Result::is_err).count()
    }

    /// Throws away what was kept, now that nothing will be taken back. Trees are left for [`delete`].
    pub(super) fn settle(&mut self) -> Vec<Doomed> {
        self.0.drain(..).filter_map(settle).collect()
    }
}

fn take_back(note: Note) -> Result<(), Errno> {
    match note {
        Note::Made { parent, name } => unlinkat(&parent, &name, AtFlags::empty()),
        Note::MadeDirectory { parent, name } => unlinkat(&parent, &name, AtFlags::REMOVEDIR),
        Note::Replaced { parent, name, kept } => renameat(&parent, &kept, &parent, &name),
        Note::Kept { parent, name, kept, .. } => {
            rename_with((&parent, &kept), (&parent, &name), RenameFlags::NOREPLACE)
        }
        Note::Exchanged { one, other } => rename_with((&one.0, &one.1), (&other.0, &other.1), RenameFlags::EXCHANGE),
        Note::Moved { from, to } => rename_with((&to.0, &to.1), (&from.0, &from.1), RenameFlags::NOREPLACE),
        Note::Grew { file, size, added } => shrink(&file, size, added),
        Note::Mode { entry, mode } => reopen::set_mode(&entry, mode),
    }
}

/// Cuts off what was appended, unless a program without locks has appended since.
pub(super) fn shrink(file: &OwnedFd, size: u64, added: u64) -> Result<(), Errno> {
    #[allow(clippy::unnecessary_cast, reason = "the field has another type on other machines")]
    match fstat(file)?.st_size as u64 == size + added {
        true => ftruncate(file, size),
        false => Err(Errno::BUSY),
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

/// A batch may have ended by taking the bits away by which names in the directory can be changed.
fn unless_shut(directory: impl AsFd, work: impl Fn() -> Result<(), Errno>) -> Result<(), Errno> {
    lending(directory.as_fd(), |errno| *errno == Errno::ACCESS, work)
}

/// What was kept and could not be removed turned out to be something else, because a program without locks was at work: it is put
/// back rather than left under a hidden name.
fn put_back_unless(removed: Result<(), Errno>, parent: &Arc<Locked>, name: &str, kept: &str) {
    if removed.is_err() {
        let _ = rename_with((parent, kept), (parent, name), RenameFlags::NOREPLACE);
    }
}

/// Deletes removed trees. What resists stays under its hidden name until a sweep.
pub(super) fn delete(doomed: Vec<Doomed>) {
    for Doomed { parent, name } in doomed {
        let _ = unless_shut(&parent, || temp::remove_any(parent.as_fd(), name.as_bytes()));
    }
}
