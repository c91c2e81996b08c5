//! Decides the fate of every entry in a merge, and finds the conflicts between the sides.
//!
//! The decision goes in rounds: the fate of every entry is decided, then the result is checked as a tree. A misfit (two
//! entries at one path, an entry without a directory, directories inside each other) is a conflict, and its entries are
//! settled as the options say; then everything is decided again with these entries settled, until the tree fits.

use std::collections::{BTreeMap, BTreeSet};

use garret_core::path::split_path;
use garret_core::{EntryPath, Error, ErrorKind, Result};

use super::OnConflict;
use super::content_merge::{ContentMergeOutcome, MergedContent, is_same, pick_changed};
use super::forest::{MergeEntry, MergeEntryId, MergeEntryState, MergeForest, OURS, ROOT, THEIRS};
use crate::ConflictKind;

/// More rounds than any tree needs; each settles at least one entry.
const MAX_ROUNDS: usize = 10_000;

/// The most bytes of a name.
const LONGEST_NAME: usize = 255;

/// The fate of an entry: it is removed, or kept.
#[derive(Debug, Clone)]
pub(super) enum EntryFate {
    Removed,
    Kept(KeptMergeEntry),
}

/// The directory, the name and the content of an entry that is kept.
#[derive(Debug, Clone)]
pub(super) struct KeptMergeEntry {
    pub(super) parent: MergeEntryId,
    pub(super) name: Vec<u8>,
    pub(super) content: MergedContent,
}

/// How a conflict about an entry was settled.
#[derive(Debug, Clone, PartialEq, Eq)]
enum ConflictSettlement {
    /// The entry gets its state from one side.
    StateOf(usize),
    /// The entry gets its directory and name from one side; its content is merged.
    PositionOf(usize),
    /// The entry gets this name, beside the entry that has its own name.
    Beside(Vec<u8>),
    /// The entry is a directory that other entries still need.
    Needed,
}

/// A conflict of both sides about an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EntryClash {
    pub(super) id: MergeEntryId,
    pub(super) kind: ConflictKind,
    pub(super) hunks: usize,
    /// The path that this entry and another one want.
    pub(super) wanted: Option<EntryPath>,
    /// The other entry that wants the path.
    pub(super) other: Option<MergeEntryId>,
}

/// The result of a merge: the content of every path, and the conflicts.
#[derive(Debug)]
pub(super) struct MergeDecision {
    pub(super) places: BTreeMap<EntryPath, MergedContent>,
    /// The final path of each entry that is kept.
    pub(super) paths: BTreeMap<MergeEntryId, EntryPath>,
    pub(super) clashes: Vec<EntryClash>,
}

/// The state of the decision between two rounds.
pub(super) struct MergeDecider<'a> {
    forest: &'a MergeForest,
    joined: &'a BTreeMap<MergeEntryId, ContentMergeOutcome>,
    /// Paths that the base has and no side changed.
    occupied: &'a BTreeSet<EntryPath>,
    on_conflict: OnConflict,
    /// The name of their side; it is added to the name of a file that is put beside another.
    label: &'a str,
    settled: BTreeMap<MergeEntryId, ConflictSettlement>,
    /// Entries that were given to the winner. An entry is given to the winner only once, so that the rounds end.
    left: BTreeSet<MergeEntryId>,
    clashes: BTreeMap<MergeEntryId, EntryClash>,
}

impl<'a> MergeDecider<'a> {
    pub(super) fn new(
        forest: &'a MergeForest,
        joined: &'a BTreeMap<MergeEntryId, ContentMergeOutcome>,
        occupied: &'a BTreeSet<EntryPath>,
        on_conflict: OnConflict,
        label: &'a str,
    ) -> Self {
        Self {
            forest,
            joined,
            occupied,
            on_conflict,
            label,
            settled: BTreeMap::new(),
            left: BTreeSet::new(),
            clashes: BTreeMap::new(),
        }
    }

    /// Decides in rounds until the entries fit into a tree.
    pub(super) fn decide_all(mut self) -> Result<MergeDecision> {
        for _ in 0..MAX_ROUNDS {
            let fates: Vec<EntryFate> = (0..self.forest.entities.len()).map(|id| self.decide_fate(id)).collect();
            let Some(paths) = self.find_paths(&fates) else { continue };
            let Some(mut places) = self.place_entries(&fates, &paths) else {
                continue;
            };
            self.add_their_versions(&mut places, &paths);
            let clashes = self.clashes.into_values().collect();
            return Ok(MergeDecision { places, paths, clashes });
        }
        Err(Error::new(ErrorKind::Internal, "the merge does not come to an end"))
    }

    fn entity(&self, id: MergeEntryId) -> &'a MergeEntry {
        &self.forest.entities[id]
    }

    /// Returns the side that wins if both versions cannot be kept.
    fn winning_side(&self) -> usize {
        match self.on_conflict {
            OnConflict::Theirs => THEIRS,
            _ => OURS,
        }
    }

    /// Records a conflict about an entry, unless it already has one.
    fn record_clash(&mut self, id: MergeEntryId, kind: ConflictKind, hunks: usize) {
        // Every round decides anew and may report the same entry again; its first conflict stays.
        self.clashes.entry(id).or_insert(EntryClash {
            id,
            kind,
            hunks,
            wanted: None,
            other: None,
        });
    }

    /// Decides the fate of one entry, with the entries settled so far.
    fn decide_fate(&mut self, id: MergeEntryId) -> EntryFate {
        let entity = self.entity(id);
        match self.settled.get(&id) {
            Some(ConflictSettlement::StateOf(side)) => return keep_state(entity.sides[*side].as_ref()),
            Some(ConflictSettlement::Needed) => return keep_last_state(entity, self.winning_side()),
            _ => {}
        }
        let fate = match &entity.sides {
            [None, None] => EntryFate::Removed,
            [Some(_), Some(_)] => self.decide_both(id),
            [Some(state), None] | [None, Some(state)] if entity.base.is_none() => keep_state(Some(state)),
            [Some(_), None] => self.decide_deleted(id, THEIRS),
            [None, Some(_)] => self.decide_deleted(id, OURS),
        };
        let Some(ConflictSettlement::Beside(name)) = self.settled.get(&id) else {
            return fate;
        };
        // A directory that both sides removed may be needed by others and then have to give way; it keeps its last
        // state.
        let kept = match (fate, keep_last_state(entity, self.winning_side())) {
            (EntryFate::Kept(kept), _) | (EntryFate::Removed, EntryFate::Kept(kept)) => kept,
            (EntryFate::Removed, EntryFate::Removed) => return EntryFate::Removed,
        };
        EntryFate::Kept(KeptMergeEntry {
            name: name.clone(),
            ..kept
        })
    }

    /// Decides the fate of an entry that the side `by` deleted.
    fn decide_deleted(&mut self, id: MergeEntryId, by: usize) -> EntryFate {
        let entity = self.entity(id);
        let (Some(base), Some(left)) = (&entity.base, &entity.sides[1 - by]) else {
            return EntryFate::Removed;
        };
        let is_changed = !left.is_directory() && !is_same(&base.image, &left.image);
        let is_moved = self.is_moved(id, 1 - by);
        if !is_changed && !is_moved {
            return EntryFate::Removed;
        }
        let kind = match (is_changed, by) {
            (false, _) => ConflictKind::RenameDelete,
            (true, OURS) => ConflictKind::DeletedByUs,
            (true, _) => ConflictKind::DeletedByThem,
        };
        let kind = if self.is_replaced(id, by) {
            ConflictKind::Type
        } else {
            kind
        };
        self.record_clash(id, kind, 0);
        // Unless a winner was chosen that deleted the entry, the changed version is kept: no change is lost.
        match self.on_conflict {
            OnConflict::Ours | OnConflict::Theirs if self.winning_side() == by => {
                self.give_to_side(id, by);
                EntryFate::Removed
            }
            _ => keep_state(Some(left)),
        }
    }

    /// Whether a side moved the entry itself, or a directory above it that the other side deleted.
    fn is_moved(&self, id: MergeEntryId, side: usize) -> bool {
        let entity = self.entity(id);
        let (Some(base), Some(state)) = (&entity.base, &entity.sides[side]) else {
            return false;
        };
        let is_moved = (base.parent, &base.name) != (state.parent, &state.name);
        let is_deleted = |id: MergeEntryId| id != ROOT && self.entity(id).sides[1 - side].is_none();
        is_moved || is_deleted(state.parent) && self.is_moved(state.parent, side)
    }

    /// Whether the side that deleted the entry put another entry at its path.
    fn is_replaced(&self, id: MergeEntryId, by: usize) -> bool {
        let Some(base) = &self.entity(id).base else {
            return false;
        };
        let is_there = |entity: &MergeEntry| entity.sides[by].as_ref().is_some_and(|state| state.path == base.path);
        self.forest
            .entities
            .iter()
            .any(|entity| entity.base.is_none() && is_there(entity))
    }

    /// Decides the fate of an entry that both sides have.
    fn decide_both(&mut self, id: MergeEntryId) -> EntryFate {
        let entity = self.entity(id);
        let ([Some(ours), Some(theirs)], Some(joined)) = (&entity.sides, self.joined.get(&id)) else {
            return keep_state(entity.sides[OURS].as_ref());
        };
        if let Some((kind, hunks)) = joined.conflict {
            self.record_clash(id, kind, hunks);
        }
        let base = entity.base.as_ref();
        let is_same_parent = |one: &MergeEntryState, other: &MergeEntryState| one.parent == other.parent;
        let is_same_name = |one: &MergeEntryState, other: &MergeEntryState| one.name == other.name;
        let mut place = (
            pick_changed(base, ours, theirs, is_same_parent).map(|state| state.parent),
            pick_changed(base, ours, theirs, is_same_name).map(|state| state.name.clone()),
        );
        // The position is taken from one side as a whole: the directory of one side and the name of the other is a
        // place that neither chose.
        if place.0.is_none() || place.1.is_none() {
            self.record_clash(id, ConflictKind::RenameRename, 0);
            place = (None, None);
        }
        let settled = match self.settled.get(&id) {
            Some(ConflictSettlement::PositionOf(side)) => Some(*side),
            _ => None,
        };
        let state = &entity.sides[settled.unwrap_or(self.winning_side())];
        let state = state.as_ref().expect("both sides have it");
        let (parent, name) = match (settled, place) {
            (None, (Some(parent), Some(name))) => (parent, name),
            _ => (state.parent, state.name.clone()),
        };
        EntryFate::Kept(KeptMergeEntry {
            parent,
            name,
            content: joined.content.clone(),
        })
    }

    /// Returns the path of every entry that is kept; `None` if another round is needed.
    fn find_paths(&mut self, fates: &[EntryFate]) -> Option<BTreeMap<MergeEntryId, EntryPath>> {
        let mut paths = BTreeMap::new();
        let mut is_settled = true;
        for id in 1..fates.len() {
            if let EntryFate::Kept(_) = &fates[id] {
                is_settled &= self.find_path(fates, id, &mut paths);
            }
        }
        is_settled.then_some(paths)
    }

    /// Finds the path of one entry; if it has none, settles the reason and returns false.
    fn find_path(
        &mut self,
        fates: &[EntryFate],
        id: MergeEntryId,
        paths: &mut BTreeMap<MergeEntryId, EntryPath>,
    ) -> bool {
        let mut chain = Vec::new();
        let mut next = id;
        let top = loop {
            if next == ROOT {
                break EntryPath::from_bytes(Vec::new());
            }
            if let Some(path) = paths.get(&next) {
                break path.clone();
            }
            let EntryFate::Kept(kept) = &fates[next] else {
                self.keep_directory(next, &chain);
                return false;
            };
            if let Some(begin) = chain.iter().position(|id| *id == next) {
                self.break_circle(&chain[begin..]);
                return false;
            }
            chain.push(next);
            next = kept.parent;
        };
        chain.into_iter().rev().fold(top, |above, id| {
            let EntryFate::Kept(kept) = &fates[id] else {
                return above;
            };
            let path = above.child(&kept.name);
            paths.insert(id, path.clone());
            path
        });
        true
    }

    /// Gives an entry its state on one side.
    fn give_to_side(&mut self, id: MergeEntryId, side: usize) {
        self.left.insert(id);
        self.settled.insert(id, ConflictSettlement::StateOf(side));
    }

    /// Keeps a removed directory for the entry that is left in it, or removes that entry, too, if the winner has
    /// neither.
    fn keep_directory(&mut self, directory: MergeEntryId, chain: &[MergeEntryId]) {
        let inside = *chain.last().expect("something was in it");
        match self.settled.get(&directory) {
            Some(ConflictSettlement::StateOf(side)) if !self.left.contains(&inside) => self.give_to_side(inside, *side),
            // The entry is removed in the next round.
            Some(settled @ ConflictSettlement::StateOf(side))
                if self.settled.get(&inside) == Some(settled) && self.entity(inside).sides[*side].is_none() => {}
            _ => drop(self.settled.insert(directory, ConflictSettlement::Needed)),
        }
    }

    /// Gives directories that would be inside each other the positions that they have on the winning side.
    fn break_circle(&mut self, chain: &[MergeEntryId]) {
        // One side alone is a tree without circles, so its positions for all of them fit together.
        for id in chain {
            self.record_clash(*id, ConflictKind::RenameRename, 0);
            self.settled
                .insert(*id, ConflictSettlement::PositionOf(self.winning_side()));
        }
    }

    /// Returns the content of every path; `None` if another round is needed.
    fn place_entries(
        &mut self,
        fates: &[EntryFate],
        paths: &BTreeMap<MergeEntryId, EntryPath>,
    ) -> Option<BTreeMap<EntryPath, MergedContent>> {
        let mut places: BTreeMap<EntryPath, (MergeEntryId, MergedContent)> = BTreeMap::new();
        let mut is_settled = true;
        for (id, path) in paths {
            let EntryFate::Kept(kept) = &fates[*id] else { continue };
            if self.occupied.contains(path) && !self.is_at_own_path(*id, path) {
                is_settled &= self.make_room(None, *id, path, ConflictKind::BothAdded, paths);
                continue;
            }
            match places.get(path) {
                None => drop(places.insert(path.clone(), (*id, kept.content.clone()))),
                Some((_, there)) if there.is_directory() && kept.content.is_directory() || *there == kept.content => {}
                Some((other, there)) => {
                    let kind = if there.is_directory() || kept.content.is_directory() {
                        ConflictKind::DirectoryFile
                    } else {
                        ConflictKind::BothAdded
                    };
                    let other = *other;
                    is_settled &= self.make_room(Some(other), *id, path, kind, paths);
                }
            }
        }
        is_settled.then(|| places.into_iter().map(|(path, (_, content))| (path, content)).collect())
    }

    /// Puts their version of each entry that cannot be merged into one file beside ours, if conflicts are to be
    /// written.
    fn add_their_versions(
        &self,
        places: &mut BTreeMap<EntryPath, MergedContent>,
        paths: &BTreeMap<MergeEntryId, EntryPath>,
    ) {
        let is_about_content = |clash: &&EntryClash| {
            matches!(clash.kind, ConflictKind::Content | ConflictKind::BothAdded)
                && clash.hunks == 0
                && clash.wanted.is_none()
        };
        if self.on_conflict != OnConflict::Markers {
            return;
        }
        for clash in self.clashes.values().filter(is_about_content) {
            let Some((path, theirs)) = paths.get(&clash.id).zip(self.entity(clash.id).sides[THEIRS].as_ref()) else {
                continue;
            };
            let above = EntryPath::from_bytes(split_path(path.as_bytes()).0.to_vec());
            let beside = above.child(&self.free_name(path, paths.values().chain(places.keys())));
            places.insert(beside, MergedContent::Image(theirs.image.clone()));
        }
    }

    /// Whether a side has the entry at that path, so that no other entry of the base can be there.
    fn is_at_own_path(&self, id: MergeEntryId, path: &EntryPath) -> bool {
        self.entity(id).sides.iter().flatten().any(|state| state.path == *path)
    }

    /// Settles two entries that want one path; `other` is `None` for an entry of the base that no side changed, which
    /// stays. Returns false: another round is needed.
    fn make_room(
        &mut self,
        other: Option<MergeEntryId>,
        id: MergeEntryId,
        path: &EntryPath,
        kind: ConflictKind,
        paths: &BTreeMap<MergeEntryId, EntryPath>,
    ) -> bool {
        let is_ours = |id: MergeEntryId| {
            self.entity(id).sides[OURS]
                .as_ref()
                .is_some_and(|state| state.path == *path)
        };
        // The entry that our side has at this path stays; if both come from other paths, the first one.
        let (stays, goes) = match other {
            Some(other) if is_ours(id) && !is_ours(other) => (Some(id), other),
            other => (other, id),
        };
        let known = stays.is_some_and(|stays| self.clashes.contains_key(&stays)) || self.clashes.contains_key(&goes);
        if !known {
            self.clashes.insert(
                goes,
                EntryClash {
                    id: goes,
                    kind,
                    hunks: 0,
                    wanted: Some(path.clone()),
                    other: stays,
                },
            );
        }
        let has_winner = matches!(self.on_conflict, OnConflict::Ours | OnConflict::Theirs);
        let concerned = [Some(goes), stays].into_iter().flatten();
        let open: Vec<MergeEntryId> = concerned.filter(|id| has_winner && !self.left.contains(id)).collect();
        if open.is_empty() {
            let name = self.free_name(path, paths.values());
            self.settled.insert(goes, ConflictSettlement::Beside(name));
        }
        open.into_iter()
            .for_each(|id| self.give_to_side(id, self.winning_side()));
        false
    }

    /// Returns the name with that of their side added, and a number if that is taken.
    fn free_name<'p>(&'p self, path: &EntryPath, taken: impl Iterator<Item = &'p EntryPath>) -> Vec<u8> {
        let taken: BTreeSet<&EntryPath> = taken.chain(self.occupied).collect();
        let label: String = self
            .label
            .chars()
            .map(|c| if c == '/' || c.is_control() { '_' } else { c })
            .collect();
        let above = EntryPath::from_bytes(split_path(path.as_bytes()).0.to_vec());
        let name = |number: usize| match number {
            0 => append_ending(path.name_bytes(), &format!("~{label}")),
            number => append_ending(path.name_bytes(), &format!("~{label}~{number}")),
        };
        let free = (0..).map(name).find(|name| !taken.contains(&above.child(name)));
        free.expect("some number is free")
    }
}

/// Returns the name with the ending added. A long name is shortened to the length that file systems allow.
fn append_ending(name: &[u8], ending: &str) -> Vec<u8> {
    let mut length = name.len().min(LONGEST_NAME.saturating_sub(ending.len()));
    let is_inside = |byte: &u8| byte & 0b1100_0000 == 0b1000_0000;
    // A name that is UTF-8 stays so: it is not cut inside a character.
    while std::str::from_utf8(name).is_ok() && name.get(length).is_some_and(is_inside) {
        length -= 1;
    }
    [&name[..length], ending.as_bytes()].concat()
}

/// Keeps the last state of an entry: that of the winner, else of the other side, else of the base.
fn keep_last_state(entity: &MergeEntry, winner: usize) -> EntryFate {
    let all = [&entity.sides[winner], &entity.sides[1 - winner], &entity.base];
    keep_state(all.into_iter().flatten().next())
}

/// Keeps an entry in this state; without a state, the entry is removed.
fn keep_state(state: Option<&MergeEntryState>) -> EntryFate {
    state.map_or(EntryFate::Removed, |state| {
        EntryFate::Kept(KeptMergeEntry {
            parent: state.parent,
            name: state.name.clone(),
            content: MergedContent::Image(state.image.clone()),
        })
    })
}
