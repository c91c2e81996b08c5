//! Moving files, links and whole directories: one native rename.

use std::sync::Arc;

use garret_core::{EntryKind, Error, MutationOutcome, Version, WsPath};
use rustix::fs::{AtFlags, OFlags, RenameFlags, renameat, unlinkat};
use rustix::io::Errno;

use super::batch::{AttemptError, AttemptResult, BatchAttempt, ResultAtPath};
use super::beneath::LocalFinalLink;
use super::directory_lock::LockedDirectory;
use super::entry_handle::open_file;
use super::entry_location::EntryLocation;
use super::hard_links::is_same_inode;
use super::publish::{LockedName, rename_with};
use super::undo_log::{KeptEntryKind, LocalUndoStep};
use super::write::size_at;

impl BatchAttempt<'_> {
    pub(super) fn rename(
        &mut self,
        from: &WsPath,
        to: &WsPath,
        overwrite: bool,
        parents: bool,
    ) -> AttemptResult<MutationOutcome> {
        let source = self.locate_entry(from, LocalFinalLink::Kept)?;
        let target = self.locate_entry(to, LocalFinalLink::Kept)?;
        if source.real.is_root() {
            return Err(Error::root_denied("moved").into());
        }
        let (Some(parent), Some(kind)) = (source.parent.clone(), source.kind()) else {
            return Err(source.missing_error().into());
        };
        let mut applied = MutationOutcome {
            version: None,
            size: size_at(&source),
            created: false,
            change: None,
        };
        if source.real == target.real {
            applied.version = self.moved_version(kind, (&parent, source.name()));
            return Ok(applied);
        }
        if target.real.is_within(&source.real) {
            let message = format!("{} cannot be moved into itself", source.real.to_quoted());
            return Err(Error::invalid(message).at_path(&source.real).into());
        }
        let existed = self.check_replaceable(&target, kind, overwrite)?;
        let target_parent = self.ensure_parent(&target, parents)?;
        let (here, there) = ((&parent, source.name()), (&target_parent, target.name()));
        match existed {
            None => self.move_to_free(here, there, &target.real)?,
            Some(_) if is_same_file(&source, &target) => self.remove_alias(here).at_path(&source.real)?,
            Some(there_kind) => self.move_over(here, there, there_kind).at_path(&target.real)?,
        }
        self.mark_unsynced(&parent);
        self.mark_unsynced(&target_parent);
        applied.version = self.moved_version(kind, there);
        applied.created = existed.is_none();
        Ok(applied)
    }

    /// Returns the version of a moved file, if the move is the only mutation of the batch.
    fn moved_version(&self, kind: EntryKind, (parent, name): LockedName<'_>) -> Option<Version> {
        if kind != EntryKind::File || !self.is_alone {
            return None;
        }
        // A file that its owner may not read can still be moved; then there is no version.
        let (file, _) = open_file(parent, name.as_bytes(), OFlags::RDONLY).ok()?;
        self.version_if_alone(&file)
    }

    /// Checks that an entry of `kind` may be put at the target; returns the kind of the entry that is there now.
    pub(super) fn check_replaceable(
        &mut self,
        to: &EntryLocation,
        kind: EntryKind,
        overwrite: bool,
    ) -> AttemptResult<Option<EntryKind>> {
        if to.real.is_root() {
            return Err(Error::already_exists(&to.real).into());
        }
        let Some(there) = to.kind() else { return Ok(None) };
        if !overwrite {
            let error = Error::already_exists(&to.real).hint("set `overwrite` to replace it");
            return Err(error.into());
        }
        match (kind, there) {
            (EntryKind::Directory, EntryKind::Directory) => {
                let parent: Arc<LockedDirectory> = to.parent.clone().expect("an entry has a directory");
                self.expect_empty(&parent, to)?;
            }
            (EntryKind::Directory, _) => return Err(Error::not_a_directory(&to.real).into()),
            (_, EntryKind::Directory) => return Err(Error::is_a_directory(&to.real).into()),
            _ => {}
        }
        Ok(Some(there))
    }

    fn move_to_free(&mut self, from: LockedName<'_>, to: LockedName<'_>, path: &WsPath) -> AttemptResult<()> {
        match rename_with(from, to, RenameFlags::NOREPLACE) {
            // A program that takes no locks made the target or removed the source.
            Err(Errno::EXIST | Errno::NOENT) => return Err(AttemptError::Moved(path.clone())),
            other => other.at_path(path)?,
        }
        self.undo.record_step(LocalUndoStep::Moved {
            from: to_owned_name(from),
            to: to_owned_name(to),
        });
        Ok(())
    }

    /// Moves `from` over the entry at `to`, which is kept for reverting unless this is the last mutation.
    fn move_over(&mut self, from: LockedName<'_>, to: LockedName<'_>, there: EntryKind) -> Result<(), Errno> {
        if self.is_last {
            match renameat(from.0, from.1, to.0, to.1) {
                // The directory was found empty, so these are temporary entries; they are deleted with it after the
                // batch.
                Err(Errno::NOTEMPTY | Errno::EXIST) => {}
                other => return other,
            }
        }
        let what = match there {
            EntryKind::Directory => KeptEntryKind::EmptyDirectory,
            _ => KeptEntryKind::File,
        };
        // An exchange is one step, so `to` always holds the old entry or the new one.
        match rename_with(from, to, RenameFlags::EXCHANGE) {
            Err(Errno::INVAL | Errno::NOSYS) => return self.move_over_in_two_steps(from, to, what),
            other => other?,
        }
        self.undo.record_step(LocalUndoStep::Exchanged {
            one: to_owned_name(from),
            other: to_owned_name(to),
        });
        self.set_aside(from, what)
    }

    /// Moves the old entry aside and then the new one into place, for file systems that cannot exchange two names.
    fn move_over_in_two_steps(
        &mut self,
        from: LockedName<'_>,
        to: LockedName<'_>,
        what: KeptEntryKind,
    ) -> Result<(), Errno> {
        // There is an instant without any entry at `to`; the locks hide it from other writers, not from readers.
        self.set_aside(to, what)?;
        rename_with(from, to, RenameFlags::NOREPLACE)?;
        self.undo.record_step(LocalUndoStep::Moved {
            from: to_owned_name(from),
            to: to_owned_name(to),
        });
        Ok(())
    }

    /// Moves one name of a file over another name of the same file.
    fn remove_alias(&mut self, from: LockedName<'_>) -> Result<(), Errno> {
        // POSIX `rename` does nothing when both names are hard links to one file, so the old name is removed instead.
        if self.is_last {
            unlinkat(from.0, from.1, AtFlags::empty())
        } else {
            self.set_aside(from, KeptEntryKind::File)
        }
    }
}

fn to_owned_name(spot: LockedName<'_>) -> (Arc<LockedDirectory>, String) {
    (spot.0.clone(), spot.1.to_owned())
}

fn is_same_file(one: &EntryLocation, other: &EntryLocation) -> bool {
    match (&one.entry, &other.entry) {
        (Some(one), Some(other)) => is_same_inode(one, other),
        _ => false,
    }
}
