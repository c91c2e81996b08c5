//! Making directories.

use garret_core::{Applied, EntryKind, Error, WsPath};

use super::batch::{Attempt, Step};
use super::beneath::Last;

impl Attempt<'_> {
    pub(super) fn make_dir(&mut self, path: &WsPath, parents: bool) -> Step<Applied> {
        let place = self.place(path, Last::Followed)?;
        let applied = |created| Applied {
            version: None,
            size: 0,
            created,
        };
        match place.kind() {
            Some(EntryKind::Directory) if parents => return Ok(applied(false)),
            Some(_) => return Err(Error::already_exists(&place.real).into()),
            None => {}
        }
        let parent = self.parent_of(&place, parents)?;
        self.make_directory(&parent, place.name(), &place.real)?;
        Ok(applied(true))
    }
}
