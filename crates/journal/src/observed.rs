//! Collects the state that a change left: observed in the storage, or taken from the storage's answer if each
//! observation would be a request.

use std::collections::{HashMap, HashSet};

use garret_core::{Batch, EntryKind, Mutation, MutationOutcome, Result, WsPath};
use garret_depot::outside_files::{KnownEntry, ObservedEntry};

use crate::write_session::WriteSession;

/// The mode of a directory for which none was given.
pub(crate) const DIRECTORY_MODE: u32 = 0o755;

/// The present state of changed paths.
#[derive(Debug, Default)]
pub(crate) struct BatchObservation {
    /// States that the storage's answer implies.
    pub(crate) told: Vec<ObservedEntry>,
    /// States that were observed afterwards.
    pub(crate) looked: Vec<ObservedEntry>,
}

impl BatchObservation {
    pub(crate) fn into_all(self) -> Vec<ObservedEntry> {
        let mut all = self.told;
        all.extend(self.looked);
        all
    }
}

impl WriteSession<'_> {
    /// Returns the present state of the paths that a batch changed.
    pub(crate) async fn observe_batch(
        &mut self,
        sent: &Batch,
        applied: &[MutationOutcome],
        paths: impl IntoIterator<Item = WsPath>,
    ) -> Result<BatchObservation> {
        let mut left = BatchObservation::default();
        if !self.files.journaled.reach.is_remote {
            left.looked = self.files.observe_paths(paths).await?;
            return Ok(left);
        }
        let told = BatchPathIndex::from_batch(sent);
        let mut asked = Vec::new();
        for path in paths.into_iter().filter(|path| !path.is_root()) {
            match self.state_from_answer(&told, sent, applied, &path)? {
                Some(known) => left.told.push(ObservedEntry {
                    path: path.as_str().as_bytes().to_vec(),
                    known,
                }),
                None => asked.push(path),
            }
        }
        left.looked = self.files.observe_paths(asked).await?;
        Ok(left)
    }

    /// Returns the state of a path that the answer to a batch implies; `None` if the answer says nothing about it.
    fn state_from_answer(
        &mut self,
        told: &BatchPathIndex<'_>,
        sent: &Batch,
        applied: &[MutationOutcome],
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
            return self.parent_state_from_answer(told, path);
        };
        match &sent.mutations[last] {
            mutation @ (Mutation::Write { .. } | Mutation::Append { .. }) if applied[last].version.is_some() => {
                self.entry_after_mutation(mutation, &applied[last]).map(Some)
            }
            Mutation::MakeDir { .. } if applied[last].created => Ok(Some(Some(directory_entry(DIRECTORY_MODE)))),
            Mutation::SetMode { mode, .. } if told.made.contains(path) => {
                Ok(Some(Some(directory_entry(*mode & 0o7777))))
            }
            _ => Ok(None),
        }
    }

    /// Returns the state of a directory that was created along with an entry below it.
    fn parent_state_from_answer(
        &mut self,
        told: &BatchPathIndex<'_>,
        path: &WsPath,
    ) -> Result<Option<Option<KnownEntry>>> {
        let is_new = told.above.contains(path) && self.recorded_entry(path.as_str().as_bytes())?.is_none();
        Ok(is_new.then(|| Some(directory_entry(DIRECTORY_MODE))))
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
