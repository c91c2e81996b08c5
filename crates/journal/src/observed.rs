//! Collects the state that a change left: observed in the storage, or taken from the storage's answer if each
//! observation would be a request.

use std::collections::{HashMap, HashSet};

use garret_core::{Batch, EntryKind, Mutation, MutationOutcome, Precondition, Result, WsPath};
use garret_depot::outside_files::{KnownEntry, ObservedEntry};

use crate::compare::StorageComparer;
use crate::conditional_write::entry_after_mutation;
use crate::journal_records::JournalRecords;
use crate::observed_files::{ObservedFiles, entry_of_stat};
use crate::resolved_batch::{affects_path, parse_ws_path};

/// The mode of a directory for which none was given.
pub(crate) const DIRECTORY_MODE: u32 = 0o755;

/// A batch as it was sent to the storage, with the storage's answer.
#[derive(Clone, Copy)]
pub(crate) struct AppliedBatch<'b> {
    pub(crate) sent: &'b Batch,
    pub(crate) applied: &'b [MutationOutcome],
}

/// The present state of changed paths.
#[derive(Debug, Default)]
pub(crate) struct BatchObservation {
    /// States that the storage's answer implies.
    told: Vec<ObservedEntry>,
    /// States that were observed afterwards.
    looked: Vec<ObservedEntry>,
}

impl BatchObservation {
    pub(crate) fn into_all(self) -> Vec<ObservedEntry> {
        let mut all = self.told;
        all.extend(self.looked);
        all
    }

    /// Observes the recorded paths below a removed or moved directory that are not covered yet.
    pub(crate) async fn observe_remaining_paths(&mut self, files: ObservedFiles<'_>, below: &[Vec<u8>]) -> Result<()> {
        let seen = self.told.iter().chain(&self.looked);
        let seen: HashSet<_> = seen.map(|seen| seen.path.clone()).collect();
        for path in below.iter().filter(|path| !seen.contains(*path)) {
            let known = match parse_ws_path(path) {
                Some(path) => files.stat(&path).await?.as_ref().map(entry_of_stat),
                None => None,
            };
            let path = path.clone();
            self.looked.push(ObservedEntry { path, known });
        }
        Ok(())
    }

    /// Returns the observed files whose content is uncertain, because other programs changed them, or their source,
    /// while the batch ran. Their version is dropped, so that the next comparison reads them.
    pub(crate) async fn take_uncertain_files(
        &mut self,
        batch: AppliedBatch<'_>,
        comparer: &mut StorageComparer<'_>,
    ) -> Result<Vec<Vec<u8>>> {
        let mut doubtful = Vec::new();
        for one in &mut self.looked {
            let (Some(path), Some(KnownEntry { token: Some(token), .. })) = (parse_ws_path(&one.path), &one.known)
            else {
                continue;
            };
            if batch.determines_content(comparer, &path, token).await? || comparer.is_still_known(&path).await? {
                continue;
            }
            if let Some(known) = &mut one.known {
                known.token = None;
            }
            doubtful.push(one.path.clone());
        }
        Ok(doubtful)
    }
}

impl AppliedBatch<'_> {
    /// Returns the present state of the paths that the batch changed.
    pub(crate) async fn observe_paths(
        self,
        comparer: &mut StorageComparer<'_>,
        paths: impl IntoIterator<Item = WsPath>,
    ) -> Result<BatchObservation> {
        let mut left = BatchObservation::default();
        if !comparer.files.journaled.reach.is_remote {
            left.looked = comparer.files.observe_paths(paths).await?;
            return Ok(left);
        }
        let told = BatchPathIndex::from_batch(self.sent);
        let mut asked = Vec::new();
        for path in paths.into_iter().filter(|path| !path.is_root()) {
            match self.state_from_answer(&mut comparer.records, &told, &path)? {
                Some(known) => left.told.push(observed_entry(&path, known)),
                None => asked.push(path),
            }
        }
        left.looked = comparer.files.observe_paths(asked).await?;
        Ok(left)
    }

    /// Returns the state of a path that the answer to the batch implies; `None` if the answer says nothing about it.
    fn state_from_answer(
        self,
        records: &mut JournalRecords<'_>,
        told: &BatchPathIndex<'_>,
        path: &WsPath,
    ) -> Result<Option<Option<KnownEntry>>> {
        let last = told.last.get(path).copied();
        let taken = told.taking.iter().rev().find(|(_, from)| path.is_within(from));
        // The last removal or rename of the path, or of a directory above it, decides unless a later mutation made it
        // again.
        if let Some((index, _)) = taken
            && last.is_none_or(|last| last <= *index)
        {
            return Ok(Some(None));
        }
        let Some(last) = last else {
            // A new directory was created along with an entry below it.
            let is_new = told.above.contains(path) && records.entry_at(path)?.is_none();
            return Ok(is_new.then(|| Some(directory_entry(DIRECTORY_MODE))));
        };
        match &self.sent.mutations[last] {
            mutation @ (Mutation::Write { .. } | Mutation::Append { .. }) if self.applied[last].version.is_some() => {
                entry_after_mutation(records, mutation, &self.applied[last]).map(Some)
            }
            Mutation::MakeDir { .. } if self.applied[last].created => Ok(Some(Some(directory_entry(DIRECTORY_MODE)))),
            Mutation::SetMode { mode, .. } if told.made.contains(path) => {
                Ok(Some(Some(directory_entry(*mode & 0o7777))))
            }
            _ => Ok(None),
        }
    }

    /// Returns whether the batch determines the content of a file that it left with the version `token`.
    async fn determines_content(self, comparer: &mut StorageComparer<'_>, path: &WsPath, token: &str) -> Result<bool> {
        let mut both = self.sent.mutations.iter().zip(self.applied).enumerate().rev();
        let Some((index, (last, applied))) = both.find(|(_, (mutation, _))| affects_path(mutation, path)) else {
            return Ok(false);
        };
        match last {
            // The content that was appended to is certain only if the storage was asked to check its version.
            Mutation::Append {
                precondition: Precondition::Any,
                ..
            } => Ok(false),
            Mutation::Write { path: written, .. } | Mutation::Append { path: written, .. } if written == path => {
                match &applied.version {
                    Some(left) if left.as_str() == token => Ok(true),
                    Some(left) => comparer.files.has_version(path, left.as_str()).await,
                    None => Ok(false),
                }
            }
            Mutation::Copy { from, to, .. } if to == path => {
                let mut earlier = self.sent.mutations[..index].iter();
                Ok(earlier.any(|earlier| affects_path(earlier, from)) || comparer.is_still_known(from).await?)
            }
            // A rename or a new mode keeps the content of the file, so the recorded content still holds.
            Mutation::Rename { .. } | Mutation::SetMode { .. } => Ok(true),
            _ => Ok(false),
        }
    }
}

/// The mutations of a batch, by path.
#[derive(Debug, Default)]
struct BatchPathIndex<'b> {
    /// The index of the last mutation at each path.
    last: HashMap<&'b WsPath, usize>,
    /// The mutations that remove a path and all entries below it.
    taking: Vec<(usize, &'b WsPath)>,
    /// The directories that the batch creates.
    made: HashSet<&'b WsPath>,
    /// The directories above written entries.
    above: HashSet<WsPath>,
}

impl<'b> BatchPathIndex<'b> {
    fn from_batch(batch: &'b Batch) -> Self {
        let mut told = Self::default();
        for (index, mutation) in batch.mutations.iter().enumerate() {
            told.last.insert(mutation.path(), index);
            match mutation {
                Mutation::Remove { path, .. } => told.taking.push((index, path)),
                Mutation::Rename { from, .. } => {
                    told.taking.push((index, from));
                    told.last.insert(from, index);
                }
                Mutation::MakeDir { path, .. } => {
                    told.made.insert(path);
                }
                _ => {}
            }
            if let Mutation::Write { path, .. } | Mutation::Append { path, .. } | Mutation::MakeDir { path, .. } =
                mutation
            {
                told.above.extend(path.ancestry().filter(|above| above != path));
            }
        }
        told
    }
}

pub(crate) fn observed_entry(path: &WsPath, known: Option<KnownEntry>) -> ObservedEntry {
    let path = path.as_str().as_bytes().to_vec();
    ObservedEntry { path, known }
}

/// Returns the recorded form of a directory.
pub(crate) fn directory_entry(mode: u32) -> KnownEntry {
    KnownEntry {
        kind: EntryKind::Directory,
        mode,
        size: 0,
        target: None,
        token: None,
    }
}
