//! Decides the fate of every entry in a merge, and finds the conflicts between the sides.
//!
//! The decision goes in rounds: the fate of every entry is decided, then the result is checked as a tree. A misfit (two
//! entries at one path, an entry without a directory, directories inside each other) is a conflict, and its entries are
//! settled as the options say; then everything is decided again with these entries settled, until the tree fits.

use std::collections::{BTreeMap, BTreeSet};

use garret_core::{EntryPath, Error, ErrorKind, Result};

use super::contents::{Content, Joined, is_same, pick};
use super::forest::{Entity, Forest, Id, OURS, ROOT, State, THEIRS, split};
use super::{ConflictKind, OnConflict};

/// More rounds than any tree needs; each settles at least one entry.
const MAX_ROUNDS: usize = 10_000;

/// The most bytes of a name.
const LONGEST_NAME: usize = 255;

/// The fate of an entry: it is removed, or kept.
#[derive(Debug, Clone)]
pub(super) enum Fate {
    Gone,
    Kept(Kept),
}

/// The directory, the name and the content of an entry that is kept.
#[derive(Debug, Clone)]
pub(super) struct Kept {
    pub(super) parent: Id,
    pub(super) name: Vec<u8>,
    pub(super) content: Content,
}

/// How a conflict about an entry was settled.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Settled {
    /// The entry gets its state from one side.
    As(usize),
    /// The entry gets its directory and name from one side; its content is merged.
    PlacedAs(usize),
    /// The entry gets this name, beside the entry that has its own name.
    Beside(Vec<u8>),
    /// The entry is a directory that other entries still need.
    Needed,
}

/// A conflict of both sides about an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Clash {
    pub(super) id: Id,
    pub(super) kind: ConflictKind,
    pub(super) hunks: usize,
    /// The path that this entry and another one want.
    pub(super) wanted: Option<EntryPath>,
    /// The other entry that wants the path.
    pub(super) other: Option<Id>,
}

/// The result of a merge: the content of every path, and the conflicts.
#[derive(Debug)]
pub(super) struct Decided {
    pub(super) places: BTreeMap<EntryPath, Content>,
    /// The final path of each entry that is kept.
    pub(super) paths: BTreeMap<Id, EntryPath>,
    pub(super) clashes: Vec<Clash>,
}

/// The state of the decision between two rounds.
pub(super) struct Deciding<'a> {
    forest: &'a Forest,
    joined: &'a BTreeMap<Id, Joined>,
    /// Paths that the base has and no side changed.
    occupied: &'a BTreeSet<EntryPath>,
    on_conflict: OnConflict,
    /// The name of their side; it is added to the name of a file that is put beside another.
    label: &'a str,
    settled: BTreeMap<Id, Settled>,
    /// Entries that were given to the winner. An entry is given to the winner only once, so that the rounds end.
    left: BTreeSet<Id>,
    clashes: BTreeMap<Id, Clash>,
}

impl<'a> Deciding<'a> {
    pub(super) fn new(
        forest: &'a Forest,
        joined: &'a BTreeMap<Id, Joined>,
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
    pub(super) fn run(mut self) -> Result<Decided> {
        for _ in 0..MAX_ROUNDS {
            let fates: Vec<Fate> = (0..self.forest.entities.len()).map(|id| self.fate(id)).collect();
            let Some(paths) = self.paths(&fates) else { continue };
            let Some(mut places) = self.places(&fates, &paths) else {
                continue;
            };
            self.add_theirs(&mut places, &paths);
            let clashes = self.clashes.into_values().collect();
            return Ok(Decided { places, paths, clashes });
        }
        Err(Error::new(ErrorKind::Internal, "the merge does not come to an end"))
    }

    fn entity(&self, id: Id) -> &'a Entity {
        &self.forest.entities[id]
    }

    /// Returns the side that wins if both versions cannot be kept.
    fn winner(&self) -> usize {
        match self.on_conflict {
            OnConflict::Theirs => THEIRS,
            _ => OURS,
        }
    }

    /// Records a conflict about an entry, unless it already has one.
    fn clash(&mut self, id: Id, kind: ConflictKind, hunks: usize) {
        // Every round decides anew and may report the same entry again; its first conflict stays.
        self.clashes.entry(id).or_insert(Clash {
            id,
            kind,
            hunks,
            wanted: None,
            other: None,
        });
    }

    /// Decides the fate of one entry, with the entries settled so far.
    fn fate(&mut self, id: Id) -> Fate {
        let entity = self.entity(id);
        match self.settled.get(&id) {
            Some(Settled::As(side)) => return as_is(entity.sides[*side].as_ref()),
            Some(Settled::Needed) => return as_it_was(entity, self.winner()),
            _ => {}
        }
        let fate = match &entity.sides {
            [None, None] => Fate::Gone,
            [Some(_), Some(_)] => self.both(id),
            [Some(state), None] | [None, Some(state)] if entity.base.is_none() => as_is(Some(state)),
            [Some(_), None] => self.deleted(id, THEIRS),
            [None, Some(_)] => self.deleted(id, OURS),
        };
        let Some(Settled::Beside(name)) = self.settled.get(&id) else {
            return fate;
        };
        // A directory that both sides removed may be needed by others and then have to give way; it keeps its last
        // state.
        let kept = match (fate, as_it_was(entity, self.winner())) {
            (Fate::Kept(kept), _) | (Fate::Gone, Fate::Kept(kept)) => kept,
            (Fate::Gone, Fate::Gone) => return Fate::Gone,
        };
        Fate::Kept(Kept {
            name: name.clone(),
            ..kept
        })
    }

    /// Decides the fate of an entry that the side `by` deleted.
    fn deleted(&mut self, id: Id, by: usize) -> Fate {
        let entity = self.entity(id);
        let (Some(base), Some(left)) = (&entity.base, &entity.sides[1 - by]) else {
            return Fate::Gone;
        };
        let is_changed = !left.is_directory() && !is_same(&base.image, &left.image);
        let is_moved = self.is_moved(id, 1 - by);
        if !is_changed && !is_moved {
            return Fate::Gone;
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
        self.clash(id, kind, 0);
        // Unless a winner was chosen that deleted the entry, the changed version is kept: no change is lost.
        match self.on_conflict {
            OnConflict::Ours | OnConflict::Theirs if self.winner() == by => {
                self.leave_to(id, by);
                Fate::Gone
            }
            _ => as_is(Some(left)),
        }
    }

    /// Whether a side moved the entry itself, or a directory above it that the other side deleted.
    fn is_moved(&self, id: Id, side: usize) -> bool {
        let entity = self.entity(id);
        let (Some(base), Some(state)) = (&entity.base, &entity.sides[side]) else {
            return false;
        };
        let is_moved = (base.parent, &base.name) != (state.parent, &state.name);
        let is_deleted = |id: Id| id != ROOT && self.entity(id).sides[1 - side].is_none();
        is_moved || is_deleted(state.parent) && self.is_moved(state.parent, side)
    }

    /// Whether the side that deleted the entry put another entry at its path.
    fn is_replaced(&self, id: Id, by: usize) -> bool {
        let Some(base) = &self.entity(id).base else {
            return false;
        };
        let is_there = |entity: &Entity| entity.sides[by].as_ref().is_some_and(|state| state.path == base.path);
        self.forest
            .entities
            .iter()
            .any(|entity| entity.base.is_none() && is_there(entity))
    }

    /// Decides the fate of an entry that both sides have.
    fn both(&mut self, id: Id) -> Fate {
        let entity = self.entity(id);
        let ([Some(ours), Some(theirs)], Some(joined)) = (&entity.sides, self.joined.get(&id)) else {
            return as_is(entity.sides[OURS].as_ref());
        };
        if let Some((kind, hunks)) = joined.conflict {
            self.clash(id, kind, hunks);
        }
        let base = entity.base.as_ref();
        let is_same_parent = |one: &State, other: &State| one.parent == other.parent;
        let is_same_name = |one: &State, other: &State| one.name == other.name;
        let mut place = (
            pick(base, ours, theirs, is_same_parent).map(|state| state.parent),
            pick(base, ours, theirs, is_same_name).map(|state| state.name.clone()),
        );
        // The position is taken from one side as a whole: the directory of one side and the name of the other is a
        // place that neither chose.
        if place.0.is_none() || place.1.is_none() {
            self.clash(id, ConflictKind::RenameRename, 0);
            place = (None, None);
        }
        let settled = match self.settled.get(&id) {
            Some(Settled::PlacedAs(side)) => Some(*side),
            _ => None,
        };
        let state = &entity.sides[settled.unwrap_or(self.winner())];
        let state = state.as_ref().expect("both sides have it");
        let (parent, name) = match (settled, place) {
            (None, (Some(parent), Some(name))) => (parent, name),
            _ => (state.parent, state.name.clone()),
        };
        Fate::Kept(Kept {
            parent,
            name,
            content: joined.content.clone(),
        })
    }

    /// Returns the path of every entry that is kept; `None` if another round is needed.
    fn paths(&mut self, fates: &[Fate]) -> Option<BTreeMap<Id, EntryPath>> {
        let mut paths = BTreeMap::new();
        let mut is_settled = true;
        for id in 1..fates.len() {
            if let Fate::Kept(_) = &fates[id] {
                is_settled &= self.path(fates, id, &mut paths);
            }
        }
        is_settled.then_some(paths)
    }

    /// Finds the path of one entry; if it has none, settles the reason and returns false.
    fn path(&mut self, fates: &[Fate], id: Id, paths: &mut BTreeMap<Id, EntryPath>) -> bool {
        let mut chain = Vec::new();
        let mut next = id;
        let top = loop {
            if next == ROOT {
                break EntryPath::from_bytes(Vec::new());
            }
            if let Some(path) = paths.get(&next) {
                break path.clone();
            }
            let Fate::Kept(kept) = &fates[next] else {
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
            let Fate::Kept(kept) = &fates[id] else { return above };
            let path = above.child(&kept.name);
            paths.insert(id, path.clone());
            path
        });
        true
    }

    /// Gives an entry its state on one side.
    fn leave_to(&mut self, id: Id, side: usize) {
        self.left.insert(id);
        self.settled.insert(id, Settled::As(side));
    }

    /// Keeps a removed directory for the entry that is left in it, or removes that entry, too, if the winner has
    /// neither.
    fn keep_directory(&mut self, directory: Id, chain: &[Id]) {
        let inside = *chain.last().expect("something was in it");
        match self.settled.get(&directory) {
            Some(Settled::As(side)) if !self.left.contains(&inside) => self.leave_to(inside, *side),
            // The entry is removed in the next round.
            Some(settled @ Settled::As(side))
                if self.settled.get(&inside) == Some(settled) && self.entity(inside).sides[*side].is_none() => {}
            _ => drop(self.settled.insert(directory, Settled::Needed)),
        }
    }

    /// Gives directories that would be inside each other the positions that they have on the winning side.
    fn break_circle(&mut self, chain: &[Id]) {
        // One side alone is a tree without circles, so its positions for all of them fit together.
        for id in chain {
            self.clash(*id, ConflictKind::RenameRename, 0);
            self.settled.insert(*id, Settled::PlacedAs(self.winner()));
        }
    }

    /// Returns the content of every path; `None` if another round is needed.
    fn places(&mut self, fates: &[Fate], paths: &BTreeMap<Id, EntryPath>) -> Option<BTreeMap<EntryPath, Content>> {
        let mut places: BTreeMap<EntryPath, (Id, Content)> = BTreeMap::new();
        let mut is_settled = true;
        for (id, path) in paths {
            let Fate::Kept(kept) = &fates[*id] else { continue };
            if self.occupied.contains(path) && !self.is_at_home(*id, path) {
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
    fn add_theirs(&self, places: &mut BTreeMap<EntryPath, Content>, paths: &BTreeMap<Id, EntryPath>) {
        let is_about_content = |clash: &&Clash| {
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
            let above = EntryPath::from_bytes(split(path.as_bytes()).0.to_vec());
            let beside = above.child(&self.free_name(path, paths.values().chain(places.keys())));
            places.insert(beside, Content::Image(theirs.image.clone()));
        }
    }

    /// Whether a side has the entry at that path, so that no other entry of the base can be there.
    fn is_at_home(&self, id: Id, path: &EntryPath) -> bool {
        self.entity(id).sides.iter().flatten().any(|state| state.path == *path)
    }

    /// Settles two entries that want one path; `other` is `None` for an entry of the base that no side changed, which
    /// stays. Returns false: another round is needed.
    fn make_room(
        &mut self,
        other: Option<Id>,
        id: Id,
        path: &EntryPath,
        kind: ConflictKind,
        paths: &BTreeMap<Id, EntryPath>,
    ) -> bool {
        let is_ours = |id: Id| {
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
                Clash {
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
        let open: Vec<Id> = concerned.filter(|id| has_winner && !self.left.contains(id)).collect();
        if open.is_empty() {
            let name = self.free_name(path, paths.values());
            self.settled.insert(goes, Settled::Beside(name));
        }
        open.into_iter().for_each(|id| self.leave_to(id, self.winner()));
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
        let above = EntryPath::from_bytes(split(path.as_bytes()).0.to_vec());
        let name = |number: usize| match number {
            0 => beside(path.name_bytes(), &format!("~{label}")),
            number => beside(path.name_bytes(), &format!("~{label}~{number}")),
        };
        let free = (0..).map(name).find(|name| !taken.contains(&above.child(name)));
        free.expect("some number is free")
    }
}

/// Returns the name with the ending added. A long name is shortened to the length that file systems allow.
fn beside(name: &[u8], ending: &str) -> Vec<u8> {
    let mut length = name.len().min(LONGEST_NAME.saturating_sub(ending.len()));
    let is_inside = |byte: &u8| byte & 0b1100_0000 == 0b1000_0000;
    // A name that is UTF-8 stays so: it is not cut inside a character.
    while std::str::from_utf8(name).is_ok() && name.get(length).is_some_and(is_inside) {
        length -= 1;
    }
    [&name[..length], ending.as_bytes()].concat()
}

/// Keeps the last state of an entry: that of the winner, else of the other side, else of the base.
fn as_it_was(entity: &Entity, winner: usize) -> Fate {
    let all = [&entity.sides[winner], &entity.sides[1 - winner], &entity.base];
    as_is(all.into_iter().flatten().next())
}

/// Keeps an entry in this state; without a state, the entry is removed.
fn as_is(state: Option<&State>) -> Fate {
    state.map_or(Fate::Gone, |state| {
        Fate::Kept(Kept {
            parent: state.parent,
            name: state.name.clone(),
            content: Content::Image(state.image.clone()),
        })
    })
}
