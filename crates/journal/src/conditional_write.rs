//! Changes one file without a comparison beforehand, on the condition that the file has its recorded version.
//!
//! If the condition does not hold, the storage refuses and nothing happened; the full attempt then finds out which
//! changes other programs made.

use garret_core::{Batch, EntryKind, Follow, Mutation, MutationOutcome, Precondition, Result, Version, WsPath};
use garret_depot::outside_files::{KnownEntry, ObservedEntry};

use crate::apply::name_change;
use crate::observed::{DIRECTORY_MODE, directory_entry};
use crate::write_session::{ObservedFiles, WriteSession};

impl WriteSession<'_> {
    /// Returns the directories that a write of one remote file will create, the highest first; none if it creates none,
    /// or if a comparison has to tell more.
    pub(crate) async fn find_directories_to_create(&mut self, batch: &Batch) -> Result<Vec<WsPath>> {
        let [
            Mutation::Write {
                path, parents: true, ..
            },
        ] = batch.mutations.as_slice()
        else {
            return Ok(Vec::new());
        };
        let mut made = Vec::new();
        for above in path.ancestry().filter(|above| above != path) {
            match self.recorded_entry(above.as_str().as_bytes())? {
                None => made.push(above),
                Some(known) if known.kind == EntryKind::Directory => {}
                Some(_) => return Ok(Vec::new()),
            }
        }
        // One request is enough: if nothing is at the highest directory, nothing is below it.
        let highest = made.first().filter(|_| self.files.journaled.reach.is_remote);
        match highest {
            Some(highest) if self.files.stat(highest).await?.is_none() => Ok(made),
            _ => Ok(Vec::new()),
        }
    }

    /// Returns the batch with a precondition on the recorded version of its one file; `None` if the batch does more, or
    /// the version is not known. `made` are the directories that it will create.
    pub(crate) fn build_conditional_batch(&mut self, batch: &Batch, made: &[WsPath]) -> Result<Option<Batch>> {
        let [mutation] = batch.mutations.as_slice() else {
            return Ok(None);
        };
        let Some((path, precondition)) = self.files.conditional_parts(mutation) else {
            return Ok(None);
        };
        if path.is_root() || (made.is_empty() && !self.is_parent_recorded(path)?) {
            return Ok(None);
        }
        let known = self.recorded_entry(path.as_str().as_bytes())?;
        let may_make = match mutation {
            Mutation::Append { create, .. } => *create,
            Mutation::Remove { .. } => false,
            _ => true,
        };
        let binding = match &known {
            // Without the mode of new files a stat would be needed afterwards to record the entry.
            None if may_make && self.new_file_mode().is_some() => Precondition::Absent,
            Some(KnownEntry {
                kind: EntryKind::File,
                token: Some(token),
                ..
            }) => Precondition::Version(Version::new(token)),
            _ => return Ok(None),
        };
        if *precondition != Precondition::Any && *precondition != binding {
            return Ok(None);
        }
        let mut guarded = batch.clone();
        // No link may redirect the write to a path other than the recorded one.
        guarded.follow = Follow::Never;
        if let Mutation::Write { precondition, .. }
        | Mutation::Append { precondition, .. }
        | Mutation::Remove { precondition, .. } = &mut guarded.mutations[0]
        {
            *precondition = binding;
        }
        Ok(Some(guarded))
    }

    fn is_parent_recorded(&mut self, path: &WsPath) -> Result<bool> {
        let text = path.as_str();
        let above = &text[..text.rfind('/').unwrap_or(0)];
        let above = self.recorded_entry(above.as_bytes())?;
        Ok(above.is_some_and(|above| above.kind == EntryKind::Directory))
    }

    /// Returns the mode that a new file gets, if it is known.
    pub(crate) fn new_file_mode(&self) -> Option<u32> {
        self.state
            .file_mode
            .or_else(|| self.files.journaled.files.info().file_mode)
    }

    pub(crate) async fn apply_conditionally(
        &mut self,
        batch: Batch,
        made: Vec<WsPath>,
    ) -> Result<Vec<MutationOutcome>> {
        let contents = self.files.prepare_contents(&batch.mutations).await?;
        let change = self.log_batch_intent(&batch, batch.follow, contents)?;
        let applied = match self.files.journaled.files.apply(batch.clone()).await {
            Ok(applied) => applied,
            Err(error) => {
                self.abort_intent()?;
                return Err(error);
            }
        };
        let known = self.entry_after_mutation(&batch.mutations[0], &applied[0])?;
        let seen = |path: &WsPath, known| ObservedEntry {
            path: path.as_str().as_bytes().to_vec(),
            known,
        };
        let mut left: Vec<_> = made
            .iter()
            .map(|made| seen(made, Some(directory_entry(DIRECTORY_MODE))))
            .collect();
        left.push(seen(batch.mutations[0].path(), known));
        self.close_intent(left).await?;
        Ok(name_change(applied, change, &batch))
    }

    /// Returns the entry that a write, an append or a removal left at its path.
    pub(crate) fn entry_after_mutation(
        &mut self,
        mutation: &Mutation,
        applied: &MutationOutcome,
    ) -> Result<Option<KnownEntry>> {
        let mode = match mutation {
            Mutation::Write { mode, .. } => *mode,
            Mutation::Append { .. } => None,
            _ => return Ok(None),
        };
        let before = self.recorded_entry(mutation.path().as_str().as_bytes())?;
        let before = before.filter(|before| before.kind == EntryKind::File);
        let kept = before.map(|before| before.mode);
        let mode = mode.map(|mode| mode & 0o7777).or(kept).or(self.new_file_mode());
        Ok(Some(KnownEntry {
            kind: EntryKind::File,
            mode: mode.unwrap_or(0o644),
            size: applied.size,
            target: None,
            token: applied.version.as_ref().map(|version| version.as_str().to_owned()),
        }))
    }
}

impl ObservedFiles<'_> {
    /// Returns the path and the precondition of a mutation that can be applied without a comparison. On a local storage
    /// a comparison is cheap, so only small writes qualify there.
    fn conditional_parts<'m>(&self, mutation: &'m Mutation) -> Option<(&'m WsPath, &'m Precondition)> {
        let is_far = self.journaled.reach.is_remote;
        match mutation {
            Mutation::Write {
                path,
                content,
                precondition,
                ..
            } => {
                let most = self.room.inline_bytes();
                let is_small = content.as_bytes().is_some_and(|bytes| bytes.len() as u64 <= most);
                (is_small || is_far).then_some((path, precondition))
            }
            Mutation::Append { path, precondition, .. } | Mutation::Remove { path, precondition, .. } => {
                is_far.then_some((path, precondition))
            }
            _ => None,
        }
    }
}
