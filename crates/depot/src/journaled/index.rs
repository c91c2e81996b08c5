//! The index: the recorded entries of the storage, in memory. It holds every entry that is in the log and not yet in
//! the depot, and the entries that were looked up since.

use std::collections::{BTreeMap, HashMap, HashSet};

use garret_core::{EntryKind, Result};

use super::record::{KnownEntry, ObservedEntry};
use crate::metadata::{EntryNode, HEAD, LevelEntry, MetadataSession};
use crate::tree::span_below;
use crate::workspace::DepotWorkspace;

/// A directory with more entries below it than this is not loaded as a whole.
const LOADED: usize = 5_000;

/// The recorded entries by path; `None` for a path at which nothing is.
#[derive(Debug, Default)]
pub(super) struct JournalIndex {
    entries: HashMap<Vec<u8>, Option<KnownEntry>>,
    /// Directories whose recorded entries are all in `entries`.
    loaded: HashSet<Vec<u8>>,
}

impl JournalIndex {
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
    pub(super) fn set(&mut self, path: &[u8], known: Option<KnownEntry>) {
        // Looked up first, so that the path is copied only for a new entry.
        match self.entries.get_mut(path) {
            Some(place) => *place = known,
            None => {
                self.entries.insert(path.to_vec(), known);
            }
        }
    }

    pub(super) fn set_observed(&mut self, seen: &[ObservedEntry]) {
        seen.iter().for_each(|seen| self.set(&seen.path, seen.known.clone()));
    }

    /// Returns the recorded entry at `path`; the root is always a directory.
    pub(super) fn entry_at(&mut self, room: &DepotWorkspace, path: &[u8]) -> Result<Option<KnownEntry>> {
        if path.is_empty() {
            return Ok(Some(root_entry()));
        }
        if let Some(known) = self.entries.get(path) {
            return Ok(known.clone());
        }
        let above = &path[..path.iter().rposition(|byte| *byte == b'/').unwrap_or(0)];
        // Everything below a loaded directory is in the index, so an absent path needs no query.
        if self.loaded.contains(above) {
            return Ok(None);
        }
        if !self.load_directory(room, above)? {
            let known = room
                .shared()
                .database
                .read(|session| read_known_entry(session, room.number, path))?;
            self.entries.insert(path.to_vec(), known);
        }
        Ok(self.entries.get(path).cloned().flatten())
    }

    /// Loads the recorded entries below `directory`; returns `false` without loading if there are too many.
    fn load_directory(&mut self, room: &DepotWorkspace, directory: &[u8]) -> Result<bool> {
        let (start, end) = span_below(directory);
        let read = |session: MetadataSession<'_>| {
            session
                .outside_files()
                .seen_entries(room.number, &start, end.as_deref(), LOADED + 1)
        };
        let found = room.shared().database.read(read)?;
        if found.len() > LOADED {
            return Ok(false);
        }
        self.loaded.insert(directory.to_vec());
        for (path, held, token) in found {
            let LevelEntry::Node(node) = held else { continue };
            if node.kind == EntryKind::Directory {
                self.loaded.insert(path.clone());
            }
            // An entry that is in the index already may come from the log, so it is newer than the depot's.
            self.entries
                .entry(path)
                .or_insert_with(|| Some(entry_of_node(node, token)));
        }
        Ok(true)
    }

    /// Returns all recorded entries below `directory`, sorted by path.
    pub(super) fn entries_below(&self, room: &DepotWorkspace, directory: &[u8]) -> Result<Vec<(Vec<u8>, KnownEntry)>> {
        let (start, end) = span_below(directory);
        let read = |session: MetadataSession<'_>| {
            session
                .outside_files()
                .seen_entries(room.number, &start, end.as_deref(), usize::MAX >> 1)
        };
        let found = room.shared().database.read(read)?;
        let known = found
            .into_iter()
            .filter_map(|(path, held, token)| Some((path, entry_of_node(held.into_node()?, token))));
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

fn read_known_entry(session: MetadataSession<'_>, workspace: i64, path: &[u8]) -> Result<Option<KnownEntry>> {
    let Some(node) = session
        .entries()
        .entry(workspace, path, HEAD)?
        .and_then(LevelEntry::into_node)
    else {
        return Ok(None);
    };
    let token = session.outside_files().seen_version(workspace, path)?;
    Ok(Some(entry_of_node(node, token)))
}

fn entry_of_node(node: EntryNode, token: Option<String>) -> KnownEntry {
    KnownEntry {
        kind: node.kind,
        mode: node.mode,
        size: node.size,
        target: node.target,
        token: token.filter(|_| node.kind == EntryKind::File),
    }
}

fn root_entry() -> KnownEntry {
    KnownEntry {
        kind: EntryKind::Directory,
        mode: 0o755,
        size: 0,
        target: None,
        token: None,
    }
}
