//! Imports a workspace from a portable file: the file is verified first, then stored in a hidden workspace, which is
//! then shown.

use std::collections::HashSet;
use std::io::{Read, Seek, SeekFrom};

use bytes::Bytes;
use futures::executor::block_on;
use garret_core::{Durability, EntryKind, Error, ErrorKind, Result};
use serde::Serialize;

use super::content_check::ContentInventory;
use super::portable_file::{EndRecord, Manifest, PortableFileEntry, damaged_file, read_manifest, read_portable_file};
use super::records::{PortableRecord, parse_record_path};
use super::{Progress, ProgressWatcher};
use crate::content::{PieceAddress, PlainPiece, PreparedContent};
use crate::depot::{Depot, NewWorkspace, check_name, check_name_free};
use crate::history::check_label;
use crate::metadata::{
    EntryRow, JournalStart, LevelEntry, LineageLevel, ListedPaths, MetadataSession, SnapshotRow, WorkspaceRow,
    stored_time,
};
use crate::workspace::DepotWorkspace;

/// Bytes of content that are gathered for one transaction.
const GROUP_BYTES: usize = 4 << 20;
/// Number of pieces that are gathered for one transaction.
const GROUP: usize = 500;

/// The last change number of the longest journal that is accepted, so that later numbers do not run out.
const LAST: i64 = i64::MAX / 2;

/// The counts of an import.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ImportReport {
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
        watch: ProgressWatcher<'_>,
    ) -> Result<(DepotWorkspace, ImportReport)> {
        self.check_new(&new)?;
        let start = source.stream_position().map_err(|_| unreadable_source())?;
        let (manifest, end) = verify_file(&mut source)?;
        // Verified completely; the second pass reads the same bytes from the start.
        source.seek(SeekFrom::Start(start)).map_err(|_| unreadable_source())?;
        let row = self.begin_import(&new).await?;
        let importing = PortableImporter {
            depot: self,
            workspace: row.id,
            imported: ImportReport {
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
            let taking = scope.spawn(|| importing.import_entries(&mut source));
            taking.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        let done = match taken {
            Ok(imported) => self.finish_import(&row, new.name, &manifest).await.map(|()| imported),
            Err(error) => Err(error),
        };
        match done {
            Ok(imported) => Ok((self.workspace_handle(&row), imported)),
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
        self.shared
            .database
            .read(|session| check_name_free(session, Some(name)))
    }

    /// Adds a hidden workspace.
    pub(crate) async fn begin_import(&self, new: &NewWorkspace) -> Result<WorkspaceRow> {
        let now = stored_time(self.shared.clock.now());
        let row = WorkspaceRow {
            id: 0,
            uid: self.shared.ids.next_id(),
            name: None,
            kind: new.kind.clone(),
            config: new.config.to_string(),
            fork: None,
            is_flat: false,
            head: 0,
            created: now,
            deleted: None,
        };
        let add = move |session: MetadataSession<'_>| {
            let id = session.add_workspace(&row)?;
            // Hidden in the same transaction, so that nobody ever sees a partial workspace.
            session.hide_workspace(id, false, now)?;
            Ok(WorkspaceRow { id, ..row })
        };
        self.shared.writer.write(self.shared.options.durability, add).await
    }

    /// Checks the stored entries, and shows the workspace.
    async fn finish_import(&self, row: &WorkspaceRow, name: Option<String>, manifest: &Manifest) -> Result<()> {
        let (id, head) = (row.id, manifest.head);
        let oldest = JournalStart {
            seq: manifest.oldest,
            at: manifest.oldest_at,
        };
        let settle = move |session: MetadataSession<'_>| {
            session.set_head(id, head)?;
            session.set_journal_start(id, oldest)
        };
        self.shared.writer.write(self.shared.options.durability, settle).await?;
        // Each record is valid by itself; together they may still describe a tree that cannot exist.
        if !self.is_workspace_sound(row.id)? || !self.had_only_directory_parents(row.id)? {
            return Err(damaged_file("its entries are inconsistent"));
        }
        self.show_imported(id, name).await
    }

    /// Shows an imported workspace under its name.
    pub(crate) async fn show_imported(&self, id: i64, name: Option<String>) -> Result<()> {
        let show = move |session: MetadataSession<'_>| {
            check_name_free(session, name.as_deref())?;
            // Garbage collection removes hidden workspaces after a grace period.
            if !session.unhide_workspace(id)? {
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
    fn had_only_directory_parents(&self, workspace: i64) -> Result<bool> {
        let mut after = (Vec::new(), -1);
        let mut above = ParentHistory::default();
        loop {
            let (rows, is_fine) = self.shared.database.read(|session| {
                let rows = session.rows_after(workspace, (&after.0, after.1), GROUP)?;
                let mut is_fine = true;
                for row in &rows {
                    is_fine &= above.load_for(session, workspace, &row.path)?.allows_entry(row);
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
struct ParentHistory {
    path: Vec<u8>,
    filled: Vec<(i64, i64)>,
}

impl ParentHistory {
    fn load_for(&mut self, session: MetadataSession<'_>, workspace: i64, path: &[u8]) -> Result<&Self> {
        let slash = path.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
        if self.path != path[..slash] {
            let history = match slash {
                0 => Vec::new(),
                _ => session.entry_history(workspace, &path[..slash], i64::MAX)?,
            };
            let is_filled =
                |held: &LevelEntry| matches!(held, LevelEntry::Node(node) if node.kind != EntryKind::Directory);
            let filled = history.into_iter().filter(|(_, _, held)| is_filled(held));
            self.filled = filled.map(|(since, until, _)| (since, until)).collect();
            self.path = path[..slash].to_vec();
        }
        Ok(self)
    }

    fn allows_entry(&self, row: &EntryRow) -> bool {
        let overlaps = |(since, until): &(i64, i64)| *since < row.until && row.since < *until;
        !self.filled.iter().any(overlaps)
    }
}

/// Reads all of a file and checks that its parts are consistent.
fn verify_file(source: &mut (impl Read + Seek)) -> Result<(Manifest, EndRecord)> {
    let mut found = PortableFileFindings::default();
    let (manifest, end) = read_portable_file(source, |_| Ok(()), |entry| found.add_entry(&entry))?;
    let counts = (found.records, found.pieces, found.bytes);
    if counts != (end.records, end.pieces, end.bytes) {
        return Err(damaged_file("its content does not match its end record"));
    }
    found.contents.check_complete()?;
    // The records were checked one by one; the numbers of the changes must also be complete and in range.
    let fits = (0..=manifest.head).contains(&manifest.oldest) && manifest.head <= LAST;
    let numbered = |number: &i64| (manifest.oldest + 1..=manifest.head).contains(number);
    let has_all =
        || found.changes.iter().all(numbered) && found.changes.len() as i64 == manifest.head - manifest.oldest;
    if fits && has_all() && found.earliest >= 0 && found.newest <= manifest.head {
        Ok((manifest, end))
    } else {
        Err(damaged_file("its journal has gaps"))
    }
}

/// The totals and numbers that were found in a file.
#[derive(Default)]
struct PortableFileFindings {
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
    contents: ContentInventory,
}

impl PortableFileFindings {
    fn add_entry(&mut self, entry: &PortableFileEntry) -> Result<()> {
        if entry.name.starts_with("journal/") {
            return parse_records(entry)?
                .into_iter()
                .try_for_each(|record| self.add_record(record));
        }
        let piece = parse_piece(entry)?
            .verify_address()
            .map_err(|_| damaged_file("a piece of content does not match its hash"))?;
        self.pieces += 1;
        self.bytes += piece.bytes.len() as u64;
        self.contents.add(&piece)
    }

    fn add_record(&mut self, record: PortableRecord) -> Result<()> {
        self.records += 1;
        match record {
            PortableRecord::Change(change) => {
                if !self.changes.insert(change.number) {
                    return Err(damaged_file("a change occurs twice"));
                }
                self.note_change_number(change.undone_by.unwrap_or(change.number));
                change.into_row(0).map(|_| ())
            }
            PortableRecord::Entry(entry) => {
                self.note_change_number(entry.since);
                self.note_change_number(entry.until.unwrap_or(entry.since));
                let (_, node) = entry.into_entry()?;
                match node.content {
                    Some(address) => self.contents.add_named_content(address, node.size),
                    None => Ok(()),
                }
            }
            PortableRecord::Move { change, step, from, to } => {
                self.note_change_number(change);
                if !self.moves.insert((change, step)) {
                    return Err(damaged_file("a move occurs twice"));
                }
                parse_record_path(&from)
                    .and_then(|_| parse_record_path(&to))
                    .map(|_| ())
            }
            PortableRecord::Snapshot { change, label, .. } => {
                self.note_change_number(change);
                check_label(&label).map_err(|_| damaged_file("the label of a snapshot is not valid"))?;
                if self.labels.insert(label) {
                    Ok(())
                } else {
                    Err(damaged_file("two snapshots have the same label"))
                }
            }
            PortableRecord::Reversal { change, target } => {
                self.note_change_number(change);
                self.note_change_number(target);
                if !self.reversals.insert((change, target)) {
                    return Err(damaged_file("a reversal occurs twice"));
                }
                if target < change {
                    Ok(())
                } else {
                    Err(damaged_file("a change reverses a later one"))
                }
            }
        }
    }

    fn note_change_number(&mut self, number: i64) {
        self.earliest = self.earliest.min(number);
        self.newest = self.newest.max(number);
    }
}

/// An import in progress.
struct PortableImporter<'i> {
    depot: &'i Depot,
    workspace: i64,
    imported: ImportReport,
    total: u64,
    waiting: Vec<PreparedContent>,
    waiting_bytes: usize,
    watch: ProgressWatcher<'i>,
}

impl PortableImporter<'_> {
    fn import_entries(mut self, source: &mut (impl Read + Seek)) -> Result<ImportReport> {
        read_portable_file(source, |_| Ok(()), |entry| self.import_entry(entry))?;
        self.flush()?;
        Ok(self.imported)
    }

    fn import_entry(&mut self, entry: PortableFileEntry) -> Result<()> {
        if entry.name.starts_with("journal/") {
            self.put_records(parse_records(&entry)?)
        } else {
            self.put_piece(parse_piece(&entry)?)
        }
    }

    fn put_records(&mut self, records: Vec<PortableRecord>) -> Result<()> {
        let (workspace, ids) = (self.workspace, self.depot.shared.ids.clone());
        for record in &records {
            match record {
                PortableRecord::Change(_) => self.imported.changes += 1,
                PortableRecord::Entry(_) => self.imported.entries += 1,
                _ => {}
            }
        }
        self.write_metadata(move |session| {
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
        self.write_metadata(move |session| {
            waiting
                .iter()
                .try_for_each(|prepared| shared.content.record_content(session, prepared))
        })
    }

    fn write_metadata(&self, work: impl FnOnce(MetadataSession<'_>) -> Result<()> + Send + 'static) -> Result<()> {
        let shared = &self.depot.shared;
        block_on(shared.writer.write(shared.options.durability, work))
    }
}

fn put_record(
    session: MetadataSession<'_>,
    workspace: i64,
    record: PortableRecord,
    ids: &dyn garret_core::Ids,
) -> Result<()> {
    match record {
        PortableRecord::Change(change) => {
            let mut row = change.into_row(workspace)?;
            // The same file may be imported twice, and ids are unique in a depot.
            if session.change_by_id(&row.id)?.is_some() {
                row.id = ids.next_id();
            }
            session.add_change(&row, &ListedPaths::default())?;
            session.set_undone_by(workspace, row.seq, row.undone_by)
        }
        PortableRecord::Entry(entry) => {
            let valid = (entry.since, entry.until.unwrap_or(i64::MAX));
            let (path, node) = entry.into_entry()?;
            session.insert_entry(workspace, &path, valid, &LevelEntry::Node(node))
        }
        PortableRecord::Move { change, step, from, to } => session.add_move(
            (workspace, change),
            step,
            &parse_record_path(&from)?,
            &parse_record_path(&to)?,
        ),
        PortableRecord::Reversal { change, target } => session.add_reversal(workspace, change, target),
        PortableRecord::Snapshot {
            label,
            change,
            at,
            lazy,
        } => {
            let point = LineageLevel { workspace, at: change };
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

fn parse_records(entry: &PortableFileEntry) -> Result<Vec<PortableRecord>> {
    let lines = entry.bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let record = |line| serde_json::from_slice(line).map_err(|_| damaged_file("a record of its journal is not valid"));
    lines.map(record).collect()
}

fn parse_piece(entry: &PortableFileEntry) -> Result<PlainPiece> {
    let (folder, digits) = entry.name.split_once('/').unwrap_or_default();
    let address = PieceAddress::from_hex(digits);
    match (folder, address) {
        ("content" | "lists", Some(address)) => Ok(PlainPiece {
            address,
            is_list: folder == "lists",
            bytes: Bytes::copy_from_slice(&entry.bytes),
        }),
        _ => Err(damaged_file("it has an entry of an unknown kind")),
    }
}

fn unreadable_source() -> Error {
    Error::new(ErrorKind::Unavailable, "the file to import cannot be read").hint("check that it is a plain file")
}
