//! The entries of a merge, each followed through the base and both sides, whatever its name is there.
//!
//! An entry is identified by its entry in the base, not by its path. On each side it has a state: the entry of its
//! directory, its name there, and its content. So the rename of a directory changes one entry, changes of the other
//! side inside that directory move with it, and merging the position of an entry means merging two values: its
//! directory and its name.

use std::collections::{BTreeMap, BTreeSet};

use garret_core::path::split_path;
use garret_core::{EntryKind, EntryPath, MergeInput, MergeSide, PathChange, PathImage};

use super::moves::find_renames;

/// The index of an entry in [`MergeForest::entities`].
pub(super) type MergeEntryId = usize;

/// The root directory.
pub(super) const ROOT: MergeEntryId = 0;

/// The index of our side in [`MergeEntry::sides`].
pub(super) const OURS: usize = 0;
/// The index of their side in [`MergeEntry::sides`].
pub(super) const THEIRS: usize = 1;

/// The state of an entry on one side or in the base.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MergeEntryState {
    pub(super) parent: MergeEntryId,
    pub(super) name: Vec<u8>,
    pub(super) image: PathImage,
    /// Its path there.
    pub(super) path: EntryPath,
}

impl MergeEntryState {
    pub(super) fn is_directory(&self) -> bool {
        self.image.kind == EntryKind::Directory
    }
}

/// An entry through the base and both sides.
#[derive(Debug, Clone, Default)]
pub(super) struct MergeEntry {
    pub(super) base: Option<MergeEntryState>,
    pub(super) sides: [Option<MergeEntryState>; 2],
}

/// All entries that a side changed, with the directories above them.
#[derive(Debug, Default)]
pub(super) struct MergeForest {
    pub(super) entities: Vec<MergeEntry>,
    by_base: BTreeMap<Vec<u8>, MergeEntryId>,
    /// The entries of the base at the paths that a side changed.
    images: BTreeMap<Vec<u8>, PathImage>,
    /// The entries that our side added, by directory and name.
    added: BTreeMap<(MergeEntryId, Vec<u8>), MergeEntryId>,
}

impl MergeForest {
    /// Builds the entries of a merge from the changes of both sides.
    pub(super) fn from_sides(merging: &MergeInput) -> Self {
        let mut forest = Self {
            entities: vec![MergeEntry::default()],
            ..Self::default()
        };
        let sides = [&merging.ours, &merging.theirs];
        for change in sides.iter().flat_map(|side| &side.changes) {
            if let Some(image) = &change.before {
                forest.images.insert(change.path.as_bytes().to_vec(), image.clone());
            }
        }
        // The entries of the base come first, so that both sides refer to the same ones.
        for path in forest.images.keys().cloned().collect::<Vec<_>>() {
            forest.base_entry(&path);
        }
        for (index, side) in sides.into_iter().enumerate() {
            forest.add_side(index, side);
        }
        forest
    }

    /// Whether a side changed the base entry at `path`, or an entry below it.
    pub(super) fn has_base_entry(&self, path: &[u8]) -> bool {
        self.by_base.contains_key(path)
    }

    /// Returns the base entry at `path`, and adds it if it is missing. An entry that no side changed is a directory
    /// above others.
    fn base_entry(&mut self, path: &[u8]) -> MergeEntryId {
        if path.is_empty() {
            return ROOT;
        }
        if let Some(id) = self.by_base.get(path) {
            return *id;
        }
        let (above, name) = split_path(path);
        let state = MergeEntryState {
            parent: self.base_entry(above),
            name: name.to_vec(),
            image: self.images.get(path).cloned().unwrap_or_else(placeholder_directory),
            path: EntryPath::from_bytes(path.to_vec()),
        };
        let id = self.add_entity(MergeEntry {
            base: Some(state.clone()),
            sides: [Some(state.clone()), Some(state)],
        });
        self.by_base.insert(path.to_vec(), id);
        id
    }

    fn add_entity(&mut self, entity: MergeEntry) -> MergeEntryId {
        self.entities.push(entity);
        self.entities.len() - 1
    }

    /// Adds the changes of one side.
    fn add_side(&mut self, side: usize, what: &MergeSide) {
        let renames = find_renames(what);
        let targets: BTreeSet<&EntryPath> = renames.values().collect();
        let mut here: BTreeMap<Vec<u8>, MergeEntryId> = BTreeMap::new();
        for change in what.changes.iter().filter(|change| change.before.is_some()) {
            let id = self.base_entry(change.path.as_bytes());
            self.entities[id].sides[side] = None;
            match renames.get(&change.path) {
                Some(to) => drop(here.insert(to.as_bytes().to_vec(), id)),
                None if is_same_entry(change) && !targets.contains(&change.path) => {
                    here.insert(change.path.as_bytes().to_vec(), id);
                }
                None => {}
            }
        }
        // The changes are sorted by path, so a directory comes before its entries.
        for change in &what.changes {
            if let Some(image) = &change.after {
                self.set_state(side, &mut here, &change.path, image);
            }
        }
    }

    /// Sets the state of the entry that a side has at `path`.
    fn set_state(
        &mut self,
        side: usize,
        here: &mut BTreeMap<Vec<u8>, MergeEntryId>,
        path: &EntryPath,
        image: &PathImage,
    ) {
        let (above, name) = split_path(path.as_bytes());
        let parent = match here.get(above) {
            Some(id) => *id,
            None => self.base_entry(above),
        };
        let state = MergeEntryState {
            parent,
            name: name.to_vec(),
            image: image.clone(),
            path: path.clone(),
        };
        let known = here.get(path.as_bytes()).copied();
        let id = known.unwrap_or_else(|| self.added_entry(side, &state));
        self.entities[id].sides[side] = Some(state);
        here.insert(path.as_bytes().to_vec(), id);
    }

    /// Returns the entry for a state that the base did not have. Entries of one kind that both sides added at one place
    /// are one entry.
    fn added_entry(&mut self, side: usize, state: &MergeEntryState) -> MergeEntryId {
        let place = (state.parent, state.name.clone());
        if side == THEIRS
            && let Some(id) = self.added.get(&place)
            && self.entities[*id].sides[OURS]
                .as_ref()
                .is_some_and(|ours| ours.image.kind == state.image.kind)
        {
            return *id;
        }
        let id = self.add_entity(MergeEntry::default());
        if side == OURS {
            self.added.insert(place, id);
        }
        id
    }
}

/// Whether the entry is still the same one: an entry of another kind at its path is another entry.
fn is_same_entry(change: &PathChange) -> bool {
    let kind = |image: &Option<PathImage>| image.as_ref().map(|image| image.kind);
    kind(&change.before) == kind(&change.after)
}

/// Returns a placeholder for a directory that no side changed.
fn placeholder_directory() -> PathImage {
    PathImage {
        kind: EntryKind::Directory,
        mode: 0o755,
        size: 0,
        version: None,
        target: None,
        content: None,
    }
}
