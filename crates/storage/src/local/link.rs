//! Making symbolic links. The target is not checked: the boundary is enforced when a link is followed.

use garret_core::path::check_target;
use garret_core::{Error, MutationOutcome, WsPath};
use rustix::fs::symlinkat;

use super::batch::{AttemptResult, BatchAttempt, ResultAtPath};
use super::beneath::LocalFinalLink;
use super::undo_log::LocalUndoStep;

impl BatchAttempt<'_> {
    pub(super) fn make_link(&mut self, path: &WsPath, target: &str) -> AttemptResult<MutationOutcome> {
        check_target(target).map_err(|error| error.at_path(path))?;
        let place = self.locate_entry(path, LocalFinalLink::Kept)?;
        if place.kind().is_some() {
            return Err(Error::already_exists(&place.real).into());
        }
        let parent = self.ensure_parent(&place, true)?;
        symlinkat(target, &parent, place.name()).at_new_path(&place.real)?;
        self.undo.record_step(LocalUndoStep::Made {
            parent: parent.clone(),
            name: place.name().to_owned(),
        });
        if let Some(owner) = parent.owner().if_root_can_give() {
            owner.give_link(&parent, place.name().as_bytes()).at_path(&place.real)?;
        }
        self.mark_unsynced(&parent);
        Ok(MutationOutcome {
            version: None,
            size: target.len() as u64,
            created: true,
            change: None,
        })
    }
}
