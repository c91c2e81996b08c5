//! The entries of a merge, each followed through the base and both sides whatever it is called there.
//!
//! An entry is known by what it was in the base, not by its path. What it is on a side is a state: the entry that is its directory, its
//! name in there, and what it is. So the rename of a directory changes that one entry, what the other side does inside meanwhile goes
//! along, and a merge of positions is a merge of two small facts.

use std::collections::{BTreeMap, BTreeSet};

use garret_core::{EntryKind, EntryPath, Image, Merging, PathChange, Side};

use super::moves::renames;

/// An entry, by its place in [`Forest::entities`].
pub(super) type Id = usize;

/// The directory that holds everything.
pub(super) const ROOT: Id = 0;

/// The sides by their place in [`Entity::sides`].
pub(super) const OURS: usize = 0;
pub(super) const THEIRS: usize = 1;

/// What an entry is on a side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct State {
    pub(super) parent: Id,
    pub(super) name: Vec<u8>,
    pub(super) image: Image,
    /// Its path there.
    pub(super) path: EntryPath,
}

impl State {
    pub(super) fn is_directory(&self) -> bool {
        self.image.kind == EntryKind::Directory
    }
}

/// An entry through the base and both sides.
#[derive(Debug, Clone, Default)]
pub(super) struct Entity {
    pub(super) base: Option<State>,
    pub(super) sides: [Option<State>; 2],
}

/// All entries that a side changed, with the directories above them.
#[derive(Debug, Default)]
pub(super) struct Forest {
    pub(super) entities: Vec<Entity>,
    by_base: BTreeMap<Vec<u8>, Id>,
    /// What the base had at the paths that a side changed.
    images: BTreeMap<Vec<u8>, Image>,
    /// What our side added, by directory and name.
    added: BTreeMap<(Id, Vec<u8>), Id>,
}

impl Forest {
    pub(super) fn of(merging: &Merging) -> Self {
        let mut forest = Self {
            entities: vec![Entity::default()],
            ..Self::default()
        };
        let sides = [&merging.ours, &merging.theirs];
        for change in sides.iter().flat_map(|side| &side.changes) {
            if let Some(image) = &change.before {
                forest.images.insert(change.path.as_bytes().to_vec(), image.clone());
            }
        }
        for path in forest.images.keys().cloned().collect::<Vec<_>>() {
            forest.in_base(&path);
        }
        for (index, side) in sides.into_iter().enumerate() {
            forest.place(index, side);
        }
        forest
    }

    /// Whether a side said something of what the base had at `path`.
    pub(super) fn speaks_of(&self, path: &[u8]) -> bool {
        self.by_base.contains_key(path)
    }

    /// The entry that the base had at `path`; one that no side speaks of is a directory above others.
    fn in_base(&mut self, path: &[u8]) -> Id {
        if path.is_empty() {
            return ROOT;
        }
        if let Some(id) = self.by_base.get(path) {
            return *id;
        }
        let (above, name) = split(path);
        let state = State {
            parent: self.in_base(above),
            name: name.to_vec(),
            image: self.images.get(path).cloned().unwrap_or_else(some_directory),
            path: EntryPath::from_bytes(path.to_vec()),
        };
        let id = self.add(Entity {
            base: Some(state.clone()),
            sides: [Some(state.clone()), Some(state)],
        });
        self.by_base.insert(path.to_vec(), id);
        id
    }

    fn add(&mut self, entity: Entity) -> Id {
        self.entities.push(entity);
        self.entities.len() - 1
    }

    /// Brings in what one side did.
    fn place(&mut self, side: usize, what: &Side) {
        let renames = renames(what);
        let targets: BTreeSet<&EntryPath> = renames.values().collect();
        let mut here: BTreeMap<Vec<u8>, Id> = BTreeMap::new();
        for change in what.changes.iter().filter(|change| change.before.is_some()) {
            let id = self.in_base(change.path.as_bytes());
            self.entities[id].sides[side] = None;
            match renames.get(&change.path) {
                Some(to) => drop(here.insert(to.as_bytes().to_vec(), id)),
                None if stays(change) && !targets.contains(&change.path) => {
                    here.insert(change.path.as_bytes().to_vec(), id);
                }
                None => {}
            }
        }
        // In the order of paths a directory comes before what is in it.
        for change in &what.changes {
            if let Some(image) = &change.after {
                self.put(side, &mut here, &change.path, image);
            }
        }
    }

    fn put(&mut self, side: usize, here: &mut BTreeMap<Vec<u8>, Id>, path: &EntryPath, image: &Image) {
        let (above, name) = split(path.as_bytes());
        let parent = match here.get(above) {
            Some(id) => *id,
            None => self.in_base(above),
        };
        let state = State {
            parent,
            name: name.to_vec(),
            image: image.clone(),
            path: path.clone(),
        };
        let known = here.get(path.as_bytes()).copied();
        let id = known.unwrap_or_else(|| self.newcomer(side, &state));
        self.entities[id].sides[side] = Some(state);
        here.insert(path.as_bytes().to_vec(), id);
    }

    /// An entry that the base did not have; what both sides added at one place, of one kind, is one entry.
    fn newcomer(&mut self, side: usize, state: &State) -> Id {
        let place = (state.parent, state.name.clone());
        if side == THEIRS
            && let Some(id) = self.added.get(&place)
            && self.entities[*id].sides[OURS]
                .as_ref()
                .is_some_and(|ours| ours.image.kind == state.image.kind)
        {
            return *id;
        }
        let id = self.add(Entity::default());
        if side == OURS {
            self.added.insert(place, id);
        }
        id
    }
}

/// Whether the entry is still the one that it was: something else in its place is another.
fn stays(change: &PathChange) -> bool {
    let kind = |image: &Option<Image>| image.as_ref().map(|image| image.kind);
    kind(&change.before) == kind(&change.after)
}

/// The directory and the name of a path.
pub(super) fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(slash) => (&path[..slash], &path[slash + 1..]),
        None => (&[], path),
    }
}

fn some_directory() -> Image {
    Image {
        kind: EntryKind::Directory,
        mode: 0o755,
        size: 0,
        version: None,
        target: None,
        content: None,
    }
}
