//! Publishing: moving a finished temporary file, or any entry, into place in one step.

use std::sync::Arc;

use rustix::fs::{AtFlags, RenameFlags, renameat, renameat_with, statat};
use rustix::io::Errno;

use super::batch::{At, Attempt, Failure, Step};
use super::lock::Locked;
use super::place::Place;
use super::temp::{self, Temporary};
use super::undo::{Kept, Note};

/// A name in a locked directory.
pub(super) type Spot<'a> = (&'a Arc<Locked>, &'a str);

/// Renames with `flags`. `NOREPLACE` also works on file systems that do not support it.
pub(super) fn rename_with(from: Spot<'_>, to: Spot<'_>, flags: RenameFlags) -> Result<(), Errno> {
    match renameat_with(from.0, from.1, to.0, to.1, flags) {
        Err(Errno::INVAL | Errno::NOSYS) if flags == RenameFlags::NOREPLACE => rename_if_free(from, to),
        other => other,
    }
}

/// Renames if nothing is at `to`.
fn rename_if_free(from: Spot<'_>, to: Spot<'_>) -> Result<(), Errno> {
    // The locks keep every Garret process away between the check and the rename; other programs could still come
    // between.
    match statat(to.0, to.1, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => renameat(from.0, from.1, to.0, to.1),
        Ok(_) => Err(Errno::EXIST),
        Err(errno) => Err(errno),
    }
}

impl Attempt<'_> {
    /// Renames the file into place, over the entry that `place` says is there.
    pub(super) fn publish(&mut self, file: &mut Temporary, parent: &Arc<Locked>, place: &Place) -> Step<()> {
        let temporary = file.name.clone();
        let (from, to) = ((parent, temporary.as_str()), (parent, place.name()));
        if place.entry.is_none() {
            match rename_with(from, to, RenameFlags::NOREPLACE) {
                // A program that takes no locks made the file first; look again.
                Err(Errno::EXIST) => return Err(Failure::Moved(place.real.clone())),
                other => other.at(&place.real)?,
            }
            self.undo.note(Note::Made {
                parent: parent.clone(),
                name: place.name().to_owned(),
            });
        } else {
            self.replace(from, to).at(&place.real)?;
        }
        file.mark_placed();
        self.touched(parent);
        Ok(())
    }

    /// Replaces the file at `to` by the temporary file at `from`. The old file is kept for reverting, unless this is
    /// the last mutation.
    fn replace(&mut self, from: Spot<'_>, to: Spot<'_>) -> Result<(), Errno> {
        if self.is_last {
            return renameat(from.0, from.1, to.0, to.1);
        }
        let note = |kept: &str| Note::Replaced {
            parent: to.0.clone(),
            name: to.1.to_owned(),
            kept: kept.to_owned(),
        };
        match rename_with(from, to, RenameFlags::EXCHANGE) {
            Ok(()) => self.undo.note(note(from.1)),
            Err(Errno::INVAL | Errno::NOSYS) => {
                // Without an exchange there is an instant without the file; the locks hide it from other writers.
                let kept = temp::fresh_name(&*self.shared.ids);
                renameat(to.0, to.1, to.0, &kept)?;
                self.undo.note(note(&kept));
                renameat(from.0, from.1, to.0, to.1)?;
            }
            Err(errno) => return Err(errno),
        }
        Ok(())
    }

    /// Moves an entry to a temporary name in the same directory, until the batch is done.
    pub(super) fn set_aside(&mut self, spot: Spot<'_>, what: Kept) -> Result<(), Errno> {
        let kept = temp::fresh_name(&*self.shared.ids);
        rename_with(spot, (spot.0, &kept), RenameFlags::NOREPLACE)?;
        self.undo.note(Note::Kept {
            parent: spot.0.clone(),
            name: spot.1.to_owned(),
            kept,
            what,
        });
        self.touched(spot.0);
        Ok(())
    }
}
