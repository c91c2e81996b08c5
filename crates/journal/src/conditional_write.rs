//! Changes one file without a comparison beforehand, on the condition that the file has its recorded version.
//!
//! If the condition does not hold, the storage refuses and nothing happened; the full attempt then finds out which
//! changes other programs made.

use garret_core::{Batch, EntryKind, Follow, Mutation, MutationOutcome, Precondition, Result, Version, WsPath};
use garret_depot::outside_files::KnownEntry;

use crate::compare::StorageComparer;
use crate::journal_records::JournalRecords;
use crate::observed::{DIRECTORY_MODE, directory_entry, observed_entry};
use crate::observed_files::ObservedFiles;
use crate::raw_names::split_raw_path;
use crate::resolved_batch::precondition_of_mut;
use crate::write_session::WriteSession;

/// Returns the directories that a write of one remote file will create, the highest first; none if it creates none,
/// or if a comparison has to tell more.
pub(crate) async fn find_directories_to_create(
    comparer: &mut StorageComparer<'_>,
    batch: &Batch,
) -> Result<Vec<WsPath>> {
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
        match comparer.records.entry_at(&above)? {
            None => made.push(above),
            Some(known) if known.kind == EntryKind::Directory => {}
            Some(_) => return Ok(Vec::new()),
        }
    }
    // One request is enough: if nothing is at the highest directory, nothing is below it.
    let highest = made.first().filter(|_| comparer.files.journaled.reach.is_remote);
    match highest {
        Some(highest) if comparer.files.stat(highest).await?.is_none() => Ok(made),
        _ => Ok(Vec::new()),
    }
}

/// Returns the batch with a precondition on the recorded version of its one file; `None` if the batch does more, or
/// the version is not known. `made` are the directories that it will create.
pub(crate) fn build_conditional_batch(
    comparer: &mut StorageComparer<'_>,
    batch: &Batch,
    made: &[WsPath],
) -> Result<Option<Batch>> {
    let [mutation] = batch.mutations.as_slice() else {
        return Ok(None);
    };
    let Some((path, precondition)) = conditional_parts(comparer.files, mutation) else {
        return Ok(None);
    };
    let above = split_raw_path(path.as_str().as_bytes()).0;
    if path.is_root() || (made.is_empty() && !comparer.records.is_known_directory(above)?) {
        return Ok(None);
    }
    let known = comparer.records.entry_at(path)?;
    let may_make = match mutation {
        Mutation::Append { create, .. } => *create,
        Mutation::Remove { .. } => false,
        _ => true,
    };
    let binding = match &known {
        // Without the mode of new files a stat would be needed afterwards to record the entry.
        None if may_make && comparer.records.new_file_mode().is_some() => Precondition::Absent,
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
    if let Some(precondition) = precondition_of_mut(&mut guarded.mutations[0]) {
        *precondition = binding;
    }
    Ok(Some(guarded))
}

impl WriteSession<'_> {
    pub(crate) async fn apply_conditionally(
        &mut self,
        batch: Batch,
        made: Vec<WsPath>,
    ) -> Result<Vec<MutationOutcome>> {
        let contents = self.files.prepare_contents(&batch.mutations).await?;
        self.log_batch_intent(&batch, contents)?;
        let applied = match self.files.journaled.files.apply(batch.clone()).await {
            Ok(applied) => applied,
            Err(error) => {
                self.comparer.records.abort_intent()?;
                return Err(error);
            }
        };
        let known = entry_after_mutation(&mut self.comparer.records, &batch.mutations[0], &applied[0])?;
        let made = made
            .iter()
            .map(|made| observed_entry(made, Some(directory_entry(DIRECTORY_MODE))));
        let mut left: Vec<_> = made.collect();
        left.push(observed_entry(batch.mutations[0].path(), known));
        self.comparer.records.close_intent(left).await?;
        Ok(applied)
    }
}

/// Returns the entry that a write, an append or a removal left at its path.
pub(crate) fn entry_after_mutation(
    records: &mut JournalRecords<'_>,
    mutation: &Mutation,
    applied: &MutationOutcome,
) -> Result<Option<KnownEntry>> {
    let mode = match mutation {
        Mutation::Write { mode, .. } => *mode,
        Mutation::Append { .. } => None,
        _ => return Ok(None),
    };
    let before = records.entry_at(mutation.path())?;
    let before = before.filter(|before| before.kind == EntryKind::File);
    let kept = before.map(|before| before.mode);
    let mode = mode.map(|mode| mode & 0o7777).or(kept).or(records.new_file_mode());
    Ok(Some(KnownEntry {
        kind: EntryKind::File,
        mode: mode.unwrap_or(0o644),
        size: applied.size,
        target: None,
        token: applied.version.as_ref().map(|version| version.as_str().to_owned()),
    }))
}

/// Returns the path and the precondition of a mutation that can be applied without a comparison. On a local storage
/// a comparison is cheap, so only small writes qualify there.
fn conditional_parts<'m>(files: ObservedFiles<'_>, mutation: &'m Mutation) -> Option<(&'m WsPath, &'m Precondition)> {
    let is_far = files.journaled.reach.is_remote;
    match mutation {
        Mutation::Write {
            path,
            content,
            precondition,
            ..
        } => {
            let most = files.room.inline_bytes();
            let is_small = content.as_bytes().is_some_and(|bytes| bytes.len() as u64 <= most);
            (is_small || is_far).then_some((path, precondition))
        }
        Mutation::Append { path, precondition, .. } | Mutation::Remove { path, precondition, .. } => {
            is_far.then_some((path, precondition))
        }
        _ => None,
    }
}
