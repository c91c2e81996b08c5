//! The index: the recorded entries of the storage, in memory. It holds every entry that is in the log and not yet in
//! the depot, and the entries that were looked up since.

use std::collections::{BTreeMap, HashMap, HashSet};

use garret_core::{EntryKind, Result};

use super::record::{Known, Seen};
use crate::metadata::{HEAD, Held, Node, Session};
use crate::tree::span_below;
use crate::workspace::DepotWorkspace;

/// A directory with more entries below it than this is not loaded as a whole.
const LOADED: usize = 5_000;

/// The recorded entries by path; `None` for a path at which nothing is.
#[derive(Debug, Default)]
pub(super) struct Knowledge {
    entries: HashMap<Vec<u8>, Option<Known>>,
    /// Directories whose recorded entries are all in `entries`.
    loaded: HashSet<Vec<u8>>,
}

impl Knowledge {
    /// Drops all entries. Correct only if the log is empty, because the depot lacks the entries of the log.
    pub(super) fn clear(&mut self) {
        self.entries.clear();
        self.loaded.clear();
    }

    /// Returns the number of paths in the index.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Records the entry at a path.
    pub(super) fn set(&mut self, path: &[u8], known: Option<Known>) {
        // Looked up first, so that the path is copied only for a new entry.
        match self.entries.get_mut(path) {
            Some(place) => *place = known,
            None => {
                self.entries.insert(path.to_vec(), known);
            }
        }
    }

    pub(super) fn take(&mut self, seen: &[Seen]) {
        seen.iter().for_each(|seen| self.set(&seen.path, seen.known.clone()));
    }

    /// Returns the recorded entry at `path`; the root is always a directory.
    pub(super) fn at(&mut self, room: &DepotWorkspace, path: &[u8]) -> Result<Option<Known>> {
        if path.is_empty() {
            return Ok(Some(root()));
        }
        if let Some(known) = self.entries.get(path) {
            return Ok(known.clone());
        }
        let above = &path[..path.iter().rposition(|byte| *byte == b'/').unwrap_or(0)];
        // Everything below a loaded directory is in the index, so an absent path needs no query.
        if self.loaded.contains(above) {
            return Ok(None);
        }
        if !self.load(room, above)? {
            let known = room
                .shared()
                .database
                .read(|session| known_at(session, room.number, path))?;
            self.entries.insert(path.to_vec(), known);
        }
        Ok(self.entries.get(path).cloned().flatten())
    }

    /// Loads the recorded entries below `directory`; returns `false` without loading if there are too many.
    fn load(&mut self, room: &DepotWorkspace, directory: &[u8]) -> Result<bool> {
        let (start, end) = span_below(directory);
        let read = |session: Session<'_>| session.seen_entries(room.number, &start, end.as_deref(), LOADED + 1);
        let found = room.shared().database.read(read)?;
        if found.len() > LOADED {
            return Ok(false);
        }
        self.loaded.insert(directory.to_vec());
        for (path, held, token) in found {
            let Held::Node(node) = held else { continue };
            if node.kind == EntryKind::Directory {
                self.loaded.insert(path.clone());
            }
            // An entry that is in the index already may come from the log, so it is newer than the depot's.
            self.entries.entry(path).or_insert_with(|| Some(known_of(node, token)));
        }
        Ok(true)
    }

    /// Returns all recorded entries below `directory`, sorted by path.
    pub(super) fn below(&self, room: &DepotWorkspace, directory: &[u8]) -> Result<Vec<(Vec<u8>, Known)>> {
        let (start, end) = span_below(directory);
        let read = |session: Session<'_>| session.seen_entries(room.number, &start, end.as_deref(), usize::MAX >> 1);
        let found = room.shared().database.read(read)?;
        let known = found
            .into_iter()
            .filter_map(|(path, held, token)| Some((path, known_of(held.node()?, token))));
        let is_below = |path: &[u8]| path >= start.as_slice() && end.as_ref().is_none_or(|end| path < end.as_slice());
        // Entries of the index win: they may come from a log that the depot does not have yet.
        let newer: BTreeMap<_, _> = self.entries.iter().filter(|(path, _)| is_below(path)).collect();
        if newer.is_empty() {
            return Ok(known.collect());
        }
        let mut all: Vec<_> = known.filter(|(path, _)| !newer.contains_key(path)).collect();
        let added = newer
            .into_iter()
            .filter_map(|(path, known)| Some((path.clone(), known.clone()?)));
        all.extend(added);
        all.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        Ok(all)
    }
}

fn known_at(session: Session<'_>, workspace: i64, path: &[u8]) -> Result<Option<Known>> {
    let Some(node) = session.entry(workspace, path, HEAD)?.and_then(Held::node) else {
        return Ok(None);
    };
    let token = session.seen(workspace, path)?;
    Ok(Some(known_of(node, token)))
}

fn known_of(node: Node, token: Option<String>) -> Known {
    Known {
        kind: node.kind,
        mode: node.mode,
        size: node.size,
        target: node.target,
        token: token.filter(|_| node.kind == EntryKind::File),
    }
}

fn root() -> Known {
    Known {
        kind: EntryKind::Directory,
        mode: 0o755,
        size: 0,
        target: None,
        token: None,
    }
}
