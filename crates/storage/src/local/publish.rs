//! Publishing: moving a finished temporary file, or any entry, into place in one step.

use std::sync::Arc;

use rustix::fs::{AtFlags, RenameFlags, renameat, renameat_with, statat};
use rustix::io::Errno;

use super::batch::{AttemptError, AttemptResult, BatchAttempt, ResultAtPath};
use super::directory_lock::LockedDirectory;
use super::entry_location::EntryLocation;
use super::temporary_files::{self, TemporaryFile};
use super::undo_log::{KeptEntryKind, LocalUndoStep};

/// A name in a locked directory.
pub(super) type LockedName<'a> = (&'a Arc<LockedDirectory>, &'a str);

/// Renames with `flags`. `NOREPLACE` also works on file systems that do not support it.
pub(super) fn rename_with(from: LockedName<'_>, to: LockedName<'_>, flags: RenameFlags) -> Result<(), Errno> {
    match renameat_with(from.0, from.1, to.0, to.1, flags) {
        Err(Errno::INVAL | Errno::NOSYS) if flags == RenameFlags::NOREPLACE => rename_if_free(from, to),
        other => other,
    }
}

/// Renames if nothing is at `to`.
fn rename_if_free(from: LockedName<'_>, to: LockedName<'_>) -> Result<(), Errno> {
    // The locks keep every Garret process away between the check and the rename; other programs could still come
    // between.
    match statat(to.0, to.1, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => renameat(from.0, from.1, to.0, to.1),
        Ok(_) => Err(Errno::EXIST),
        Err(errno) => Err(errno),
    }
}

impl BatchAttempt<'_> {
    /// Renames the file into place, over the entry that `place` says is there.
    pub(super) fn publish_file(
        &mut self,
        file: &mut TemporaryFile,
        parent: &Arc<LockedDirectory>,
        place: &EntryLocation,
    ) -> AttemptResult<()> {
        let temporary = file.name.clone();
        let (from, to) = ((parent, temporary.as_str()), (parent, place.name()));
        if place.entry.is_none() {
            match rename_with(from, to, RenameFlags::NOREPLACE) {
                // A program that takes no locks made the file first; look again.
                Err(Errno::EXIST) => return Err(AttemptError::Moved(place.real.clone())),
                other => other.at_path(&place.real)?,
            }
            self.undo.record_step(LocalUndoStep::Made {
                parent: parent.clone(),
                name: place.name().to_owned(),
            });
        } else {
            self.replace_file(from, to).at_path(&place.real)?;
        }
        file.mark_placed();
        self.mark_unsynced(parent);
        Ok(())
    }

    /// Replaces the file at `to` by the temporary file at `from`. The old file is kept for reverting, unless this is
    /// the last mutation.
    fn replace_file(&mut self, from: LockedName<'_>, to: LockedName<'_>) -> Result<(), Errno> {
        if self.is_last {
            return renameat(from.0, from.1, to.0, to.1);
        }
        let note = |kept: &str| LocalUndoStep::Replaced {
            parent: to.0.clone(),
            name: to.1.to_owned(),
            kept: kept.to_owned(),
        };
        match rename_with(from, to, RenameFlags::EXCHANGE) {
            Ok(()) => self.undo.record_step(note(from.1)),
            Err(Errno::INVAL | Errno::NOSYS) => {
                // Without an exchange there is an instant without the file; the locks hide it from other writers.
                let kept = temporary_files::fresh_name(&*self.shared.ids);
                renameat(to.0, to.1, to.0, &kept)?;
                self.undo.record_step(note(&kept));
                renameat(from.0, from.1, to.0, to.1)?;
            }
            Err(errno) => return Err(errno),
        }
        Ok(())
    }

    /// Moves an entry to a temporary name in the same directory, until the batch is done.
    pub(super) fn set_aside(&mut self, spot: LockedName<'_>, what: KeptEntryKind) -> Result<(), Errno> {
        let kept = temporary_files::fresh_name(&*self.shared.ids);
        rename_with(spot, (spot.0, &kept), RenameFlags::NOREPLACE)?;
        self.undo.record_step(LocalUndoStep::Kept {
            parent: spot.0.clone(),
            name: spot.1.to_owned(),
            kept,
            what,
        });
        self.mark_unsynced(spot.0);
        Ok(())
    }
}
