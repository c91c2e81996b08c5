//! Taking in a workspace from a portable file: verified first, then put down out of everybody's sight, then shown.

use std::collections::HashSet;
use std::io::{Read, Seek, SeekFrom};

use bytes::Bytes;
use futures::executor::block_on;
use garret_core::{Durability, EntryKind, Error, ErrorKind, Result};
use serde::Serialize;

use super::contents::Contents;
use super::file::{End, FileEntry, Manifest, damaged, read, read_manifest};
use super::records::{Record, path_of};
use super::{Progress, Watch};
use crate::content::{Address, PlainPiece, Prepared};
use crate::depot::{Depot, NewWorkspace, check_free, check_name};
use crate::history::check_label;
use crate::metadata::{EntryRow, Held, Level, Listed, Oldest, Session, SnapshotRow, WorkspaceRow, stored_time};
use crate::workspace::DepotWorkspace;

/// Bytes of content that wait for one transaction.
const GROUP_BYTES: usize = 4 << 20;
/// Pieces that wait for one transaction.
const GROUP: usize = 500;

/// No journal is longer: the numbers after it must not run out.
const LAST: i64 = i64::MAX / 2;

/// What was imported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Imported {
    /// The id of the new workspace.
    pub id: String,
    /// Changes.
    pub changes: u64,
    /// Entries, at every point.
    pub entries: u64,
    /// Bytes of content.
    pub bytes: u64,
}

impl Depot {
    /// What a portable file says of itself, without verifying the rest. `source` is read from where it stands.
    pub fn manifest(source: impl Read) -> Result<Manifest> {
        read_manifest(source)
    }

    /// Takes in the workspace that [`DepotWorkspace::export`] wrote, as a new one with an id of its own. The whole file is verified before
    /// anything is put down; one that is cut short or damaged is `corrupt`, one of a newer Garret `unsupported`, and nothing is left
    /// behind. Changes keep their ids where those are free.
    pub async fn import(
        &self,
        new: NewWorkspace,
        mut source: impl Read + Seek + Send,
        watch: Watch<'_>,
    ) -> Result<(DepotWorkspace, Imported)> {
        self.check_new(&new)?;
        let start = source.stream_position().map_err(|_| unread())?;
        let (manifest, end) = verify(&mut source)?;
        source.seek(SeekFrom::Start(start)).map_err(|_| unread())?;
        let row = self.begin_import(&new).await?;
        let importing = Importing {
            depot: self,
            workspace: row.id,
            imported: Imported {
                id: row.uid.clone(),
                changes: 0,
                entries: 0,
                bytes: 0,
            },
            total: end.bytes,
            waiting: Vec::new(),
            waiting_bytes: 0,
            watch,
        };
        // On a thread of its own, which may wait for the writer whatever runs this.
        let taken = std::thread::scope(|scope| {
            let taking = scope.spawn(|| importing.take_in(&mut source));
            taking.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        let done = match taken {
            Ok(imported) => self.finish_import(&row, new.name, &manifest).await.map(|()| imported),
            Err(error) => Err(error),
        };
        match done {
            Ok(imported) => Ok((self.handle(&row), imported)),
            Err(error) => {
                self.remove_hidden(row.id).await?;
                Err(error)
            }
        }
    }

    /// Refuses a name that cannot be, before anything is read.
    pub(crate) fn check_new(&self, new: &NewWorkspace) -> Result<()> {
        let Some(name) = &new.name else { return Ok(()) };
        check_name(name)?;
        self.shared.database.read(|session| check_free(session, Some(name)))
    }

    /// Adds a workspace that nobody sees yet.
    pub(crate) async fn begin_import(&self, new: &NewWorkspace) -> Result<WorkspaceRow> {
        let now = stored_time(self.shared.clock.now());
        let row = WorkspaceRow {
            id: 0,
            uid: self.shared.ids.next(),
            name: None,
            kind: new.kind.clone(),
            config: new.config.to_string(),
            fork: None,
            is_flat: false,
            head: 0,
            created: now,
            deleted: None,
        };
        let add = move |session: Session<'_>| {
            let id = session.add_workspace(&row)?;
            session.hide(id, false, now)?;
            Ok(WorkspaceRow { id, ..row })
        };
        self.shared.writer.write(self.shared.options.durability, add).await
    }

    /// Looks over what was put down, and shows it.
    async fn finish_import(&self, row: &WorkspaceRow, name: Option<String>, manifest: &Manifest) -> Result<()> {
        let (id, head) = (row.id, manifest.head);
        let oldest = Oldest {
            seq: manifest.oldest,
            at: manifest.oldest_at,
        };
        let settle = move |session: Session<'_>| {
            session.set_head(id, head)?;
            session.set_oldest(id, oldest)
        };
        self.shared.writer.write(self.shared.options.durability, settle).await?;
        if !self.is_whole(row.id)? || !self.had_directories(row.id)? {
            return Err(damaged("its entries are inconsistent"));
        }
        self.show(id, name).await
    }

    /// Lets others see what was imported, under its name.
    pub(crate) async fn show(&self, id: i64, name: Option<String>) -> Result<()> {
        let show = move |session: Session<'_>| {
            check_free(session, name.as_deref())?;
            if !session.unhide(id)? {
                return Err(
                    Error::new(ErrorKind::Unavailable, "the unfinished import was collected as garbage")
                        .hint("import again, and collect garbage with a longer grace period"),
                );
            }
            session.set_name(id, name.as_deref())
        };
        // Durable: a workspace that is there is there whole.
        self.shared.writer.write(Durability::Full, show).await
    }
}

impl Depot {
    /// Whether nothing was ever inside a file or a link.
    fn had_directories(&self, workspace: i64) -> Result<bool> {
        let mut after = (Vec::new(), -1);
        let mut above = Above::default();
        loop {
            let (rows, is_fine) = self.shared.database.read(|session| {
                let rows = session.rows_after(workspace, (&after.0, after.1), GROUP)?;
                let mut is_fine = true;
                for row in &rows {
                    is_fine &= above.of(session, workspace, &row.path)?.holds(row);
                }
                Ok((rows, is_fine))
            })?;
            match rows.into_iter().last() {
                Some(last) if is_fine => after = (last.path, last.since),
                _ => return Ok(is_fine),
            }
        }
    }
}

/// When the path above an entry was something that holds nothing. Kept from one entry to the next, which is often its neighbour.
#[derive(Default)]
struct Above {
    path: Vec<u8>,
    filled: Vec<(i64, i64)>,
}

impl Above {
    fn of(&mut self, session: Session<'_>, workspace: i64, path: &[u8]) -> Result<&Self> {
        let slash = path.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
        if self.path != path[..slash] {
            let history = match slash {
                0 => Vec::new(),
                _ => session.entry_history(workspace, &path[..slash], i64::MAX)?,
            };
            let is_filled = |held: &Held| matches!(held, Held::Node(node) if node.kind != EntryKind::Directory);
            let filled = history.into_iter().filter(|(_, _, held)| is_filled(held));
            self.filled = filled.map(|(since, until, _)| (since, until)).collect();
            self.path = path[..slash].to_vec();
        }
        Ok(self)
    }

    fn holds(&self, row: &EntryRow) -> bool {
        let overlaps = |(since, until): &(i64, i64)| *since < row.until && row.since < *until;
        !self.filled.iter().any(overlaps)
    }
}

/// Reads all of a file and checks that everything in it fits together.
fn verify(source: &mut (impl Read + Seek)) -> Result<(Manifest, End)> {
    let mut found = Found::default();
    let (manifest, end) = read(source, |_| Ok(()), |entry| found.add(&entry))?;
    let counts = (found.records, found.pieces, found.bytes);
    if counts != (end.records, end.pieces, end.bytes) {
        return Err(damaged("its content does not match its end record"));
    }
    found.contents.check()?;
    let fits = (0..=manifest.head).contains(&manifest.oldest) && manifest.head <= LAST;
    let numbered = |number: &i64| (manifest.oldest + 1..=manifest.head).contains(number);
    let has_all =
        || found.changes.iter().all(numbered) && found.changes.len() as i64 == manifest.head - manifest.oldest;
    match fits && has_all() && found.earliest >= 0 && found.newest <= manifest.head {
        true => Ok((manifest, end)),
        false => Err(damaged("its journal has gaps")),
    }
}

/// What a look through a file found.
#[derive(Default)]
struct Found {
    records: u64,
    pieces: u64,
    bytes: u64,
    changes: HashSet<i64>,
    labels: HashSet<String>,
    /// The first and the last change that a record speaks of.
    earliest: i64,
    newest: i64,
    /// Moves by their change and step, and reversals by their change and target.
    moves: HashSet<(i64, i64)>,
    reversals: HashSet<(i64, i64)>,
    contents: Contents,
}

impl Found {
    fn add(&mut self, entry: &FileEntry) -> Result<()> {
        if entry.name.starts_with("journal/") {
            return records(entry)?
                .into_iter()
                .try_for_each(|record| self.add_record(record));
        }
        let piece = piece(entry)?
            .verified()
            .map_err(|_| damaged("a piece of content does not match its hash"))?;
        self.pieces += 1;
        self.bytes += piece.bytes.len() as u64;
        self.contents.add(&piece)
    }

    fn add_record(&mut self, record: Record) -> Result<()> {
        self.records += 1;
        match record {
            Record::Change(change) => {
                if !self.changes.insert(change.number) {
                    return Err(damaged("a change occurs twice"));
                }
                self.speak_of(change.undone_by.unwrap_or(change.number));
                change.row(0).map(|_| ())
            }
            Record::Entry(entry) => {
                self.speak_of(entry.since);
                self.speak_of(entry.until.unwrap_or(entry.since));
                let (_, node) = entry.entry()?;
                match node.content {
                    Some(address) => self.contents.want(address, node.size),
                    None => Ok(()),
                }
            }
            Record::Move { change, step, from, to } => {
                self.speak_of(change);
                if !self.moves.insert((change, step)) {
                    return Err(damaged("a move occurs twice"));
                }
                path_of(&from).and_then(|_| path_of(&to)).map(|_| ())
            }
            Record::Snapshot { change, label, .. } => {
                self.speak_of(change);
                check_label(&label).map_err(|_| damaged("the label of a snapshot is not valid"))?;
                match self.labels.insert(label) {
                    true => Ok(()),
                    false => Err(damaged("two snapshots have the same label")),
                }
            }
            Record::Reversal { change, target } => {
                self.speak_of(change);
                self.speak_of(target);
                if !self.reversals.insert((change, target)) {
                    return Err(damaged("a reversal occurs twice"));
                }
                match target < change {
                    true => Ok(()),
                    false => Err(damaged("a change reverses a later one")),
                }
            }
        }
    }

    fn speak_of(&mut self, number: i64) {
        self.earliest = self.earliest.min(number);
        self.newest = self.newest.max(number);
    }
}

/// An import under way.
struct Importing<'i> {
    depot: &'i Depot,
    workspace: i64,
    imported: Imported,
    total: u64,
    waiting: Vec<Prepared>,
    waiting_bytes: usize,
    watch: Watch<'i>,
}

impl Importing<'_> {
    fn take_in(mut self, source: &mut (impl Read + Seek)) -> Result<Imported> {
        read(source, |_| Ok(()), |entry| self.take(entry))?;
        self.flush()?;
        Ok(self.imported)
    }

    fn take(&mut self, entry: FileEntry) -> Result<()> {
        match entry.name.starts_with("journal/") {
            true => self.put_records(records(&entry)?),
            false => self.put_piece(piece(&entry)?),
        }
    }

    fn put_records(&mut self, records: Vec<Record>) -> Result<()> {
        let (workspace, ids) = (self.workspace, self.depot.shared.ids.clone());
        for record in &records {
            match record {
                Record::Change(_) => self.imported.changes += 1,
                Record::Entry(_) => self.imported.entries += 1,
                _ => {}
            }
        }
        self.write(move |session| {
            records
                .into_iter()
                .try_for_each(|record| put_record(session, workspace, record, &*ids))
        })
    }

    /// Brings the blob of a piece into place; its row waits for others.
    fn put_piece(&mut self, piece: PlainPiece) -> Result<()> {
        let shared = &self.depot.shared;
        let length = piece.bytes.len();
        let prepared = block_on(
            shared
                .content
                .prepare_piece(&shared.database, piece, shared.options.durability),
        )?;
        self.waiting.push(prepared);
        self.waiting_bytes += length;
        self.imported.bytes += length as u64;
        (self.watch)(Progress {
            files: self.imported.entries,
            bytes: self.imported.bytes,
            total: Some(self.total),
        });
        match self.waiting_bytes >= GROUP_BYTES || self.waiting.len() >= GROUP {
            true => self.flush(),
            false => Ok(()),
        }
    }

    fn flush(&mut self) -> Result<()> {
        self.waiting_bytes = 0;
        let (waiting, shared) = (std::mem::take(&mut self.waiting), self.depot.shared.clone());
        self.write(move |session| {
            waiting
                .iter()
                .try_for_each(|prepared| shared.content.record(session, prepared))
        })
    }

    fn write(&self, work: impl FnOnce(Session<'_>) -> Result<()> + Send + 'static) -> Result<()> {
        let shared = &self.depot.shared;
        block_on(shared.writer.write(shared.options.durability, work))
    }
}

fn put_record(session: Session<'_>, workspace: i64, record: Record, ids: &dyn garret_core::Ids) -> Result<()> {
    match record {
        Record::Change(change) => {
            let mut row = change.row(workspace)?;
            if session.change_by_id(&row.id)?.is_some() {
                row.id = ids.next();
            }
            session.add_change(&row, &Listed::default())?;
            session.set_undone_by(workspace, row.seq, row.undone_by)
        }
        Record::Entry(entry) => {
            let valid = (entry.since, entry.until.unwrap_or(i64::MAX));
            let (path, node) = entry.entry()?;
            session.insert_entry(workspace, &path, valid, &Held::Node(node))
        }
        Record::Move { change, step, from, to } => {
            session.add_move((workspace, change), step, &path_of(&from)?, &path_of(&to)?)
        }
        Record::Reversal { change, target } => session.add_reversal(workspace, change, target),
        Record::Snapshot {
            label,
            change,
            at,
            lazy,
        } => {
            let point = Level { workspace, at: change };
            let row = SnapshotRow {
                label,
                point,
                at,
                is_lazy: lazy,
            };
            session.add_snapshot(workspace, &row)
        }
    }
}

fn records(entry: &FileEntry) -> Result<Vec<Record>> {
    let lines = entry.bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let record = |line| serde_json::from_slice(line).map_err(|_| damaged("a record of its journal is not valid"));
    lines.map(record).collect()
}

fn piece(entry: &FileEntry) -> Result<PlainPiece> {
    let (folder, digits) = entry.name.split_once('/').unwrap_or_default();
    let address = Address::from_hex(digits);
    match (folder, address) {
        ("content" | "lists", Some(address)) => Ok(PlainPiece {
            address,
            is_list: folder == "lists",
            bytes: Bytes::copy_from_slice(&entry.bytes),
        }),
        _ => Err(damaged("it has an entry of an unknown kind")),
    }
}

fn unread() -> Error {
    Error::new(ErrorKind::Unavailable, "the file to import cannot be read").hint("check that it is a plain file")
}
