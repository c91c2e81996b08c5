//! Removing files, links and directories.

use std::os::fd::AsFd;
use std::sync::Arc;

use garret_core::{EntryKind, Error, ErrorKind, MutationOutcome, Precondition, WsPath};
use garret_handles::open_child;
use rustix::fs::{AtFlags, unlinkat};
use rustix::io::Errno;

use super::batch::{AttemptError, AttemptResult, BatchAttempt, ResultAtPath};
use super::beneath::LocalFinalLink;
use super::directory_lock::LockedDirectory;
use super::entry_location::EntryLocation;
use super::temporary_files;
use super::undo_log::KeptEntryKind;

impl BatchAttempt<'_> {
    pub(super) fn remove(
        &mut self,
        path: &WsPath,
        recursive: bool,
        precondition: &Precondition,
    ) -> AttemptResult<MutationOutcome> {
        let place = self.locate_entry(path, LocalFinalLink::Kept)?;
        if place.real.is_root() {
            return Err(Error::root_denied("removed").into());
        }
        let (Some(parent), Some(kind)) = (place.parent.clone(), place.kind()) else {
            return Err(place.missing_error().into());
        };
        match kind {
            // Only files have versions, so a precondition on anything else cannot hold.
            EntryKind::File => self.check_precondition(&place, precondition)?,
            _ if *precondition != Precondition::Any => return Err(Error::conflict(&place.real, None).into()),
            _ => {}
        }
        match kind {
            EntryKind::Directory if recursive => self.remove_tree(&parent, &place)?,
            EntryKind::Directory => self.remove_empty(&parent, &place)?,
            _ => self.remove_file(&parent, &place)?,
        }
        Ok(MutationOutcome {
            version: None,
            size: 0,
            created: false,
            change: None,
        })
    }

    fn remove_file(&mut self, parent: &Arc<LockedDirectory>, place: &EntryLocation) -> AttemptResult<()> {
        if !self.is_last {
            return self
                .set_aside((parent, place.name()), KeptEntryKind::File)
                .at_path(&place.real);
        }
        unlinkat(parent, place.name(), AtFlags::empty()).at_path(&place.real)?;
        self.mark_unsynced(parent);
        Ok(())
    }

    fn remove_empty(&mut self, parent: &Arc<LockedDirectory>, place: &EntryLocation) -> AttemptResult<()> {
        self.expect_empty(parent, place)
            .map_err(|failure| with_not_empty_hint(failure, "set `recursive` to remove it with everything in it"))?;
        if self.is_last {
            match unlinkat(parent, place.name(), AtFlags::REMOVEDIR) {
                Ok(()) => {
                    self.mark_unsynced(parent);
                    return Ok(());
                }
                // The remaining entries are temporary: left by a crashed writer, or kept by this batch for reverting.
                Err(Errno::NOTEMPTY) => {}
                Err(errno) => return Err(errno).at_path(&place.real),
            }
        }
        self.set_aside((parent, place.name()), KeptEntryKind::EmptyDirectory)
            .at_path(&place.real)
    }

    /// Checks that the directory has no entries but temporary ones, and locks it so that no writer adds any.
    pub(super) fn expect_empty(&mut self, parent: &Arc<LockedDirectory>, place: &EntryLocation) -> AttemptResult<()> {
        let handle = open_child(parent, place.name().as_bytes()).at_path(&place.real)?;
        let (directory, _) = self.lock_handle(handle, &place.real)?;
        if temporary_files::is_empty(directory.as_fd()).at_path(&place.real)? {
            Ok(())
        } else {
            Err(Error::not_empty(&place.real).into())
        }
    }

    /// Removes a directory with everything in it.
    fn remove_tree(&mut self, parent: &Arc<LockedDirectory>, place: &EntryLocation) -> AttemptResult<()> {
        // One rename hides the whole tree at once; it is deleted after the batch.
        match self.set_aside((parent, place.name()), KeptEntryKind::Tree) {
            // A layered file system cannot rename a directory of a lower layer, but can delete it entry by entry.
            Err(Errno::XDEV) if self.is_last => {
                garret_handles::remove_tree(&**parent, place.name().as_bytes()).at_path(&place.real)?;
                self.mark_unsynced(parent);
                Ok(())
            }
            outcome => outcome.at_path(&place.real),
        }
    }
}

fn with_not_empty_hint(failure: AttemptError, hint: &str) -> AttemptError {
    match failure {
        AttemptError::Refused(error) if error.kind() == ErrorKind::NotEmpty => error.hint(hint).into(),
        other => other,
    }
}
