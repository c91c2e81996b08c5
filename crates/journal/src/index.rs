//! The index: the recorded entries of the storage, in memory. It holds every entry that is in the log and not yet in
//! the depot, and the entries that were looked up since.

use std::collections::{BTreeMap, HashMap, HashSet};

use garret_core::{EntryKind, Result};
use garret_depot::outside_files::{KnownEntry, OutsideWorkspace};

use crate::observed::{DIRECTORY_MODE, directory_entry};
use crate::raw_names::split_raw_path;

/// A directory with more entries below it than this is not loaded as a whole.
const LOADED: usize = 5_000;

/// The recorded entries by path; `None` for a path at which nothing is.
#[derive(Debug, Default)]
pub(crate) struct JournalIndex {
    entries: HashMap<Vec<u8>, Option<KnownEntry>>,
    /// Directories whose recorded entries are all in `entries`.
    loaded: HashSet<Vec<u8>>,
}

impl JournalIndex {
    /// Drops all entries. Correct only if the log is empty, because the depot lacks the entries of the log.
    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        self.loaded.clear();
    }

    /// Returns the number of paths in the index.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Records the entry at a path.
    pub(crate) fn set(&mut self, path: &[u8], known: Option<KnownEntry>) {
        // Looked up first, so that the path is copied only for a new entry.
        match self.entries.get_mut(path) {
            Some(place) => *place = known,
            None => {
                self.entries.insert(path.to_vec(), known);
            }
        }
    }

    /// Returns the recorded entry at `path`; the root is always a directory.
    pub(crate) fn entry_at(&mut self, room: &OutsideWorkspace, path: &[u8]) -> Result<Option<KnownEntry>> {
        if path.is_empty() {
            return Ok(Some(directory_entry(DIRECTORY_MODE)));
        }
        if let Some(known) = self.entries.get(path) {
            return Ok(known.clone());
        }
        let above = split_raw_path(path).0;
        // Everything below a loaded directory is in the index, so an absent path needs no query.
        if self.loaded.contains(above) {
            return Ok(None);
        }
        if !self.load_directory(room, above)? {
            let known = room.recorded_entry(path)?;
            self.entries.insert(path.to_vec(), known);
        }
        Ok(self.entries.get(path).cloned().flatten())
    }

    /// Loads the recorded entries below `directory`; returns `false` without loading if there are too many.
    fn load_directory(&mut self, room: &OutsideWorkspace, directory: &[u8]) -> Result<bool> {
        let Some(found) = room.few_recorded_entries_below(directory, LOADED)? else {
            return Ok(false);
        };
        self.loaded.insert(directory.to_vec());
        for (path, known) in found {
            if known.kind == EntryKind::Directory {
                self.loaded.insert(path.clone());
            }
            // An entry that is in the index already may come from the log, so it is newer than the depot's.
            self.entries.entry(path).or_insert(Some(known));
        }
        Ok(true)
    }

    /// Returns all recorded entries below `directory`, sorted by path.
    pub(crate) fn entries_below(
        &self,
        room: &OutsideWorkspace,
        directory: &[u8],
    ) -> Result<Vec<(Vec<u8>, KnownEntry)>> {
        let known = room.recorded_entries_below(directory)?;
        let is_below = |path: &[u8]| match path.strip_prefix(directory) {
            Some(rest) => directory.is_empty() || rest.starts_with(b"/"),
            None => false,
        };
        // Entries of the index win: they may come from a log that the depot does not have yet.
        let newer: BTreeMap<_, _> = self.entries.iter().filter(|(path, _)| is_below(path)).collect();
        if newer.is_empty() {
            return Ok(known);
        }
        let mut all: Vec<_> = known
            .into_iter()
            .filter(|(path, _)| !newer.contains_key(path))
            .collect();
        let added = newer
            .into_iter()
            .filter_map(|(path, known)| Some((path.clone(), known.clone()?)));
        all.extend(added);
        all.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        Ok(all)
    }
}
