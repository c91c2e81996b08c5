//! Writes a workspace into a portable file.

use std::collections::HashSet;
use std::io::Write;

use garret_core::{EntryPath, Error, ErrorKind, Point, Result};
use serde::Serialize;

use super::portable_file::{EndRecord, FORMAT, Manifest, PortableFileWriter, VERSION};
use super::records::{ChangeRecord, EntryRecord, PortableRecord, is_portable_path};
use super::{Progress, ProgressWatcher};
use crate::content::PieceAddress;
use crate::error::damaged_content;
use crate::history::check_kept;
use crate::metadata::{EntryNode, LevelEntry, LineageLevel, MetadataSession, SnapshotRow, WorkspaceRow};
use crate::retention::is_row_needed;
use crate::tree::DepotTree;
use crate::workspace::DepotWorkspace;

/// Number of rows read in one transaction, and of lines in one entry of the file.
const PAGE: usize = 1_000;

/// The part of a workspace to export.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExportExtent {
    /// Everything that its journal keeps, with its snapshots.
    History,
    /// Only the files as they are at a point.
    Files(Point),
}

/// The counts of an export.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ExportReport {
    /// Number of changes.
    pub changes: u64,
    /// Number of entries, at every point.
    pub entries: u64,
    /// Number of pieces of content.
    pub pieces: u64,
    /// Bytes of that content.
    pub bytes: u64,
    /// Snapshots that were left out, because they name points of the workspace that this one was branched off.
    pub left_out: Vec<String>,
}

/// An export in progress.
struct PortableExporter<'e, W: Write> {
    workspace: &'e DepotWorkspace,
    file: PortableFileWriter<W>,
    exported: ExportReport,
    chunk: Vec<u8>,
    chunks: u64,
    records: u64,
    contents: HashSet<PieceAddress>,
}

impl DepotWorkspace {
    /// Writes this workspace into `sink` as one portable file, which [`crate::Depot::import`] reads. Others may change
    /// the workspace meanwhile: the export is the state at its start. Blocks while it writes; the caller is responsible
    /// for syncing and keeping the file.
    pub async fn export(
        &self,
        extent: &ExportExtent,
        sink: impl Write + Send,
        watch: ProgressWatcher<'_>,
    ) -> Result<ExportReport> {
        let mut exporting = PortableExporter {
            workspace: self,
            file: PortableFileWriter::new(sink)?,
            exported: ExportReport::default(),
            chunk: Vec::new(),
            chunks: 0,
            records: 0,
            contents: HashSet::new(),
        };
        match extent {
            ExportExtent::History => exporting.write_history()?,
            ExportExtent::Files(point) => exporting.write_files(point)?,
        }
        exporting.flush()?;
        exporting.write_content(watch).await?;
        let PortableExporter {
            file,
            exported,
            records,
            ..
        } = exporting;
        let end = EndRecord {
            records,
            pieces: exported.pieces,
            bytes: exported.bytes,
            blake3: String::new(),
        };
        let mut sink = file.finish(end)?;
        sink.flush().map_err(|error| crate::error::export_not_written(&error))?;
        Ok(exported)
    }
}

impl<W: Write> PortableExporter<'_, W> {
    fn read_metadata<T>(&self, look: impl FnOnce(MetadataSession<'_>) -> Result<T>) -> Result<T> {
        self.workspace.shared().database.read(look)
    }

    fn workspace_row(&self) -> Result<WorkspaceRow> {
        let row = self.read_metadata(|session| session.workspace(self.workspace.number))?;
        row.ok_or_else(|| damaged_content("the record of a workspace is missing"))
    }

    fn write_manifest(&mut self, manifest: &Manifest) -> Result<()> {
        let bytes = serde_json::to_vec(manifest).expect("it is plain data");
        self.file.add_entry("manifest.json", &bytes)
    }

    fn write_files(&mut self, point: &Point) -> Result<()> {
        let row = self.workspace_row()?;
        let level = self.read_metadata(|session| self.workspace.resolve_point(session, point))?;
        self.write_manifest(&Manifest {
            format: FORMAT.to_owned(),
            version: VERSION,
            name: row.name,
            head: 0,
            oldest: 0,
            oldest_at: 0,
            has_history: false,
        })?;
        // Without history every entry is live from the start.
        self.write_tree(level, |_, _| Ok(Some(None)))
    }

    /// Writes the entries at `level` as the first entries of the workspace. `until` returns the end of each entry's
    /// life, or that the entry is left out.
    fn write_tree(
        &mut self,
        level: LineageLevel,
        until: impl Fn(MetadataSession<'_>, &[u8]) -> Result<Option<Option<i64>>>,
    ) -> Result<()> {
        let mut from = Some(Vec::new());
        while let Some(start) = from {
            let (page, next) = self.read_metadata(|session| {
                // Pages are separate transactions, and garbage collection may run in between.
                check_kept(session, level)?;
                let tree = DepotTree::at_point(session, level)?;
                let mut scan = tree.scan_below(b"");
                scan.seek(&start);
                let mut page = Vec::with_capacity(PAGE);
                while page.len() < PAGE {
                    let Some((path, node)) = scan.next()? else {
                        return Ok((page, None));
                    };
                    if let Some(until) = until(session, &path)? {
                        page.push((path, until, node));
                    }
                }
                Ok((page, scan.next()?.map(|(path, _)| path)))
            })?;
            for (path, until, node) in page {
                self.write_entry(path, 0, until, node)?;
            }
            from = next;
        }
        Ok(())
    }

    fn write_history(&mut self) -> Result<()> {
        let row = self.workspace_row()?;
        let (oldest, snapshots) =
            self.read_metadata(|session| Ok((session.journal_start(row.id)?, session.snapshots(row.id)?)))?;
        self.write_manifest(&Manifest {
            format: FORMAT.to_owned(),
            version: VERSION,
            name: row.name.clone(),
            head: row.head,
            oldest: oldest.seq,
            oldest_at: oldest.at,
            has_history: true,
        })?;
        let held = self.write_snapshots(&row, snapshots)?;
        self.write_changes(&row, oldest.seq)?;
        // A flat branch has a row of its own for every inherited entry, so only other branches need the tree of the
        // parent.
        if let Some(fork) = row.fork.filter(|_| !row.is_flat) {
            let head = row.head;
            self.write_tree(fork, move |session, path| {
                // An inherited entry ends at the first row that the branch itself has at its path.
                let first = session.first_since(row.id, path)?.filter(|since| *since <= head);
                Ok((first != Some(0)).then_some(first))
            })?;
        }
        self.write_rows(&row, oldest.seq, &held)?;
        // The pages were read in separate transactions, so rows may have been removed between two of them.
        if self.read_metadata(|session| session.journal_start(row.id))? == oldest {
            Ok(())
        } else {
            Err(Error::new(
                ErrorKind::Unavailable,
                "garbage collection removed history during the export",
            )
            .hint("export again"))
        }
    }

    /// Writes the snapshots of the workspace's own points; returns these points, sorted.
    fn write_snapshots(&mut self, row: &WorkspaceRow, snapshots: Vec<SnapshotRow>) -> Result<Vec<i64>> {
        let mut held = Vec::new();
        for snapshot in snapshots {
            if snapshot.point.workspace != row.id || snapshot.point.at > row.head {
                self.exported.left_out.push(snapshot.label);
                continue;
            }
            held.push(snapshot.point.at);
            self.write_record(&PortableRecord::Snapshot {
                label: snapshot.label,
                change: snapshot.point.at,
                at: snapshot.at,
                lazy: snapshot.is_lazy,
            })?;
        }
        // The search for the points that an entry spans needs them in order.
        held.sort_unstable();
        Ok(held)
    }

    fn write_changes(&mut self, row: &WorkspaceRow, oldest: i64) -> Result<()> {
        let mut before = row.head + 1;
        loop {
            let changes = self.read_metadata(|session| session.changes_before(row.id, before, PAGE))?;
            for change in changes.iter().filter(|change| change.seq > oldest) {
                let (moves, reversals) = self.read_metadata(|session| {
                    Ok((
                        session.moves_of_change(row.id, change.seq)?,
                        session.reversed_changes(row.id, change.seq)?,
                    ))
                })?;
                let mut record = ChangeRecord::from_row(change.clone());
                // Changes after the start of the export are not part of it.
                record.undone_by = record.undone_by.filter(|by| *by <= row.head);
                self.write_record(&PortableRecord::Change(record))?;
                self.exported.changes += 1;
                for (step, (from, to)) in moves.into_iter().enumerate() {
                    self.write_move(change.seq, step as i64 + 1, (from, to))?;
                }
                for target in reversals {
                    self.write_record(&PortableRecord::Reversal {
                        change: change.seq,
                        target,
                    })?;
                }
            }
            match changes.last() {
                Some(last) if last.seq > oldest => before = last.seq,
                _ => return Ok(()),
            }
        }
    }

    /// Writes a move; a move with a name that no portable file can hold is left out.
    fn write_move(&mut self, change: i64, step: i64, (from, to): (Vec<u8>, Vec<u8>)) -> Result<()> {
        let (from, to) = (replace_leading_nul(from), replace_leading_nul(to));
        if !is_portable_path(&from) || !is_portable_path(&to) {
            return Ok(());
        }
        self.write_record(&PortableRecord::Move {
            change,
            step,
            from: EntryPath::from_bytes(from).to_token(),
            to: EntryPath::from_bytes(to).to_token(),
        })
    }

    /// Writes the workspace's own rows, as of the change that was the newest when the export started.
    fn write_rows(&mut self, row: &WorkspaceRow, oldest: i64, held: &[i64]) -> Result<()> {
        let mut after = (Vec::new(), -1);
        loop {
            let page = self.read_metadata(|session| session.rows_after(row.id, (&after.0, after.1), PAGE))?;
            let Some(last) = page.last() else { return Ok(()) };
            after = (last.path.clone(), last.since);
            for entry in page {
                // A row that hides an inherited entry is not needed: the exported workspace inherits nothing.
                let LevelEntry::Node(node) = entry.held else { continue };
                let is_kept = entry.until > oldest || is_row_needed(held, entry.since, entry.until) || entry.since == 0;
                if entry.since <= row.head && is_kept {
                    let until = Some(entry.until).filter(|until| *until <= row.head);
                    self.write_entry(entry.path, entry.since, until, node)?;
                }
            }
        }
    }

    fn write_entry(&mut self, path: Vec<u8>, since: i64, until: Option<i64>, node: EntryNode) -> Result<()> {
        if !is_portable_path(&path) {
            return Err(
                Error::invalid("a portable file cannot hold a name of more than 255 bytes")
                    .at_path_text(EntryPath::from_bytes(path).display_path())
                    .hint("give it a shorter name, then export the files without history"),
            );
        }
        self.contents.extend(node.content);
        self.exported.entries += 1;
        self.write_record(&PortableRecord::Entry(EntryRecord::from_node(path, since, until, node)))
    }

    fn write_record(&mut self, record: &PortableRecord) -> Result<()> {
        serde_json::to_writer(&mut self.chunk, record).expect("memory takes it");
        self.chunk.push(b'\n');
        self.records += 1;
        match self.records % PAGE as u64 {
            0 => self.flush(),
            _ => Ok(()),
        }
    }

    fn flush(&mut self) -> Result<()> {
        if self.chunk.is_empty() {
            return Ok(());
        }
        self.chunks += 1;
        let chunk = std::mem::take(&mut self.chunk);
        self.file
            .add_entry(&format!("journal/{:06}.jsonl", self.chunks), &chunk)
    }

    /// Writes all content that an entry names, sorted by address, the parts of a list before the list.
    async fn write_content(&mut self, watch: ProgressWatcher<'_>) -> Result<()> {
        let mut contents: Vec<_> = std::mem::take(&mut self.contents).into_iter().collect();
        // A hash set has no stable order; sorted addresses make the export reproducible.
        contents.sort_unstable();
        let mut done = HashSet::new();
        for address in contents {
            let shared = self.workspace.shared();
            let found = shared.content.read_plain_piece(&shared.database, address).await;
            let piece = found.map_err(|error| self.with_content_path(error, address))?;
            for part in piece.part_addresses() {
                // Several lists can share a part.
                if done.insert(part) {
                    let found = shared.content.read_plain_piece(&shared.database, part).await;
                    let part = found.map_err(|error| self.with_content_path(error, address))?;
                    self.write_piece("content", part.address, &part.bytes, watch)?;
                }
            }
            if done.insert(address) {
                let folder = if piece.is_list { "lists" } else { "content" };
                self.write_piece(folder, address, &piece.bytes, watch)?;
            }
        }
        Ok(())
    }

    fn write_piece(
        &mut self,
        folder: &str,
        address: PieceAddress,
        bytes: &[u8],
        watch: &mut (dyn FnMut(Progress) + Send),
    ) -> Result<()> {
        self.file.add_entry(&format!("{folder}/{}", address.to_hex()), bytes)?;
        self.exported.pieces += 1;
        self.exported.bytes += bytes.len() as u64;
        watch(Progress {
            files: self.exported.pieces,
            bytes: self.exported.bytes,
            total: None,
        });
        Ok(())
    }

    /// Adds the path of a file with this content to the error.
    fn with_content_path(&self, error: Error, address: PieceAddress) -> Error {
        match self.read_metadata(|session| session.path_with_content(self.workspace.number, address)) {
            Ok(Some(path)) => error.at_path_text(EntryPath::from_bytes(path).display_path()),
            _ => error,
        }
    }
}

/// Replaces the leading NUL of a temporary name, which merges used between the moves of a cycle, because no path may
/// contain it.
fn replace_leading_nul(mut path: Vec<u8>) -> Vec<u8> {
    if path.first() == Some(&0) {
        path.splice(..1, *b".garret-");
    }
    path
}
