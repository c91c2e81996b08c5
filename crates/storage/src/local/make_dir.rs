//! Making directories.

use garret_core::{EntryKind, Error, MutationOutcome, WsPath};

use super::batch::{AttemptResult, BatchAttempt};
use super::beneath::LocalFinalLink;

impl BatchAttempt<'_> {
    pub(super) fn make_dir(&mut self, path: &WsPath, parents: bool) -> AttemptResult<MutationOutcome> {
        let place = self.locate_entry(path, LocalFinalLink::Followed)?;
        let applied = |created| MutationOutcome {
            version: None,
            size: 0,
            created,
            change: None,
        };
        match place.kind() {
            Some(EntryKind::Directory) if parents => return Ok(applied(false)),
            Some(_) => return Err(Error::already_exists(&place.real).into()),
            None => {}
        }
        let parent = self.ensure_parent(&place, parents)?;
        self.make_directory(&parent, place.name(), &place.real)?;
        Ok(applied(true))
    }
}
