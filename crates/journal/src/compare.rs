//! Compares the storage with the index of recorded entries, and records the differences.
//!
//! A file with the recorded version is unchanged and is not read; only a file with another version is. A difference was
//! made by other programs, or existed before the journal began.

use std::collections::{BTreeSet, HashSet};

use futures::stream::{self, StreamExt, TryStreamExt};
use garret_core::{Actor, ChangeKind, EntryKind, EntryPath, Origin, Result, Stat, WsPath};
use garret_depot::outside_files::{CapturedEntry, ChangeAuthorship, FoundChange, FoundEntry, KnownEntry};

use crate::journal_records::JournalRecords;
use crate::observed_files::ObservedFiles;
use crate::raw_names::{parent_directories, split_raw_path};
use crate::scan::{is_plainly_same, scan_entries};

/// Number of times that mismatched paths are compared before they are left to the next write session.
const LOOKS: usize = 3;

/// A path to compare.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ComparedPath {
    pub(crate) path: WsPath,
    /// Whether all entries below it are compared too.
    pub(crate) is_deep: bool,
}

/// The files and what the journal has recorded of them.
pub(crate) struct StorageComparer<'j> {
    pub(crate) files: ObservedFiles<'j>,
    pub(crate) records: JournalRecords<'j>,
    /// The paths that were recorded for the first time in this session.
    new: Vec<Vec<u8>>,
}

impl<'j> StorageComparer<'j> {
    pub(crate) fn new(files: ObservedFiles<'j>, records: JournalRecords<'j>) -> Self {
        let new = Vec::new();
        Self { files, records, new }
    }

    /// Returns the paths that were recorded for the first time in this session.
    pub(crate) fn new_paths(&self) -> &[Vec<u8>] {
        &self.new
    }

    /// Moves the whole log into the journal, and compares the mismatched paths, so that changes by other programs are
    /// recorded too.
    pub(crate) async fn synchronize_journal(&mut self) -> Result<()> {
        self.records.drain_log().await?;
        for _ in 0..LOOKS {
            if !self.records.has_mismatches() {
                break;
            }
            let mismatches = self.records.take_mismatches();
            // The log is in the journal, so the index can be dropped, and the comparison starts from the journal.
            self.records.clear_index();
            if self.compare_with_parents(&mismatches).await.is_err() {
                // Other programs are still at work there. The index now equals the journal, so nothing is lost by
                // comparing later.
                self.records.add_mismatches(mismatches);
                break;
            }
            self.records.drain_log().await?;
        }
        Ok(())
    }

    /// Returns whether a file still has the version that the comparison recorded.
    pub(crate) async fn is_still_known(&mut self, path: &WsPath) -> Result<bool> {
        match self.records.entry_at(path)?.and_then(|known| known.token) {
            Some(token) => self.files.has_version(path, &token).await,
            None => Ok(false),
        }
    }

    /// Compares the paths and every directory above them with the index.
    pub(crate) async fn compare_with_parents(&mut self, paths: &[Vec<u8>]) -> Result<()> {
        let all = paths
            .iter()
            .flat_map(|path| parent_directories(path).chain([path.as_slice()]));
        let all: BTreeSet<_> = all.collect();
        let entries = all
            .into_iter()
            .map(|path| (EntryPath::from_bytes(path.to_vec()), false));
        self.compare_entries(&entries.collect::<Vec<_>>()).await
    }

    /// Compares the paths, and the directories above them, with the index, and records the differences.
    pub(crate) async fn compare_paths(&mut self, concerns: &[ComparedPath]) -> Result<()> {
        let found = self.find_differences(concerns).await?;
        self.record_differences(found, false).await
    }

    /// Compares entries, raw names included, and the directories above them, with the index, and records the
    /// differences. The flag of each entry says whether all entries below it are compared too. Excluded entries are left
    /// out.
    pub(crate) async fn compare_entries(&mut self, entries: &[(EntryPath, bool)]) -> Result<()> {
        let (mut concerns, mut raw) = (Vec::new(), Vec::new());
        for (path, is_deep) in entries {
            if self.records.is_excluded(path)? {
                continue;
            }
            match path.as_path() {
                Some(path) => concerns.push(ComparedPath {
                    path: path.clone(),
                    is_deep: *is_deep,
                }),
                None => raw.push((path, *is_deep)),
            }
        }
        let mut found = self.find_differences(&concerns).await?;
        let mut met = HashSet::new();
        for (path, is_deep) in raw {
            for place in self.raw_paths_to_compare(path, &mut met)? {
                match place.as_path() {
                    Some(path) => {
                        let stat = self.files.stat(path).await?;
                        self.compare_path(path, stat, &mut found).await?;
                    }
                    None => self.compare_raw(&place, &mut found).await?,
                }
            }
            if is_deep {
                self.compare_below(path, &mut found).await?;
            }
        }
        self.record_differences(found, false).await
    }

    /// Returns the differences between the storage and the index at the paths, and at the directories above them.
    async fn find_differences(&mut self, concerns: &[ComparedPath]) -> Result<Vec<FoundEntry>> {
        let places = self.paths_to_compare(concerns)?;
        let paths: Vec<_> = places.iter().map(|place| place.path.clone()).collect();
        let looks = paths.into_iter().map(|path| self.files.stat_unless_root(path));
        let looks = stream::iter(looks).buffered(self.files.journaled.request_concurrency());
        let stats: Vec<Option<Stat>> = looks.try_collect().await?;
        let mut found = Vec::new();
        for (place, stat) in places.iter().zip(stats) {
            self.compare_path(&place.path, stat, &mut found).await?;
            if place.is_deep {
                self.compare_below(&place.path.clone().into(), &mut found).await?;
            }
        }
        Ok(found)
    }

    /// Returns the paths to compare, each after those directories above it that are not in the index. Above a directory
    /// that is in the index, or was met before, all directories are in it too; so a deep tree costs one comparison for
    /// each entry, not one for each level.
    fn paths_to_compare(&mut self, concerns: &[ComparedPath]) -> Result<Vec<ComparedPath>> {
        let (mut met, mut places) = (HashSet::new(), Vec::new());
        for concern in concerns {
            let first = places.len();
            let mut above = concern.path.parent();
            while let Some(path) = above.filter(|above| !above.is_root() && !met.contains(above)) {
                if self.records.is_known_directory(path.as_str().as_bytes())? {
                    break;
                }
                above = path.parent();
                met.insert(path.clone());
                let is_deep = false;
                places.push(ComparedPath { path, is_deep });
            }
            places[first..].reverse();
            met.insert(concern.path.clone());
            places.push(concern.clone());
        }
        Ok(places)
    }

    /// Returns a raw name to compare, after those directories above it that are not in the index.
    fn raw_paths_to_compare(&mut self, path: &EntryPath, met: &mut HashSet<Vec<u8>>) -> Result<Vec<EntryPath>> {
        let mut places = vec![path.clone()];
        met.insert(path.as_bytes().to_vec());
        let mut directory = split_raw_path(path.as_bytes()).0;
        while !directory.is_empty() && met.insert(directory.to_vec()) && !self.records.is_known_directory(directory)? {
            places.push(EntryPath::from_bytes(directory.to_vec()));
            directory = split_raw_path(directory).0;
        }
        places.reverse();
        Ok(places)
    }

    /// Records the differences: an entry that the journal has met before as a change by others, any other as met for
    /// the first time.
    pub(crate) async fn record_differences(&mut self, mut found: Vec<FoundEntry>, is_whole: bool) -> Result<()> {
        found.sort_by(|one, other| one.path.cmp(&other.path));
        found.dedup_by(|one, other| one.path == other.path);
        let count = found.len();
        let found = self.drop_misplaced_entries(found)?;
        // Entries were left out, so some file is not recorded yet.
        let is_whole = is_whole && found.len() == count;
        let room = self.files.room;
        let is_all_known = room.has_recorded_all()?;
        let met = if is_all_known {
            vec![true; found.len()]
        } else {
            room.were_ever_recorded(found.iter().map(|entry| entry.path.as_slice()))?
        };
        // The index may be newer than the depot, because the log has not entered the depot yet.
        let mut outside = Vec::new();
        let mut new = Vec::new();
        for (entry, was_met) in found.into_iter().zip(met) {
            let is_remembered = self.records.recorded_entry(&entry.path)?.is_some();
            if was_met || entry.thing.is_none() || is_remembered {
                &mut outside
            } else {
                &mut new
            }
            .push(entry);
        }
        let has_new = !new.is_empty();
        self.new.extend(new.iter().map(|entry: &FoundEntry| entry.path.clone()));
        if has_new || (is_whole && outside.is_empty()) {
            self.log_found_change(ChangeKind::Capture, new, is_whole && outside.is_empty())
                .await?;
        }
        if !outside.is_empty() {
            self.log_found_change(ChangeKind::Outside, outside, is_whole).await?;
        }
        Ok(())
    }

    /// Leaves out entries in a directory that was not a directory when it was compared itself: other programs changed
    /// it between the two comparisons, and the next one finds the entries.
    fn drop_misplaced_entries(&mut self, found: Vec<FoundEntry>) -> Result<Vec<FoundEntry>> {
        let mut fits = Vec::with_capacity(found.len());
        for entry in &found {
            let above = split_raw_path(&entry.path).0;
            let is_in_directory = match found.binary_search_by(|one| one.path.as_slice().cmp(above)) {
                Ok(at) => fits[at] && found[at].is_directory(),
                Err(_) => self.records.is_known_directory(above)?,
            };
            fits.push(entry.thing.is_none() || is_in_directory);
        }
        let kept = found.into_iter().zip(fits).filter(|(_, fits)| *fits);
        Ok(kept.map(|(entry, _)| entry).collect())
    }

    async fn log_found_change(&mut self, kind: ChangeKind, entries: Vec<FoundEntry>, is_whole: bool) -> Result<()> {
        let door = match kind {
            ChangeKind::Outside => "outside",
            _ => "garret",
        };
        let origin = Origin {
            summary: summary_of_found(kind, &entries),
            actor: Actor {
                door: door.into(),
                ..Actor::default()
            },
            ..Origin::default()
        };
        let change = self.files.journaled.ids.next_id();
        let by = ChangeAuthorship::new(change, self.files.journaled.clock.now(), origin);
        let found = FoundChange {
            id: self.records.next_id(),
            by,
            kind,
            entries,
            is_whole,
        };
        self.records.record_found_change(found).await
    }

    /// Compares the entry at one path with the index, and adds a difference to `found`.
    async fn compare_path(&mut self, path: &WsPath, stat: Option<Stat>, found: &mut Vec<FoundEntry>) -> Result<()> {
        if path.is_root() {
            return Ok(());
        }
        let known = self.records.entry_at(path)?;
        if self.files.is_unchanged(path, known.as_ref(), stat.as_ref()).await? {
            return Ok(());
        }
        let thing = self.files.capture_entry(path, stat).await?;
        if known.is_none() && thing.is_none() {
            return Ok(());
        }
        let is_new_directory = |thing: &CapturedEntry| known.is_none() && thing.known.kind == EntryKind::Directory;
        // A directory with nothing but excluded entries does not exist for the journal.
        if thing.as_ref().is_some_and(is_new_directory) && self.files.is_only_excluded(path).await? {
            return Ok(());
        }
        self.add_difference(path.as_str().as_bytes(), known.as_ref(), thing, found)
    }

    /// Adds the entry that was found at a path. Below a directory that is no longer one, it adds the recorded entries as
    /// gone: if other programs bring them back, they are recorded as new, and their old state is not taken for the state
    /// in the journal.
    fn add_difference(
        &self,
        path: &[u8],
        known: Option<&KnownEntry>,
        thing: Option<CapturedEntry>,
        found: &mut Vec<FoundEntry>,
    ) -> Result<()> {
        let path = path.to_vec();
        let entry = FoundEntry { path, thing };
        if known.is_some_and(|known| known.kind == EntryKind::Directory) && !entry.is_directory() {
            let below = self.records.entries_below(&entry.path)?;
            found.extend(below.into_iter().map(|(path, _)| FoundEntry { path, thing: None }));
        }
        found.push(entry);
        Ok(())
    }

    /// Compares everything below a directory, raw names included, and adds recorded entries that are gone.
    async fn compare_below(&mut self, directory: &EntryPath, found: &mut Vec<FoundEntry>) -> Result<()> {
        let walked = scan_entries(self.files, directory).await?;
        for (path, stat) in &walked {
            let entry = EntryPath::from_bytes(path.clone());
            if entry == *directory {
                continue;
            }
            if let Some(path) = entry.as_path() {
                let stat = if self.files.journaled.reach.is_remote {
                    Some(stat.clone())
                } else {
                    self.files.stat(path).await?
                };
                self.compare_path(path, stat, found).await?;
                continue;
            }
            let known = self.records.recorded_entry(path)?;
            if !known.is_some_and(|known| is_plainly_same(&known, stat)) {
                let path = path.clone();
                let thing = self.files.capture_raw(&entry, stat).await?;
                found.push(FoundEntry { path, thing });
            }
        }
        let exclusions = self.files.journaled.exclusions.clone();
        for (path, known) in self.records.entries_below(directory.as_bytes())? {
            let is_excluded = exclusions.covers_bytes(&path, known.kind == EntryKind::Directory);
            if !is_excluded && walked.binary_search_by(|(walked, _)| walked.cmp(&path)).is_err() {
                found.push(FoundEntry { path, thing: None });
            }
        }
        Ok(())
    }

    /// Compares a raw name with the index, and adds a difference to `found`.
    pub(crate) async fn compare_raw(&mut self, path: &EntryPath, found: &mut Vec<FoundEntry>) -> Result<()> {
        let known = self.records.recorded_entry(path.as_bytes())?;
        let stat = self.files.directory_handles().stat(path.as_bytes())?;
        let is_same = match (&known, &stat) {
            (Some(known), Some(stat)) => is_plainly_same(known, stat),
            (known, stat) => known.is_none() && stat.is_none(),
        };
        if is_same {
            return Ok(());
        }
        let thing = match &stat {
            Some(stat) => self.files.capture_raw(path, stat).await?,
            None => None,
        };
        if known.is_none() && thing.is_none() {
            return Ok(());
        }
        self.add_difference(path.as_bytes(), known.as_ref(), thing, found)
    }
}

/// Returns the summary of a change that a comparison found.
fn summary_of_found(kind: ChangeKind, entries: &[FoundEntry]) -> String {
    let count = |number: usize, one: &str, more: &str| match number {
        1 => format!("1 {one}"),
        number => format!("{number} {more}"),
    };
    if kind == ChangeKind::Outside {
        return format!("{} changed by other programs", count(entries.len(), "path", "paths"));
    }
    match entries.iter().filter(|entry| !entry.is_directory()).count() {
        0 => format!(
            "Recorded {}",
            count(entries.len(), "existing directory", "existing directories")
        ),
        files => format!("Recorded {}", count(files, "existing file", "existing files")),
    }
}
