//! Setting permission bits.

use garret_core::{Applied, EntryKind, WsPath};
use rustix::fs::{Mode, OFlags, Stat, Timespec, Timestamps, fchmod, fstat, futimens, syncfs};

use super::alias::has_other_names;
use super::batch::{At, Attempt, Failure, Step};
use super::beneath::Last;
use super::error::root_is_kept;
use super::names::{kind_in, size_in};
use super::place::Place;
use super::reopen::{expect_file, hold, open_file, set_mode};
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
            // The path was resolved to something that was no link, so the link came after that.
            EntryKind::Symlink => return Err(Failure::Moved(place.real)),
            _ => expect_file(&before).at(&place.real)?,
        }
        let applied = Applied {
            version: None,
            size: size_in(&before),
            created: false,
        };
        if has_other_names(&before) && self.set_mode_apart(&place, mode)? {
            return Ok(applied);
        }
        set_mode(&entry, mode).at(&place.real)?;
        self.undo.note(Note::Mode {
            entry,
            mode: before.st_mode,
        });
        if self.is_durable() {
            // An `O_PATH` handle cannot be synced, so the whole file system is.
            syncfs(parent).at(&place.real)?;
        }
        Ok(applied)
    }

    /// Sets the mode on a copy of a file that has other names, and replaces this name by the copy. Returns `false` if
    /// the file has no other name or cannot be read; then the mode is set on the file itself and shows under all its
    /// names.
    fn set_mode_apart(&mut self, place: &Place, mode: u32) -> Step<bool> {
        let parent = place.parent.clone().expect("an entry has a directory");
        let Ok((file, stat)) = open_file(&parent, place.name().as_bytes(), OFlags::RDONLY) else {
            return Ok(false);
        };
        let Some(mut copy) = self.part(place, &file, &stat)? else {
            return Ok(false);
        };
        // A mode change does not touch the modification time, so the copy gets the old one.
        futimens(&copy.file, &times_of(&stat)).at(&place.real)?;
        fchmod(&copy.file, Mode::from_raw_mode(mode & 0o7777)).at(&place.real)?;
        self.sync_file(&copy.file).at(&place.real)?;
        self.publish(&mut copy, &parent, place)?;
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
