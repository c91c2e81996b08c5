//! Records on their way from the log into the journal: many in one transaction, each at most once.
//!
//! A batch is done again on the depot's tree, which knows what the paths were before because that was recorded first. What the storage
//! made of it (modes that the system chose, versions) comes from the record that closed it.
//!
//! Where other programs were at work in the middle of a change, what it left is not what the tree says. Such paths are given back: whoever
//! has the lock forgets what it remembers of them, looks again, and so records what others did as theirs.

use std::sync::Arc;

use futures::executor::block_on;
use garret_core::{ChangeKind, EntryKind, Error, ErrorKind, Follow, Ids, Mutation, PathChange, Result};

use super::record::{Authorship, Found, FoundEntry, Held, Intent, Known, LoggedStep, Record, Seen, Work};
use crate::change::{Author, Changing, Step};
use crate::content::Prepared;
use crate::depot::Shared;
use crate::error::{damaged, is_failure};
use crate::metadata::{Node, Session};
use crate::workspace::DepotWorkspace;
use garret_core::Durability;

/// Records in one transaction, so that other writers wait only for that.
const CHUNK: usize = 256;

/// Paths at which the journal is not what the storage was seen to be.
pub(super) type Misfits = Vec<Vec<u8>>;

/// What is ready for the journal.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Ready {
    /// A change that was made, with what it left.
    Made(Intent, Vec<Seen>),
    /// What was found.
    Found(Found),
}

impl Ready {
    fn id(&self) -> u64 {
        match self {
            Self::Made(intent, _) => intent.id,
            Self::Found(found) => found.id,
        }
    }
}

/// The records of a log, sorted out.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Sorted {
    pub(super) ready: Vec<Ready>,
    /// An intent of which nobody knows what became.
    pub(super) open: Option<Intent>,
    /// The number of the newest record.
    pub(super) last: u64,
}

/// Brings intents and what became of them together.
pub(super) fn sorted(records: Vec<Record>) -> Sorted {
    let mut sorted = Sorted::default();
    for record in records {
        match record {
            Record::Intent(intent) => {
                sorted.last = sorted.last.max(intent.id);
                sorted.open = Some(intent);
            }
            Record::Found(found) => {
                sorted.last = sorted.last.max(found.id);
                sorted.ready.push(Ready::Found(found));
            }
            Record::Closed { id, seen } => {
                if let Some(intent) = sorted.open.take_if(|open| open.id == id) {
                    sorted.ready.push(Ready::Made(intent, seen));
                }
            }
            Record::Aborted { id } => {
                sorted.open.take_if(|open| open.id == id);
            }
        }
    }
    sorted
}

/// The newest record that is in the journal.
pub(super) fn ingested(room: &DepotWorkspace) -> Result<u64> {
    let row = room.shared().database.read(|session| session.journal(room.number))?;
    Ok(row.map_or(0, |row| row.ingested.unsigned_abs()))
}

/// Puts what is ready into the journal, in order; what is there already is passed by. Gives what does not fit.
pub(super) async fn ingest(room: &DepotWorkspace, ready: Vec<Ready>) -> Result<Misfits> {
    let mut misfits = Misfits::new();
    if ready.is_empty() {
        return Ok(misfits);
    }
    let ingested = ingested(room)?;
    let mut ready = ready.into_iter().filter(|one| one.id() > ingested).peekable();
    while ready.peek().is_some() {
        let chunk: Vec<_> = ready.by_ref().take(CHUNK).collect();
        let (shared, number, durability) = (room.shared().clone(), room.number, room.durability);
        let work = move |session: Session<'_>| ingest_chunk(session, &shared, number, durability, chunk);
        misfits.extend(room.shared().writer.write(durability, work).await?);
    }
    Ok(misfits)
}

/// The same for a thread that drives no futures.
pub(super) fn ingest_blocking(room: &DepotWorkspace, ready: Vec<Ready>) -> Result<Misfits> {
    block_on(ingest(room, ready))
}

fn ingest_chunk(
    session: Session<'_>,
    shared: &Shared,
    workspace: i64,
    durability: Durability,
    chunk: Vec<Ready>,
) -> Result<Misfits> {
    let row = session.journal(workspace)?;
    let ingested = row.map_or(0, |row| row.ingested.unsigned_abs());
    let mut last = ingested;
    let mut misfits = Misfits::new();
    for one in chunk.into_iter().filter(|one| one.id() > ingested) {
        last = one.id();
        let changing = Changing::begin(session, shared, workspace, durability)?;
        misfits.extend(match one {
            Ready::Found(found) => ingest_found(session, changing, found, &*shared.ids)?,
            Ready::Made(intent, seen) => ingest_made(session, changing, intent, &seen, &*shared.ids)?,
        });
    }
    session.set_ingested(workspace, last as i64)?;
    Ok(misfits)
}

fn ingest_made(
    session: Session<'_>,
    changing: Changing<'_>,
    intent: Intent,
    seen: &[Seen],
    ids: &dyn Ids,
) -> Result<Misfits> {
    let Work::Batch { follow, steps } = intent.work else {
        return Err(damaged("an operation of the history was closed by a record"));
    };
    if let Some(written) = plain_write(&steps, seen)
        && is_in_directory(&changing, &written.0.path)?
    {
        let before = changing.tree.node(&written.0.path)?;
        if before.as_ref().is_none_or(|before| before.kind != EntryKind::Directory) {
            let changing = changing.made_at(intent.by.at);
            ingest_write(session, changing, author(intent.by, ids), written, before)?;
            return Ok(Misfits::new());
        }
    }
    let workspace = changing.workspace();
    let made = session.attempt(|| {
        let mut changing = changing.made_at(intent.by.at);
        run_steps(&mut changing, &steps, follow, Changing::holding)?;
        let mut misfits = Misfits::new();
        for one in seen {
            if !correct(&mut changing, one)? {
                misfits.push(one.path.clone());
            }
        }
        changing.finish_as(ChangeKind::Change, author(intent.by, ids))?;
        Ok(misfits)
    });
    match made {
        Err(error) if is_refusal(&error) => {
            // The tree was not what the storage was: other programs raced the change, and what is there now is theirs as much as ours.
            for one in seen {
                session.set_seen(workspace, &one.path, None)?;
            }
            Ok(seen.iter().map(|one| one.path.clone()).collect())
        }
        made => made,
    }
}

fn is_in_directory(changing: &Changing<'_>, path: &[u8]) -> Result<bool> {
    let Some(slash) = path.iter().rposition(|byte| *byte == b'/') else {
        return Ok(true);
    };
    let above = changing.tree.node(&path[..slash])?;
    Ok(above.is_some_and(|above| above.kind == EntryKind::Directory))
}

/// The one file that a change wrote and nothing else, with its content: what most changes are.
fn plain_write<'a>(steps: &'a [LoggedStep], seen: &'a [Seen]) -> Option<(&'a Seen, &'a Known, &'a Held)> {
    let ([step], [seen]) = (steps, seen) else { return None };
    let (Mutation::Write { path, .. }, Some(held)) = (&step.mutation, &step.content) else {
        return None;
    };
    let known = seen.known.as_ref().filter(|known| known.kind == EntryKind::File)?;
    (path.as_str().as_bytes() == seen.path).then_some((seen, known, held))
}

/// Puts down a file that was written where its directory was known, without walking the tree for it.
fn ingest_write(
    session: Session<'_>,
    mut changing: Changing<'_>,
    by: Author,
    (seen, known, held): (&Seen, &Known, &Held),
    before: Option<Node>,
) -> Result<()> {
    let node = changing.node_of(known, Some(held))?;
    let created = before.map_or(node.created, |before| before.created);
    let token = known.token.as_deref().filter(|_| known.size == node.size);
    session.set_seen(changing.workspace(), &seen.path, token)?;
    changing.set(&seen.path, Some(Node { created, ..node }))?;
    changing.finish_as(ChangeKind::Change, by).map(|_| ())
}

/// Does the steps of a batch on the depot's tree; `hold` finds their content.
fn run_steps<'c>(
    changing: &mut Changing<'c>,
    steps: &[LoggedStep],
    follow: Follow,
    hold: fn(&Changing<'c>, &Held) -> Result<Prepared>,
) -> Result<()> {
    for step in steps {
        let content = step.content.as_ref().map(|held| hold(changing, held)).transpose()?;
        let mutation = step.mutation.clone();
        changing.step(Step { mutation, content }, follow)?;
    }
    Ok(())
}

/// What a batch would do to each path, were it done.
pub(super) async fn foreseen(room: &DepotWorkspace, steps: Vec<LoggedStep>, follow: Follow) -> Result<Vec<PathChange>> {
    let (shared, number, durability) = (room.shared().clone(), room.number, room.durability);
    let paths = Arc::new(std::sync::Mutex::new(Vec::new()));
    let told = paths.clone();
    let work = move |session: Session<'_>| {
        let mut changing = Changing::begin(session, &shared, number, durability)?;
        run_steps(&mut changing, &steps, follow, Changing::holding_or_lost)?;
        *told.lock().expect("no holder panics") = changing.paths()?;
        Err::<(), _>(only_looking())
    };
    match room.shared().writer.write(durability, work).await {
        Err(error) if is_only_looking(&error) => Ok(std::mem::take(&mut *paths.lock().expect("no holder panics"))),
        Err(error) => Err(error),
        Ok(()) => Ok(Vec::new()),
    }
}

const ONLY_LOOKING: &str = "this was a trial run";

/// The refusal of whoever only wants to know what a change would do.
pub(super) fn only_looking() -> Error {
    Error::new(ErrorKind::Internal, ONLY_LOOKING)
}

pub(super) fn is_only_looking(error: &Error) -> bool {
    error.kind() == ErrorKind::Internal && error.message() == ONLY_LOOKING
}

/// Whether the tree refuses, rather than the disk.
fn is_refusal(error: &Error) -> bool {
    !is_failure(error) && !matches!(error.kind(), ErrorKind::Internal | ErrorKind::Corrupt)
}

fn author(by: Authorship, ids: &dyn Ids) -> Author {
    Author {
        id: if by.change.is_empty() { ids.next() } else { by.change },
        operation: by.operation,
        summary: by.summary,
        actor: by.actor,
    }
}

/// Takes over what the storage made of a path: the mode, and its own version. Tells whether the rest is as the tree has it.
fn correct(changing: &mut Changing<'_>, seen: &Seen) -> Result<bool> {
    let session = changing.tree.session();
    let (workspace, path) = (changing.workspace(), seen.path.as_slice());
    let node = changing.tree.node(path)?;
    let (token, fits) = match (&seen.known, node) {
        (Some(known), Some(node)) if is_alike(known, &node) => {
            if node.kind != EntryKind::Symlink && node.mode != known.mode {
                let mode = known.mode;
                changing.set(path, Some(Node { mode, ..node }))?;
            }
            (known.token.as_deref(), true)
        }
        (known, node) => (None, known.is_none() && node.is_none()),
    };
    session.set_seen(workspace, path, token)?;
    Ok(fits)
}

fn is_alike(known: &Known, node: &Node) -> bool {
    known.kind == node.kind
        && match known.kind {
            EntryKind::File => known.size == node.size,
            EntryKind::Symlink => known.target == node.target,
            _ => true,
        }
}

/// Notes what the storage says of the paths that an operation of the history touched.
pub(super) fn note_seen(session: Session<'_>, workspace: i64, seen: &[Seen]) -> Result<()> {
    seen.iter().try_for_each(|one| {
        let token = one.known.as_ref().and_then(|known| known.token.as_deref());
        session.set_seen(workspace, &one.path, token)
    })
}

fn ingest_found(session: Session<'_>, changing: Changing<'_>, found: Found, ids: &dyn Ids) -> Result<Misfits> {
    let workspace = changing.workspace();
    let mut changing = changing.made_at(found.by.at);
    let mut misfits = Misfits::new();
    let mut above = None;
    for entry in &found.entries {
        // They come in order, so most have the directory of the one before.
        let directory = entry
            .path
            .iter()
            .rposition(|byte| *byte == b'/')
            .map(|slash| &entry.path[..slash]);
        let fits = entry.thing.is_none() || above == Some(directory) || is_in_directory(&changing, &entry.path)?;
        let thing = entry.thing.as_ref().filter(|_| fits);
        session.set_seen(
            workspace,
            &entry.path,
            thing.and_then(|thing| thing.known.token.as_deref()),
        )?;
        if !fits {
            misfits.push(entry.path.clone());
            continue;
        }
        changing.found(entry)?;
        above = entry.thing.as_ref().map(|_| directory);
    }
    let before = changing.seq() - 1;
    let seq = changing.finish_as(found.kind, author(found.by, ids))?;
    if found.is_whole && misfits.is_empty() {
        session.set_whole(workspace, seq.unwrap_or(before))?;
    }
    Ok(misfits)
}

impl Changing<'_> {
    /// The content of a record, ready to be referred to.
    fn holding(&self, held: &Held) -> Result<Prepared> {
        match held {
            Held::Inline(bytes) => self.prepare(bytes),
            Held::Stored { address, size } => match self.refer(*address)? {
                true => Ok(Prepared::stored(*address, *size)),
                false => Err(damaged("the content is missing from the home")),
            },
        }
    }

    /// The same for a look at what would be: content that is lost is found out by whoever needs it.
    fn holding_or_lost(&self, held: &Held) -> Result<Prepared> {
        match held {
            Held::Inline(bytes) => self.prepare(bytes),
            Held::Stored { address, size } => Ok(Prepared::stored(*address, *size)),
        }
    }

    /// Puts down what was found at a path, unless it is what is known.
    fn found(&mut self, entry: &FoundEntry) -> Result<()> {
        let path = entry.path.as_slice();
        let before = self.tree.node(path)?;
        let after = entry
            .thing
            .as_ref()
            .map(|thing| self.node_of(&thing.known, thing.content.as_ref()))
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
            for (below, _) in self.tree.below(path).collect()? {
                self.set(&below, None)?;
            }
        }
        let created = before.map(|before| before.created);
        let after = after.map(|after| Node {
            created: created.unwrap_or(after.created),
            ..after
        });
        self.set(path, after)
    }

    fn node_of(&mut self, known: &Known, content: Option<&Held>) -> Result<Node> {
        let content = match content {
            Some(held) => {
                let prepared = self.holding(held)?;
                self.record(&prepared)?;
                Some(prepared)
            }
            None if known.kind == EntryKind::File => return Err(damaged("a file was found without its content")),
            None => None,
        };
        Ok(Node {
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
