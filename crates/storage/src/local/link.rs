//! Making symbolic links. The target is not checked: the boundary is enforced when a link is followed.

use garret_core::path::check_target;
use garret_core::{Applied, Error, WsPath};
use rustix::fs::symlinkat;

use super::batch::{At, Attempt, Step};
use super::beneath::Last;
use super::undo::Note;

impl Attempt<'_> {
    pub(super) fn make_link(&mut self, path: &WsPath, target: &str) -> Step<Applied> {
        check_target(target).map_err(|error| error.at(path))?;
        let place = self.place(path, Last::Kept)?;
        if place.kind().is_some() {
            return Err(Error::already_exists(&place.real).into());
        }
        let parent = self.parent_of(&place, true)?;
        symlinkat(target, &parent, place.name()).at_new(&place.real)?;
        self.undo.note(Note::Made {
            parent: parent.clone(),
            name: place.name().to_owned(),
        });
        if let Some(owner) = parent.owner().to_give() {
            owner.take_link(&parent, place.name().as_bytes()).at(&place.real)?;
        }
        self.touched(&parent);
        Ok(Applied {
            version: None,
            size: target.len() as u64,
            created: true,
        })
    }
}
