//! Removing files, links and directories.

use std::os::fd::AsFd;
use std::sync::Arc;

use garret_core::{Applied, EntryKind, Error, ErrorKind, Precondition, WsPath};
use rustix::fs::{AtFlags, unlinkat};
use rustix::io::Errno;

use super::batch::{At, Attempt, Failure, Step};
use super::beneath::Last;
use super::error::root_is_kept;
use super::lock::Locked;
use super::names::open_child;
use super::place::Place;
use super::temp;
use super::undo::Kept;

impl Attempt<'_> {
    pub(super) fn remove(&mut self, path: &WsPath, recursive: bool, precondition: &Precondition) -> Step<Applied> {
        let place = self.place(path, Last::Kept)?;
        if place.real.is_root() {
            return Err(root_is_kept("removed").into());
        }
        let (Some(parent), Some(kind)) = (place.parent.clone(), place.kind()) else {
            return Err(place.why_missing().into());
        };
        match kind {
            // Only files have versions, so a precondition on anything else cannot hold.
            EntryKind::File => self.check(&place, precondition)?,
            _ if *precondition != Precondition::Any => return Err(Error::conflict(&place.real, None).into()),
            _ => {}
        }
        match kind {
            EntryKind::Directory if recursive => self.remove_tree(&parent, &place)?,
            EntryKind::Directory => self.remove_empty(&parent, &place)?,
            _ => self.remove_file(&parent, &place)?,
        }
        Ok(Applied {
            version: None,
            size: 0,
            created: false,
        })
    }

    fn remove_file(&mut self, parent: &Arc<Locked>, place: &Place) -> Step<()> {
        if !self.is_last {
            return self.set_aside((parent, place.name()), Kept::File).at(&place.real);
        }
        unlinkat(parent, place.name(), AtFlags::empty()).at(&place.real)?;
        self.touched(parent);
        Ok(())
    }

    fn remove_empty(&mut self, parent: &Arc<Locked>, place: &Place) -> Step<()> {
        self.expect_empty(parent, place)
            .map_err(|failure| with_hint(failure, "set `recursive` to remove it with everything in it"))?;
        if self.is_last {
            match unlinkat(parent, place.name(), AtFlags::REMOVEDIR) {
                Ok(()) => {
                    self.touched(parent);
                    return Ok(());
                }
                // The remaining entries are temporary: left by a crashed writer, or kept by this batch for reverting.
                Err(Errno::NOTEMPTY) => {}
                Err(errno) => return Err(errno).at(&place.real),
            }
        }
        self.set_aside((parent, place.name()), Kept::EmptyDirectory)
            .at(&place.real)
    }

    /// Checks that the directory has no entries but temporary ones, and locks it so that no writer adds any.
    pub(super) fn expect_empty(&mut self, parent: &Arc<Locked>, place: &Place) -> Step<()> {
        let handle = open_child(parent, place.name().as_bytes()).at(&place.real)?;
        let (directory, _) = self.lock(handle, &place.real)?;
        if temp::is_empty(directory.as_fd()).at(&place.real)? {
            Ok(())
        } else {
            Err(Error::not_empty(&place.real).into())
        }
    }

    /// Removes a directory with everything in it.
    fn remove_tree(&mut self, parent: &Arc<Locked>, place: &Place) -> Step<()> {
        // One rename hides the whole tree at once; it is deleted after the batch.
        match self.set_aside((parent, place.name()), Kept::Tree) {
            // A layered file system cannot rename a directory of a lower layer, but can delete it entry by entry.
            Err(Errno::XDEV) if self.is_last => {
                temp::remove_tree(parent.as_fd(), place.name().as_bytes()).at(&place.real)?;
                self.touched(parent);
                Ok(())
            }
            outcome => outcome.at(&place.real),
        }
    }
}

fn with_hint(failure: Failure, hint: &str) -> Failure {
    match failure {
        Failure::Refused(error) if error.kind() == ErrorKind::NotEmpty => error.hint(hint).into(),
        other => other,
    }
}
