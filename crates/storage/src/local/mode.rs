//! Setting permission bits.

use garret_core::{Applied, EntryKind, WsPath};
use rustix::fs::{fstat, syncfs};

use super::batch::{At, Attempt, Failure, Step};
use super::beneath::Last;
use super::error::root_is_kept;
use super::names::{kind_in, size_in};
use super::reopen::{expect_file, hold, set_mode};
use super::undo::Note;

impl Attempt<'_> {
    pub(super) fn set_mode(&mut self, path: &WsPath, mode: u32) -> Step<Applied> {
        let place = self.place(path, Last::Followed)?;
        if place.real.is_root() {
            return Err(root_is_kept("changed").into());
        }
        let (Some(parent), Some(_)) = (&place.parent, &place.entry) else {
            return Err(place.why_missing().into());
        };
        let entry = hold(parent, place.name().as_bytes()).at(&place.real)?;
        let before = fstat(&entry).at(&place.real)?;
        match kind_in(&before) {
            EntryKind::Directory => {}
            EntryKind::Symlink => return Err(Failure::Moved(place.real)),
            _ => expect_file(&before).at(&place.real)?,
        }
        set_mode(&entry, mode).at(&place.real)?;
        self.undo.note(Note::Mode {
            entry,
            mode: before.st_mode,
        });
        if self.is_durable() {
            // The entry is held without access to it, so it cannot be synced alone.
            syncfs(parent).at(&place.real)?;
        }
        Ok(Applied {
            version: None,
            size: size_in(&before),
            created: false,
        })
    }
}
