//! Setting permission bits.

use garret_core::{EntryKind, Error, MutationOutcome, WsPath};
use garret_handles::{open_path_handle, set_mode};
use rustix::fs::{Mode, OFlags, Stat, Timespec, Timestamps, fchmod, fstat, futimens, syncfs};

use super::batch::{AttemptError, AttemptResult, BatchAttempt, ResultAtPath};
use super::beneath::LocalFinalLink;
use super::directory_entries::{stat_kind, stat_size};
use super::entry_handle::{expect_file, open_file};
use super::entry_location::EntryLocation;
use super::hard_links::has_other_names;
use super::undo_log::LocalUndoStep;

impl BatchAttempt<'_> {
    pub(super) fn set_mode(&mut self, path: &WsPath, mode: u32) -> AttemptResult<MutationOutcome> {
        let place = self.locate_entry(path, LocalFinalLink::Followed)?;
        if place.real.is_root() {
            return Err(Error::root_denied("changed").into());
        }
        let (Some(parent), Some(_)) = (&place.parent, &place.entry) else {
            return Err(place.missing_error().into());
        };
        let entry = open_path_handle(parent, place.name().as_bytes()).at_path(&place.real)?;
        let before = fstat(&entry).at_path(&place.real)?;
        match stat_kind(&before) {
            EntryKind::Directory => {}
            // The path was resolved to something that was no link, so the link came after that.
            EntryKind::Symlink => return Err(AttemptError::Moved(place.real)),
            _ => expect_file(&before).at_path(&place.real)?,
        }
        let applied = MutationOutcome {
            version: None,
            size: stat_size(&before),
            created: false,
            change: None,
        };
        if has_other_names(&before) && self.set_mode_on_copy(&place, mode)? {
            return Ok(applied);
        }
        set_mode(&entry, mode).at_path(&place.real)?;
        self.undo.record_step(LocalUndoStep::Mode {
            entry,
            mode: before.st_mode,
        });
        if self.is_durable() {
            // An `O_PATH` handle cannot be synced, so the whole file system is.
            syncfs(parent).at_path(&place.real)?;
        }
        Ok(applied)
    }

    /// Sets the mode on a copy of a file that has other names, and replaces this name by the copy. Returns `false` if
    /// the file has no other name or cannot be read; then the mode is set on the file itself and shows under all its
    /// names.
    fn set_mode_on_copy(&mut self, place: &EntryLocation, mode: u32) -> AttemptResult<bool> {
        let parent = place.parent.clone().expect("an entry has a directory");
        let Ok((file, stat)) = open_file(&parent, place.name().as_bytes(), OFlags::RDONLY) else {
            return Ok(false);
        };
        let Some(mut copy) = self.copy_if_linked(place, &file, &stat)? else {
            return Ok(false);
        };
        // A mode change does not touch the modification time, so the copy gets the old one.
        futimens(&copy.file, &times_of(&stat)).at_path(&place.real)?;
        fchmod(&copy.file, Mode::from_raw_mode(mode & 0o7777)).at_path(&place.real)?;
        self.sync_file(&copy.file).at_path(&place.real)?;
        self.publish_file(&mut copy, &parent, place)?;
        Ok(true)
    }
}

fn times_of(stat: &Stat) -> Timestamps {
    Timestamps {
        last_access: Timespec {
            tv_sec: stat.st_atime as _,
            tv_nsec: stat.st_atime_nsec as _,
        },
        last_modification: Timespec {
            tv_sec: stat.st_mtime as _,
            tv_nsec: stat.st_mtime_nsec as _,
        },
    }
}
