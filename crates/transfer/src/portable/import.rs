//! Imports a workspace from a portable file: the file is verified first, then stored in a hidden workspace, which is
//! then shown.

use std::collections::HashSet;
use std::io::{Read, Seek, SeekFrom};

use bytes::Bytes;
use futures::executor::block_on;
use garret_core::{Error, ErrorKind, Result};
use garret_depot::transfer::{
    HiddenWorkspace, HistoryEntry, ImportTarget, PieceAddress, PlainPiece, PreparedContent, is_valid_label,
};
use garret_depot::{Depot, DepotWorkspace, NewWorkspace};
use serde::Serialize;

use super::content_check::ContentInventory;
use super::portable_file::{EndRecord, Manifest, PortableFileEntry, damaged_file, read_manifest, read_portable_file};
use super::records::{PortableRecord, parse_record_path};
use crate::progress::{Progress, ProgressWatcher};

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

/// Reads the manifest of a portable file, without verifying the rest. `source` is read from its present position.
pub fn read_portable_manifest(source: impl Read) -> Result<Manifest> {
    read_manifest(source)
}

/// Imports the workspace that [`super::export_workspace`] wrote, as a new one with its own id. The whole file is
/// verified before anything is stored; a file that is truncated or damaged is `corrupt`, one of a newer Garret
/// `unsupported`, and nothing is left behind. Changes keep their ids if these are free.
pub async fn import_workspace(
    depot: &Depot,
    new: NewWorkspace,
    mut source: impl Read + Seek + Send,
    watch: ProgressWatcher<'_>,
) -> Result<(DepotWorkspace, ImportReport)> {
    HiddenWorkspace::check_name(depot, &new)?;
    let start = source.stream_position().map_err(|_| unreadable_source())?;
    let (manifest, end) = verify_file(&mut source)?;
    // Verified completely; the second pass reads the same bytes from the start.
    source.seek(SeekFrom::Start(start)).map_err(|_| unreadable_source())?;
    let hidden = HiddenWorkspace::create(depot, new).await?;
    let workspace = hidden.workspace();
    let importing = PortableImporter {
        hidden: &hidden,
        target: ImportTarget::new(&workspace),
        imported: ImportReport {
            id: workspace.id().to_owned(),
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
        Ok(imported) => finish_import(&hidden, &manifest).await.map(|()| imported),
        Err(error) => Err(error),
    };
    match done {
        Ok(imported) => Ok((workspace, imported)),
        Err(error) => {
            hidden.remove().await?;
            Err(error)
        }
    }
}

/// Checks the stored entries, and shows the workspace.
async fn finish_import(hidden: &HiddenWorkspace, manifest: &Manifest) -> Result<()> {
    let oldest = (manifest.oldest, manifest.oldest_at);
    hidden.set_journal_range(manifest.head, oldest).await?;
    if !hidden.is_consistent()? {
        return Err(damaged_file("its entries are inconsistent"));
    }
    hidden.show().await
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
                change.into_row().map(|_| ())
            }
            PortableRecord::Entry(entry) => {
                self.note_change_number(entry.since);
                self.note_change_number(entry.until.unwrap_or(entry.since));
                let HistoryEntry { node, .. } = entry.into_entry()?;
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
                if !is_valid_label(&label) {
                    return Err(damaged_file("the label of a snapshot is not valid"));
                }
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
    hidden: &'i HiddenWorkspace,
    target: ImportTarget,
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
        for record in &records {
            match record {
                PortableRecord::Change(_) => self.imported.changes += 1,
                PortableRecord::Entry(_) => self.imported.entries += 1,
                _ => {}
            }
        }
        let records = records
            .into_iter()
            .map(PortableRecord::into_record)
            .collect::<Result<_>>()?;
        block_on(self.hidden.add_records(records))
    }

    /// Stores the blob of a piece; its row is written later, together with others.
    fn put_piece(&mut self, piece: PlainPiece) -> Result<()> {
        let length = piece.bytes.len();
        let prepared = block_on(self.target.prepare_piece(piece))?;
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
        block_on(self.target.record_contents(std::mem::take(&mut self.waiting)))
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
