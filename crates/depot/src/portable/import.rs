//! Imports a workspace from a portable file: the file is verified first, then stored in a hidden workspace, which is
//! then shown.

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

/// Bytes of content that are gathered for one transaction.
const GROUP_BYTES: usize = 4 << 20;
/// Number of pieces that are gathered for one transaction.
const GROUP: usize = 500;

/// The last change number of the longest journal that is accepted, so that later numbers do not run out.
const LAST: i64 = i64::MAX / 2;

/// The counts of an import.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Imported {
    /// The id of the new workspace.
    pub id: String,
    /// Number of changes.
    pub changes: u64,
    /// Number of entries, at every point.
    pub entries: u64,
    /// Bytes of content.
    pub bytes: u64,
}

impl Depot {
    /// Reads the manifest of a portable file, without verifying the rest. `source` is read from its present position.
    pub fn manifest(source: impl Read) -> Result<Manifest> {
        read_manifest(source)
    }

    /// Imports the workspace that [`DepotWorkspace::export`] wrote, as a new one with its own id. The whole file is
    /// verified before anything is stored; a file that is truncated or damaged is `corrupt`, one of a newer Garret
    /// `unsupported`, and nothing is left behind. Changes keep their ids if these are free.
    pub async fn import(
        &self,
        new: NewWorkspace,
        mut source: impl Read + Seek + Send,
        watch: Watch<'_>,
    ) -> Result<(DepotWorkspace, Imported)> {
        self.check_new(&new)?;
        let start = source.stream_position().map_err(|_| unread())?;
        let (manifest, end) = verify(&mut source)?;
        // Verified completely; the second pass reads the same bytes from the start.
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
        // A separate thread may block on the writer, whatever runtime runs this future.
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

    /// Refuses an invalid or taken name before anything is read.
    pub(crate) fn check_new(&self, new: &NewWorkspace) -> Result<()> {
        let Some(name) = &new.name else { return Ok(()) };
        check_name(name)?;
        self.shared.database.read(|session| check_free(session, Some(name)))
    }

    /// Adds a hidden workspace.
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
            // Hidden in the same transaction, so that nobody ever sees a partial workspace.
            session.hide(id, false, now)?;
            Ok(WorkspaceRow { id, ..row })
        };
        self.shared.writer.write(self.shared.options.durability, add).await
    }

    /// Checks the stored entries, and shows the workspace.
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
        // Each record is valid by itself; together they may still describe a tree that cannot exist.
        if !self.is_whole(row.id)? || !self.had_directories(row.id)? {
            return Err(damaged("its entries are inconsistent"));
        }
        self.show(id, name).await
    }

    /// Shows an imported workspace under its name.
    pub(crate) async fn show(&self, id: i64, name: Option<String>) -> Result<()> {
        let show = move |session: Session<'_>| {
            check_free(session, name.as_deref())?;
            // Garbage collection removes hidden workspaces after a grace period.
            if !session.unhide(id)? {
                return Err(
                    Error::new(ErrorKind::Unavailable, "the unfinished import was collected as garbage")
                        .hint("import again, and collect garbage with a longer grace period"),
                );
            }
            session.set_name(id, name.as_deref())
        };
        // Always durable: a workspace that is shown must be complete, even after a power loss.
        self.shared.writer.write(Durability::Full, show).await
    }
}

impl Depot {
    /// Returns whether no entry was ever inside a file or a link.
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

/// The times at which the path above an entry was a file or a link. Kept from one entry to the next, which is often its
/// neighbour.
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

/// Reads all of a file and checks that its parts are consistent.
fn verify(source: &mut (impl Read + Seek)) -> Result<(Manifest, End)> {
    let mut found = Found::default();
    let (manifest, end) = read(source, |_| Ok(()), |entry| found.add(&entry))?;
    let counts = (found.records, found.pieces, found.bytes);
    if counts != (end.records, end.pieces, end.bytes) {
        return Err(damaged("its content does not match its end record"));
    }
    found.contents.check()?;
    // The records were checked one by one; the numbers of the changes must also be complete and in range.
    let fits = (0..=manifest.head).contains(&manifest.oldest) && manifest.head <= LAST;
    let numbered = |number: &i64| (manifest.oldest + 1..=manifest.head).contains(number);
    let has_all =
        || found.changes.iter().all(numbered) && found.changes.len() as i64 == manifest.head - manifest.oldest;
    if fits && has_all() && found.earliest >= 0 && found.newest <= manifest.head {
        Ok((manifest, end))
    } else {
        Err(damaged("its journal has gaps"))
    }
}

/// The totals and numbers that were found in a file.
#[derive(Default)]
struct Found {
    records: u64,
    pieces: u64,
    bytes: u64,
    changes: HashSet<i64>,
    labels: HashSet<String>,
    /// The first and the last change that a record refers to.
    earliest: i64,
    newest: i64,
    /// Moves by change and step, and reversals by change and target.
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
                if self.labels.insert(label) {
                    Ok(())
                } else {
                    Err(damaged("two snapshots have the same label"))
                }
            }
            Record::Reversal { change, target } => {
                self.speak_of(change);
                self.speak_of(target);
                if !self.reversals.insert((change, target)) {
                    return Err(damaged("a reversal occurs twice"));
                }
                if target < change {
                    Ok(())
                } else {
                    Err(damaged("a change reverses a later one"))
                }
            }
        }
    }

    fn speak_of(&mut self, number: i64) {
        self.earliest = self.earliest.min(number);
        self.newest = self.newest.max(number);
    }
}

/// An import in progress.
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
        if entry.name.starts_with("journal/") {
            self.put_records(records(&entry)?)
        } else {
            self.put_piece(piece(&entry)?)
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

    /// Stores the blob of a piece; its row is written later, together with others.
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
        if self.waiting_bytes >= GROUP_BYTES || self.waiting.len() >= GROUP {
            self.flush()
        } else {
            Ok(())
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
            // The same file may be imported twice, and ids are unique in a depot.
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
