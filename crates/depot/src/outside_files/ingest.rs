//! Moves records from the log into the journal: many in one transaction, each at most once.
//!
//! A batch is applied again to the depot's tree, which holds the state before it, because that was recorded first. The
//! results that only the storage knows (modes that the system chose, versions) come from the record that closed the
//! intent.
//!
//! If other programs changed paths while a change ran, the state that it left differs from the tree. Such paths are
//! returned to the caller: the lock holder drops them from its index, compares them again, and so records the changes
//! as those of others.

use garret_core::{ChangeKind, EntryKind, Error, ErrorKind, Follow, Ids, Mutation, PathChange, Result};

use super::OutsideWorkspace;
use super::record::{
    ChangeAuthorship, ChangeIntent, FoundChange, FoundEntry, IntentWork, KnownEntry, LogRecord, LoggedStep,
    ObservedEntry, RecordContent,
};
use crate::change::{ChangeAuthor, ChangeBuilder, MutationStep};
use crate::content::PreparedContent;
use crate::depot::DepotShared;
use crate::error::{damaged_content, is_disk_failure};
use crate::metadata::{EntryNode, MetadataSession};
use garret_core::Durability;

/// Number of records in one transaction, so that other writers wait only for these.
const CHUNK: usize = 256;

/// Paths at which the journal differs from the observed storage.
pub type MismatchedPaths = Vec<Vec<u8>>;

/// A record that is ready for the journal.
#[derive(Debug, Clone, PartialEq)]
pub enum CompletedRecord {
    /// A change that was made, with the state that it left.
    Made(ChangeIntent, Vec<ObservedEntry>),
    /// Entries that other programs changed, or that the journal had not recorded.
    Found(FoundChange),
}

impl CompletedRecord {
    fn id(&self) -> u64 {
        match self {
            Self::Made(intent, _) => intent.id,
            Self::Found(found) => found.id,
        }
    }
}

/// A put that was carried out in the storage.
#[derive(Debug)]
pub(crate) struct IngestedPut {
    /// The number of its intent.
    pub(super) id: u64,
    /// The time at which it was begun, in the unit of the database.
    pub(crate) at: i64,
    /// The entries that it left.
    pub(super) seen: Vec<ObservedEntry>,
}

impl IngestedPut {
    /// Records that the put is in the journal, and the versions of the entries that it left.
    pub(crate) fn record(self, session: MetadataSession<'_>, workspace: i64) -> Result<()> {
        session.outside_files().set_ingested(workspace, self.id.cast_signed())?;
        record_observed_versions(session, workspace, &self.seen)
    }
}

/// The records of a log, sorted by their fate.
#[derive(Debug, Default, PartialEq)]
pub struct SortedRecords {
    /// The records that are ready for the journal, in order.
    pub ready: Vec<CompletedRecord>,
    /// An intent without a closing record.
    pub open: Option<ChangeIntent>,
    /// The number of the newest record.
    pub last: u64,
}

/// Matches intents with the records that close or abort them.
pub fn sort_records(records: Vec<LogRecord>) -> SortedRecords {
    let mut sorted = SortedRecords::default();
    for record in records {
        match record {
            LogRecord::Intent(intent) => {
                sorted.last = sorted.last.max(intent.id);
                sorted.open = Some(intent);
            }
            LogRecord::Found(found) => {
                sorted.last = sorted.last.max(found.id);
                sorted.ready.push(CompletedRecord::Found(found));
            }
            LogRecord::Closed { id, seen } => {
                if let Some(intent) = sorted.open.take_if(|open| open.id == id) {
                    sorted.ready.push(CompletedRecord::Made(intent, seen));
                }
            }
            LogRecord::Aborted { id } => {
                sorted.open.take_if(|open| open.id == id);
            }
        }
    }
    sorted
}

impl OutsideWorkspace {
    /// Returns the number of the newest record that is in the journal.
    pub fn last_ingested_record(&self) -> Result<u64> {
        let number = self.workspace.number;
        let database = &self.workspace.shared().database;
        database.read(|session| last_ingested_in(session, number))
    }

    /// Moves the records into the journal, in order, and skips those that are there already. Returns the paths at which
    /// the journal differs from the storage.
    pub async fn ingest_records(&self, ready: Vec<CompletedRecord>) -> Result<MismatchedPaths> {
        let mut misfits = MismatchedPaths::new();
        if ready.is_empty() {
            return Ok(misfits);
        }
        let ingested = self.last_ingested_record()?;
        let room = &self.workspace;
        let mut ready = ready.into_iter().filter(|one| one.id() > ingested).peekable();
        while ready.peek().is_some() {
            let chunk: Vec<_> = ready.by_ref().take(CHUNK).collect();
            let (shared, number, durability) = (room.shared().clone(), room.number, room.durability);
            let work = move |session: MetadataSession<'_>| ingest_chunk(session, &shared, number, durability, chunk);
            misfits.extend(room.shared().writer.write(durability, work).await?);
        }
        Ok(misfits)
    }

    /// Returns the changes that the steps of a batch would make to each path.
    pub async fn preview_steps(&self, steps: Vec<LoggedStep>, follow: Follow) -> Result<Vec<PathChange>> {
        let room = &self.workspace;
        let (shared, number, durability) = (room.shared().clone(), room.number, room.durability);
        let work = move |session: MetadataSession<'_>| {
            let mut changing = ChangeBuilder::begin(session, &shared, number, durability)?;
            run_steps(&mut changing, &steps, follow, ChangeBuilder::prepare_unchecked_content)?;
            changing.path_changes()
        };
        room.shared().writer.preview(work).await
    }
}

fn last_ingested_in(session: MetadataSession<'_>, workspace: i64) -> Result<u64> {
    let row = session.outside_files().journal(workspace)?;
    Ok(row.map_or(0, |row| row.ingested.unsigned_abs()))
}

fn ingest_chunk(
    session: MetadataSession<'_>,
    shared: &DepotShared,
    workspace: i64,
    durability: Durability,
    chunk: Vec<CompletedRecord>,
) -> Result<MismatchedPaths> {
    // Checked again inside the transaction: another process may have ingested the same log since.
    let ingested = last_ingested_in(session, workspace)?;
    let mut last = ingested;
    let mut misfits = MismatchedPaths::new();
    for one in chunk.into_iter().filter(|one| one.id() > ingested) {
        last = one.id();
        let changing = ChangeBuilder::begin(session, shared, workspace, durability)?;
        misfits.extend(match one {
            CompletedRecord::Found(found) => ingest_found(session, changing, found, &*shared.ids)?,
            CompletedRecord::Made(intent, seen) => ingest_made(session, changing, intent, &seen, &*shared.ids)?,
        });
    }
    session.outside_files().set_ingested(workspace, last as i64)?;
    Ok(misfits)
}

fn ingest_made(
    session: MetadataSession<'_>,
    changing: ChangeBuilder<'_>,
    intent: ChangeIntent,
    seen: &[ObservedEntry],
    ids: &dyn Ids,
) -> Result<MismatchedPaths> {
    let IntentWork::Batch { follow, steps } = intent.work else {
        return Err(damaged_content("an operation of the history was closed by a record"));
    };
    // Most changes write one file; this path saves applying the batch to the tree.
    if let Some(written) = find_single_write(&steps, seen)
        && is_in_directory(&changing, &written.0.path)?
    {
        let before = changing.tree.node(&written.0.path)?;
        if before.as_ref().is_none_or(|before| before.kind != EntryKind::Directory) {
            let changing = changing.with_time(intent.by.at);
            ingest_write(session, changing, to_author(intent.by, ids), written, before)?;
            return Ok(MismatchedPaths::new());
        }
    }
    let workspace = changing.workspace();
    let made = session.with_savepoint(|| {
        let mut changing = changing.with_time(intent.by.at);
        run_steps(&mut changing, &steps, follow, ChangeBuilder::prepare_record_content)?;
        let mut misfits = MismatchedPaths::new();
        for one in seen {
            if !apply_observed_state(&mut changing, one)? {
                misfits.push(one.path.clone());
            }
        }
        changing.finish_as(ChangeKind::Change, to_author(intent.by, ids))?;
        Ok(misfits)
    });
    match made {
        Err(error) if is_refusal(&error) => {
            // The tree differed from the storage: other programs changed files at the same time. The present state is
            // recorded as found by the next comparison, so no version may be kept for it.
            for one in seen {
                session.outside_files().set_seen_version(workspace, &one.path, None)?;
            }
            Ok(seen.iter().map(|one| one.path.clone()).collect())
        }
        made => made,
    }
}

fn is_in_directory(changing: &ChangeBuilder<'_>, path: &[u8]) -> Result<bool> {
    let Some(slash) = path.iter().rposition(|byte| *byte == b'/') else {
        return Ok(true);
    };
    let above = changing.tree.node(&path[..slash])?;
    Ok(above.is_some_and(|above| above.kind == EntryKind::Directory))
}

/// Returns the one file that a change wrote, with its content; `None` if the change did anything else. Most changes are
/// such writes.
fn find_single_write<'a>(
    steps: &'a [LoggedStep],
    seen: &'a [ObservedEntry],
) -> Option<(&'a ObservedEntry, &'a KnownEntry, &'a RecordContent)> {
    let ([step], [seen]) = (steps, seen) else { return None };
    let (Mutation::Write { path, .. }, Some(held)) = (&step.mutation, &step.content) else {
        return None;
    };
    let known = seen.known.as_ref().filter(|known| known.kind == EntryKind::File)?;
    (path.as_str().as_bytes() == seen.path).then_some((seen, known, held))
}

/// Records a written file whose directory is in the tree, without applying the batch to the tree.
fn ingest_write(
    session: MetadataSession<'_>,
    mut changing: ChangeBuilder<'_>,
    by: ChangeAuthor,
    (seen, known, held): (&ObservedEntry, &KnownEntry, &RecordContent),
    before: Option<EntryNode>,
) -> Result<()> {
    let node = changing.build_node(known, Some(held))?;
    let created = before.map_or(node.created, |before| before.created);
    // A different size means that another program wrote the file; without a version the next comparison reads it.
    let token = known.token.as_deref().filter(|_| known.size == node.size);
    session
        .outside_files()
        .set_seen_version(changing.workspace(), &seen.path, token)?;
    changing.set_entry(&seen.path, Some(EntryNode { created, ..node }))?;
    changing.finish_as(ChangeKind::Change, by).map(|_| ())
}

/// Applies the mutations of a batch to the depot's tree; `hold` finds their content.
fn run_steps<'c>(
    changing: &mut ChangeBuilder<'c>,
    steps: &[LoggedStep],
    follow: Follow,
    hold: fn(&ChangeBuilder<'c>, &RecordContent) -> Result<PreparedContent>,
) -> Result<()> {
    for step in steps {
        let content = step.content.as_ref().map(|held| hold(changing, held)).transpose()?;
        let mutation = step.mutation.clone();
        changing.apply_step(MutationStep { mutation, content }, follow)?;
    }
    Ok(())
}

/// Returns whether the error comes from the tree, rather than from the disk.
fn is_refusal(error: &Error) -> bool {
    !is_disk_failure(error) && !matches!(error.kind(), ErrorKind::Internal | ErrorKind::Corrupt)
}

fn to_author(by: ChangeAuthorship, ids: &dyn Ids) -> ChangeAuthor {
    ChangeAuthor {
        id: if by.change.is_empty() { ids.next_id() } else { by.change },
        operation: by.operation,
        summary: by.summary,
        actor: by.actor,
    }
}

/// Records the mode and the version that the storage gave to a path. Returns whether the rest of the entry matches the
/// tree.
fn apply_observed_state(changing: &mut ChangeBuilder<'_>, seen: &ObservedEntry) -> Result<bool> {
    let session = changing.tree.session();
    let (workspace, path) = (changing.workspace(), seen.path.as_slice());
    let node = changing.tree.node(path)?;
    let (token, fits) = match (&seen.known, node) {
        (Some(known), Some(node)) if matches_node(known, &node) => {
            if node.kind != EntryKind::Symlink && node.mode != known.mode {
                let mode = known.mode;
                changing.set_entry(path, Some(EntryNode { mode, ..node }))?;
            }
            (known.token.as_deref(), true)
        }
        (known, node) => (None, known.is_none() && node.is_none()),
    };
    session.outside_files().set_seen_version(workspace, path, token)?;
    Ok(fits)
}

fn matches_node(known: &KnownEntry, node: &EntryNode) -> bool {
    known.kind == node.kind
        && match known.kind {
            EntryKind::File => known.size == node.size,
            EntryKind::Symlink => known.target == node.target,
            _ => true,
        }
}

/// Records the versions of the paths that an operation of the history touched.
pub(super) fn record_observed_versions(
    session: MetadataSession<'_>,
    workspace: i64,
    seen: &[ObservedEntry],
) -> Result<()> {
    seen.iter().try_for_each(|one| {
        let token = one.known.as_ref().and_then(|known| known.token.as_deref());
        session.outside_files().set_seen_version(workspace, &one.path, token)
    })
}

fn ingest_found(
    session: MetadataSession<'_>,
    changing: ChangeBuilder<'_>,
    found: FoundChange,
    ids: &dyn Ids,
) -> Result<MismatchedPaths> {
    let workspace = changing.workspace();
    let mut changing = changing.with_time(found.by.at);
    let mut misfits = MismatchedPaths::new();
    let mut above = None;
    for entry in &found.entries {
        // The entries are sorted, so most are in the directory of the previous one.
        let directory = entry
            .path
            .iter()
            .rposition(|byte| *byte == b'/')
            .map(|slash| &entry.path[..slash]);
        let fits = entry.thing.is_none() || above == Some(directory) || is_in_directory(&changing, &entry.path)?;
        let thing = entry.thing.as_ref().filter(|_| fits);
        session.outside_files().set_seen_version(
            workspace,
            &entry.path,
            thing.and_then(|thing| thing.known.token.as_deref()),
        )?;
        if !fits {
            misfits.push(entry.path.clone());
            continue;
        }
        changing.record_found_entry(entry)?;
        above = entry.thing.as_ref().map(|_| directory);
    }
    let before = changing.seq() - 1;
    let seq = changing.finish_as(found.kind, to_author(found.by, ids))?;
    if found.is_whole && misfits.is_empty() {
        session
            .outside_files()
            .set_complete_since(workspace, seq.unwrap_or(before))?;
    }
    Ok(misfits)
}

impl ChangeBuilder<'_> {
    /// Returns the content of a record, prepared so that an entry can refer to it.
    fn prepare_record_content(&self, held: &RecordContent) -> Result<PreparedContent> {
        match held {
            RecordContent::Inline(bytes) => self.prepare_content(bytes),
            RecordContent::Stored { address, size } => {
                if self.refer_to_content(*address)? {
                    Ok(PreparedContent::already_stored(*address, *size))
                } else {
                    Err(damaged_content("the content is missing from the home"))
                }
            }
        }
    }

    /// Returns the content of a record for a trial run. Content that is missing from the depot is not an error here;
    /// the caller checks it before it needs it.
    fn prepare_unchecked_content(&self, held: &RecordContent) -> Result<PreparedContent> {
        match held {
            RecordContent::Inline(bytes) => self.prepare_content(bytes),
            RecordContent::Stored { address, size } => Ok(PreparedContent::already_stored(*address, *size)),
        }
    }

    /// Records the entry that was found at a path, unless the tree has it already.
    fn record_found_entry(&mut self, entry: &FoundEntry) -> Result<()> {
        let path = entry.path.as_slice();
        let before = self.tree.node(path)?;
        let after = entry
            .thing
            .as_ref()
            .map(|thing| self.build_node(&thing.known, thing.content.as_ref()))
            .transpose()?;
        let is_same = match (&before, &after) {
            (Some(before), Some(after)) => before.is_same(after),
            (None, None) => true,
            _ => false,
        };
        if is_same {
            return Ok(());
        }
        let was_directory = before
            .as_ref()
            .is_some_and(|before| before.kind == EntryKind::Directory);
        let is_directory = after.as_ref().is_some_and(|after| after.kind == EntryKind::Directory);
        if was_directory && !is_directory {
            for (below, _) in self.tree.scan_below(path).collect()? {
                self.set_entry(&below, None)?;
            }
        }
        let created = before.map(|before| before.created);
        let after = after.map(|after| EntryNode {
            created: created.unwrap_or(after.created),
            ..after
        });
        self.set_entry(path, after)
    }

    fn build_node(&mut self, known: &KnownEntry, content: Option<&RecordContent>) -> Result<EntryNode> {
        let content = match content {
            Some(held) => {
                let prepared = self.prepare_record_content(held)?;
                self.record_content(&prepared)?;
                Some(prepared)
            }
            None if known.kind == EntryKind::File => {
                return Err(damaged_content("a file was found without its content"));
            }
            None => None,
        };
        Ok(EntryNode {
            kind: known.kind,
            mode: known.mode,
            size: content.as_ref().map_or(known.size, |content| content.size),
            content: content.map(|content| content.address),
            target: known.target.clone(),
            created: self.now(),
            modified: self.now(),
        })
    }
}
