//! Compares the storage with the index of recorded entries, and records the differences.
//!
//! A file with the recorded version is unchanged and is not read; only a file with another version is. A difference was
//! made by other programs, or existed before the journal began.

use std::collections::HashSet;
use std::io::Read;
use std::sync::Arc;

use futures::stream::{self, StreamExt, TryStreamExt};
use garret_core::{
    Actor, ChangeKind, Content, ContentSource, EntryKind, EntryPath, Error, ErrorKind, Follow, Origin, Precondition,
    ReadOptions, Result, Stat, StatOptions, Storage, Version, WsPath,
};
use garret_depot::outside_files::{
    CapturedEntry, ChangeAuthorship, FoundChange, FoundEntry, KnownEntry, ObservedEntry, RecordContent,
};

use crate::raw_names::{DirectoryHandles, split_raw_path};
use crate::scan::is_plainly_same;
use crate::write_session::{ObservedFiles, WriteSession};

/// Number of times that a file is read again because it changes while it is read.
pub(crate) const TRIES: usize = 5;
/// A file up to this size is read in one piece.
pub(crate) const WHOLE_BYTES: u64 = 8 * 1024 * 1024;

/// A path to compare.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ComparedPath {
    pub(crate) path: WsPath,
    /// Whether all entries below it are compared too.
    pub(crate) is_deep: bool,
}

impl WriteSession<'_> {
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
            if self.is_excluded(path)? {
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
                if self.is_known_directory(path.as_str().as_bytes())? {
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
        while !directory.is_empty() && met.insert(directory.to_vec()) && !self.is_known_directory(directory)? {
            places.push(EntryPath::from_bytes(directory.to_vec()));
            directory = split_raw_path(directory).0;
        }
        places.reverse();
        Ok(places)
    }

    pub(crate) fn is_known_directory(&mut self, path: &[u8]) -> Result<bool> {
        let known = self.recorded_entry(path)?;
        Ok(known.is_some_and(|known| known.kind == EntryKind::Directory))
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
            let is_remembered = self.recorded_entry(&entry.path)?.is_some();
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
        self.outside.extend(outside.iter().map(|entry| entry.path.clone()));
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
            let above = &entry.path[..entry.path.iter().rposition(|byte| *byte == b'/').unwrap_or(0)];
            let is_in_directory = match found.binary_search_by(|one| one.path.as_slice().cmp(above)) {
                Ok(at) => fits[at] && found[at].is_directory(),
                Err(_) => self
                    .recorded_entry(above)?
                    .is_some_and(|known| known.kind == EntryKind::Directory),
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
        let id = self.next_id();
        self.record_found_change(FoundChange {
            id,
            by,
            kind,
            entries,
            is_whole,
        })
        .await
    }

    /// Compares the entry at one path with the index, and adds a difference to `found`.
    async fn compare_path(&mut self, path: &WsPath, stat: Option<Stat>, found: &mut Vec<FoundEntry>) -> Result<()> {
        if path.is_root() {
            return Ok(());
        }
        let known = self.recorded_entry(path.as_str().as_bytes())?;
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
        let is_directory = |known: &KnownEntry| known.kind == EntryKind::Directory;
        let was_directory = known.as_ref().is_some_and(is_directory);
        if was_directory && !thing.as_ref().is_some_and(|thing| is_directory(&thing.known)) {
            self.add_lost_below(path.as_str().as_bytes(), found)?;
        }
        found.push(FoundEntry {
            path: path.as_str().as_bytes().to_vec(),
            thing,
        });
        Ok(())
    }

    /// Adds the recorded entries below a directory that is no longer one, as gone. If other programs bring them back,
    /// they are recorded as new, and their old state is not taken for the state in the journal.
    pub(crate) fn add_lost_below(&self, directory: &[u8], found: &mut Vec<FoundEntry>) -> Result<()> {
        let below = self.state.knowledge.entries_below(self.files.room, directory)?;
        found.extend(below.into_iter().map(|(path, _)| FoundEntry { path, thing: None }));
        Ok(())
    }

    /// Compares everything below a directory, raw names included, and adds recorded entries that are gone.
    async fn compare_below(&mut self, directory: &EntryPath, found: &mut Vec<FoundEntry>) -> Result<()> {
        let walked = self.files.scan_entries(directory).await?;
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
            let known = self.recorded_entry(path)?;
            if !known.is_some_and(|known| is_plainly_same(&known, stat)) {
                let path = path.clone();
                let thing = self.files.capture_raw(&entry, stat).await?;
                found.push(FoundEntry { path, thing });
            }
        }
        let exclusions = self.files.journaled.exclusions.clone();
        for (path, known) in self
            .state
            .knowledge
            .entries_below(self.files.room, directory.as_bytes())?
        {
            let is_excluded = exclusions.covers_bytes(&path, known.kind == EntryKind::Directory);
            if !is_excluded && walked.binary_search_by(|(walked, _)| walked.cmp(&path)).is_err() {
                found.push(FoundEntry { path, thing: None });
            }
        }
        Ok(())
    }
}

impl ObservedFiles<'_> {
    async fn stat_unless_root(&self, path: WsPath) -> Result<Option<Stat>> {
        if path.is_root() {
            Ok(None)
        } else {
            self.stat(&path).await
        }
    }

    /// Returns the stat of `path`; `None` if nothing is there, or a kind of entry that no journal holds. A file that
    /// may not be read has no version.
    pub(crate) async fn stat(&self, path: &WsPath) -> Result<Option<Stat>> {
        let stat = match stat_with_version(&*self.journaled.files, path).await {
            Err(error) if error.kind() == ErrorKind::Denied => self.stat_with_owner_bits(path, error).await,
            stat => stat,
        };
        match stat {
            Ok(stat) if stat.kind == EntryKind::Other => Ok(None),
            Ok(stat) => Ok(Some(stat)),
            Err(error) if means_absent(error.kind()) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn is_unchanged(&self, path: &WsPath, known: Option<&KnownEntry>, stat: Option<&Stat>) -> Result<bool> {
        let (Some(known), Some(stat)) = (known, stat) else {
            return Ok(known.is_none() && stat.is_none());
        };
        let now = entry_of_stat(stat);
        if (known.kind, &known.target) != (now.kind, &now.target) {
            return Ok(false);
        }
        // A list of a remote storage does not include modes.
        let has_mode = stat.mode.is_some() || !self.journaled.reach.is_remote;
        if known.kind != EntryKind::Symlink && has_mode && known.mode != now.mode {
            return Ok(false);
        }
        if known.kind != EntryKind::File || (known.token.is_some() && known.token == now.token) {
            return Ok(true);
        }
        match (&known.token, &now.token) {
            // The file may not be read, neither now nor when it was recorded, so only its size can be compared.
            (None, None) => Ok(known.size == now.size),
            // Two texts can name the same version, so the storage decides whether the recorded one still holds.
            (Some(token), Some(_)) if known.size == now.size => self.has_version(path, token).await,
            _ => Ok(false),
        }
    }

    /// Returns whether the storage confirms that `path` still has the version `token`.
    pub(crate) async fn has_version(&self, path: &WsPath, token: &str) -> Result<bool> {
        let options = ReadOptions {
            // An empty range fetches no content; only the precondition matters.
            range: Some(0..0),
            follow: Follow::Never,
            precondition: Precondition::Version(Version::new(token)),
            ..ReadOptions::default()
        };
        match self.journaled.files.read(path, options).await {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::Conflict || means_absent(error.kind()) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Returns the entry at `path`, with its content.
    pub(crate) async fn capture_entry(&self, path: &WsPath, stat: Option<Stat>) -> Result<Option<CapturedEntry>> {
        let Some(stat) = stat else { return Ok(None) };
        let mut known = entry_of_stat(&stat);
        if known.kind != EntryKind::File {
            return Ok(Some(CapturedEntry { known, content: None }));
        }
        if known.size > WHOLE_BYTES
            && let Some(thing) = self.capture_large(path).await?
        {
            return Ok(Some(thing));
        }
        if known.size > WHOLE_BYTES
            && let Some(thing) = self.capture_in_pieces(path, &known).await?
        {
            return Ok(Some(thing));
        }
        for _ in 0..TRIES {
            let options = ReadOptions {
                follow: Follow::Never,
                ..ReadOptions::default()
            };
            match self.journaled.files.read(path, options).await {
                Ok(read) => {
                    known.size = read.size;
                    known.mode = read.mode.unwrap_or(known.mode);
                    known.token = Some(read.version.as_str().to_owned());
                    let content = Some(self.hold_content(read.bytes.into()).await?);
                    return Ok(Some(CapturedEntry { known, content }));
                }
                Err(error) if means_absent(error.kind()) => return Ok(None),
                Err(error) if error.kind() == ErrorKind::Unavailable => {}
                Err(error) => return Err(error),
            }
        }
        Err(changing_file_error(path))
    }

    /// Captures a large file by handle, without holding it in memory; `None` if the storage has no handles. A file that
    /// changes during the capture is read again.
    async fn capture_large(&self, path: &WsPath) -> Result<Option<CapturedEntry>> {
        for _ in 0..TRIES {
            let Some(before) = self.stat(path).await?.filter(|stat| stat.kind == EntryKind::File) else {
                return Ok(None);
            };
            if !self.has_handles()? {
                return Ok(None);
            }
            let known = entry_of_stat(&before);
            let content = self.content_by_handle(&path.clone().into(), before.size);
            let Ok(held) = self.hold_content(content).await else {
                continue;
            };
            if let Some(token) = &known.token
                && self.has_version(path, token).await?
            {
                return Ok(Some(CapturedEntry {
                    known,
                    content: Some(held),
                }));
            }
        }
        Err(changing_file_error(path))
    }

    fn has_handles(&self) -> Result<bool> {
        Ok(self.journaled.files.open_directory(&WsPath::root())?.is_some())
    }

    /// Returns the content of a file of `size` bytes in a storage with handles; it is read on use.
    pub(crate) fn content_by_handle(&self, path: &EntryPath, size: u64) -> Content {
        Content::from_source(HandleSource {
            files: self.journaled.files.clone(),
            path: path.clone(),
            size,
        })
    }

    /// Returns the content of a file of about `size` bytes. The content of a large file is read by handle on use, or
    /// goes through a temporary file in the home.
    pub(crate) async fn load_content(&self, path: &EntryPath, size: u64) -> Result<Content> {
        let Some(valid) = path.as_path() else {
            return Ok(self.content_by_handle(path, size));
        };
        if size > WHOLE_BYTES && self.has_handles()? {
            return Ok(self.content_by_handle(path, size));
        }
        match self.journaled.gate.files().filter(|_| size > WHOLE_BYTES) {
            Some(files) => Ok(self.spool_content(valid, &files.folder).await?.0),
            None => {
                let options = ReadOptions {
                    follow: Follow::Never,
                    ..ReadOptions::default()
                };
                let read = self.journaled.files.read(valid, options).await?;
                Ok(read.bytes.into())
            }
        }
    }

    /// Prepares content for a record: small content is held in the record, larger content in the depot.
    pub(crate) async fn hold_content(&self, content: Content) -> Result<RecordContent> {
        if content.len() <= self.room.inline_bytes() {
            return content.to_bytes().map(RecordContent::Inline);
        }
        self.store_content(content).await
    }

    /// Stores content in the depot.
    pub(crate) async fn store_content(&self, content: Content) -> Result<RecordContent> {
        let mut stored = self.room.store_contents(vec![content]).await?;
        Ok(stored.pop().expect("one content was stored"))
    }

    /// Observes the present entries at changed paths.
    pub(crate) async fn observe_paths(&self, paths: impl IntoIterator<Item = WsPath>) -> Result<Vec<ObservedEntry>> {
        let paths = paths.into_iter().filter(|path| !path.is_root());
        let looks = paths.map(|path| self.observe_path(path));
        stream::iter(looks)
            .buffered(self.journaled.request_concurrency())
            .try_collect()
            .await
    }

    async fn observe_path(&self, path: WsPath) -> Result<ObservedEntry> {
        let stat = self.stat(&path).await?;
        Ok(ObservedEntry {
            path: path.as_str().as_bytes().to_vec(),
            known: stat.as_ref().map(entry_of_stat),
        })
    }

    /// Observes the present entries at changed paths, raw names included.
    pub(crate) async fn observe_entries(&self, paths: Vec<EntryPath>) -> Result<Vec<ObservedEntry>> {
        let (raw, valid): (Vec<_>, Vec<_>) = paths.into_iter().partition(EntryPath::is_escaped);
        let valid: Vec<WsPath> = valid.iter().filter_map(|path| path.as_path().cloned()).collect();
        let mut seen = self.observe_paths(valid).await?;
        let mut way = self.directory_handles();
        for path in raw {
            let stat = way.stat(path.as_bytes())?;
            seen.push(ObservedEntry {
                path: path.as_bytes().to_vec(),
                known: stat.as_ref().map(entry_of_stat),
            });
        }
        Ok(seen)
    }
}

/// Returns the stat of `path`. A file that may not be read has no version.
pub(crate) async fn stat_with_version(files: &dyn Storage, path: &WsPath) -> Result<Stat> {
    let options = |with_version| StatOptions {
        follow: Follow::Never,
        with_version,
    };
    match files.stat(path, options(true)).await {
        Err(error) if error.kind() == ErrorKind::Denied => files.stat(path, options(false)).await,
        stat => stat,
    }
}

pub(crate) fn changing_file_error(path: &WsPath) -> Error {
    Error::new(ErrorKind::Unavailable, "a file keeps changing while it is read").at_path(path)
}

/// A file of a storage with handles, opened anew for each read.
#[derive(Debug)]
struct HandleSource {
    files: Arc<dyn Storage>,
    path: EntryPath,
    size: u64,
}

impl ContentSource for HandleSource {
    fn size(&self) -> u64 {
        self.size
    }

    fn open(&self) -> Result<Box<dyn Read + Send>> {
        let (above, name) = split_raw_path(self.path.as_bytes());
        let Some(path) = self.path.as_path() else {
            let mut way = DirectoryHandles::new(&*self.files);
            return Ok(way.open_directory(above)?.open_file(name)?.content);
        };
        let above = path.parent().unwrap_or_else(WsPath::root);
        let directory = self
            .files
            .open_directory(&above)?
            .ok_or_else(|| changing_file_error(path))?;
        Ok(directory.open_file(name)?.content)
    }
}

/// Converts a stat to the recorded form of an entry.
pub(crate) fn entry_of_stat(stat: &Stat) -> KnownEntry {
    let usual = match stat.kind {
        EntryKind::Directory => 0o755,
        EntryKind::Symlink => 0o777,
        _ => 0o644,
    };
    KnownEntry {
        kind: stat.kind,
        mode: stat.mode.unwrap_or(usual),
        size: if stat.kind == EntryKind::Directory {
            0
        } else {
            stat.size
        },
        target: stat.target.clone(),
        token: stat.version.as_ref().map(|version| version.as_str().to_owned()),
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

/// Returns whether an error means that no entry which a journal could hold is at the path.
pub(crate) fn means_absent(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::NotFound
            | ErrorKind::NotADirectory
            | ErrorKind::PathEscape
            | ErrorKind::IsADirectory
            | ErrorKind::Unsupported
    )
}
