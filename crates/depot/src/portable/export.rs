//! Writes a workspace into a portable file.

use std::collections::HashSet;
use std::io::Write;

use garret_core::{EntryPath, Error, ErrorKind, Point, Result};
use serde::Serialize;

use super::file::{End, FORMAT, FileWriter, Manifest, VERSION};
use super::records::{ChangeRecord, EntryRecord, Record, is_path};
use super::{Progress, Watch};
use crate::content::Address;
use crate::error::damaged;
use crate::history::check_kept;
use crate::metadata::{Held, Level, Node, Session, SnapshotRow, WorkspaceRow};
use crate::retention::is_shown;
use crate::tree::Tree;
use crate::workspace::DepotWorkspace;

/// Number of rows read in one transaction, and of lines in one entry of the file.
const PAGE: usize = 1_000;

/// The part of a workspace to export.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Extent {
    /// Everything that its journal keeps, with its snapshots.
    History,
    /// Only the files as they are at a point.
    Files(Point),
}

/// The counts of an export.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Exported {
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
struct Exporting<'e, W: Write> {
    workspace: &'e DepotWorkspace,
    file: FileWriter<W>,
    exported: Exported,
    chunk: Vec<u8>,
    chunks: u64,
    records: u64,
    contents: HashSet<Address>,
}

impl DepotWorkspace {
    /// Writes this workspace into `sink` as one portable file, which [`crate::Depot::import`] reads. Others may change
    /// the workspace meanwhile: the export is the state at its start. Blocks while it writes; the caller is responsible
    /// for syncing and keeping the file.
    pub async fn export(&self, extent: &Extent, sink: impl Write + Send, watch: Watch<'_>) -> Result<Exported> {
        let mut exporting = Exporting {
            workspace: self,
            file: FileWriter::over(sink)?,
            exported: Exported::default(),
            chunk: Vec::new(),
            chunks: 0,
            records: 0,
            contents: HashSet::new(),
        };
        match extent {
            Extent::History => exporting.history()?,
            Extent::Files(point) => exporting.files(point)?,
        }
        exporting.flush()?;
        exporting.content(watch).await?;
        let Exporting {
            file,
            exported,
            records,
            ..
        } = exporting;
        let end = End {
            records,
            pieces: exported.pieces,
            bytes: exported.bytes,
            blake3: String::new(),
        };
        let mut sink = file.finish(end)?;
        sink.flush().map_err(|error| crate::error::unwritten(&error))?;
        Ok(exported)
    }
}

impl<W: Write> Exporting<'_, W> {
    fn read<T>(&self, look: impl FnOnce(Session<'_>) -> Result<T>) -> Result<T> {
        self.workspace.shared().database.read(look)
    }

    fn row(&self) -> Result<WorkspaceRow> {
        let row = self.read(|session| session.workspace(self.workspace.number))?;
        row.ok_or_else(|| damaged("the record of a workspace is missing"))
    }

    fn manifest(&mut self, manifest: &Manifest) -> Result<()> {
        let bytes = serde_json::to_vec(manifest).expect("it is plain data");
        self.file.add("manifest.json", &bytes)
    }

    fn files(&mut self, point: &Point) -> Result<()> {
        let row = self.row()?;
        let level = self.read(|session| self.workspace.level_of(session, point))?;
        self.manifest(&Manifest {
            format: FORMAT.to_owned(),
            version: VERSION,
            name: row.name,
            head: 0,
            oldest: 0,
            oldest_at: 0,
            has_history: false,
        })?;
        // Without history every entry is live from the start.
        self.tree(level, |_, _| Ok(Some(None)))
    }

    /// Writes the entries at `level` as the first entries of the workspace. `until` returns the end of each entry's
    /// life, or that the entry is left out.
    fn tree(&mut self, level: Level, until: impl Fn(Session<'_>, &[u8]) -> Result<Option<Option<i64>>>) -> Result<()> {
        let mut from = Some(Vec::new());
        while let Some(start) = from {
            let (page, next) = self.read(|session| {
                // Pages are separate transactions, and garbage collection may run in between.
                check_kept(session, level)?;
                let tree = Tree::at(session, level)?;
                let mut scan = tree.below(b"");
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
                self.entry(path, 0, until, node)?;
            }
            from = next;
        }
        Ok(())
    }

    fn history(&mut self) -> Result<()> {
        let row = self.row()?;
        let (oldest, snapshots) = self.read(|session| Ok((session.oldest(row.id)?, session.snapshots(row.id)?)))?;
        self.manifest(&Manifest {
            format: FORMAT.to_owned(),
            version: VERSION,
            name: row.name.clone(),
            head: row.head,
            oldest: oldest.seq,
            oldest_at: oldest.at,
            has_history: true,
        })?;
        let held = self.snapshots(&row, snapshots)?;
        self.changes(&row, oldest.seq)?;
        // A flat branch has a row of its own for every inherited entry, so only other branches need the tree of the
        // parent.
        if let Some(fork) = row.fork.filter(|_| !row.is_flat) {
            let head = row.head;
            self.tree(fork, move |session, path| {
                // An inherited entry ends at the first row that the branch itself has at its path.
                let first = session.first_since(row.id, path)?.filter(|since| *since <= head);
                Ok((first != Some(0)).then_some(first))
            })?;
        }
        self.rows(&row, oldest.seq, &held)?;
        // The pages were read in separate transactions, so rows may have been removed between two of them.
        if self.read(|session| session.oldest(row.id))? == oldest {
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
    fn snapshots(&mut self, row: &WorkspaceRow, snapshots: Vec<SnapshotRow>) -> Result<Vec<i64>> {
        let mut held = Vec::new();
        for snapshot in snapshots {
            if snapshot.point.workspace != row.id || snapshot.point.at > row.head {
                self.exported.left_out.push(snapshot.label);
                continue;
            }
            held.push(snapshot.point.at);
            self.record(&Record::Snapshot {
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

    fn changes(&mut self, row: &WorkspaceRow, oldest: i64) -> Result<()> {
        let mut before = row.head + 1;
        loop {
            let changes = self.read(|session| session.changes_before(row.id, before, PAGE))?;
            for change in changes.iter().filter(|change| change.seq > oldest) {
                let (moves, reversals) = self.read(|session| {
                    Ok((
                        session.moves(row.id, change.seq)?,
                        session.reversals(row.id, change.seq)?,
                    ))
                })?;
                let mut record = ChangeRecord::of(change.clone());
                // Changes after the start of the export are not part of it.
                record.undone_by = record.undone_by.filter(|by| *by <= row.head);
                self.record(&Record::Change(record))?;
                self.exported.changes += 1;
                for (step, (from, to)) in moves.into_iter().enumerate() {
                    self.moved(change.seq, step as i64 + 1, (from, to))?;
                }
                for target in reversals {
                    self.record(&Record::Reversal {
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
    fn moved(&mut self, change: i64, step: i64, (from, to): (Vec<u8>, Vec<u8>)) -> Result<()> {
        let (from, to) = (between(from), between(to));
        if !is_path(&from) || !is_path(&to) {
            return Ok(());
        }
        self.record(&Record::Move {
            change,
            step,
            from: EntryPath::from_bytes(from).to_token(),
            to: EntryPath::from_bytes(to).to_token(),
        })
    }

    /// Writes the workspace's own rows, as of the change that was the newest when the export started.
    fn rows(&mut self, row: &WorkspaceRow, oldest: i64, held: &[i64]) -> Result<()> {
        let mut after = (Vec::new(), -1);
        loop {
            let page = self.read(|session| session.rows_after(row.id, (&after.0, after.1), PAGE))?;
            let Some(last) = page.last() else { return Ok(()) };
            after = (last.path.clone(), last.since);
            for entry in page {
                // A row that hides an inherited entry is not needed: the exported workspace inherits nothing.
                let Held::Node(node) = entry.held else { continue };
                let is_kept = entry.until > oldest || is_shown(held, entry.since, entry.until) || entry.since == 0;
                if entry.since <= row.head && is_kept {
                    let until = Some(entry.until).filter(|until| *until <= row.head);
                    self.entry(entry.path, entry.since, until, node)?;
                }
            }
        }
    }

    fn entry(&mut self, path: Vec<u8>, since: i64, until: Option<i64>, node: Node) -> Result<()> {
        if !is_path(&path) {
            return Err(
                Error::invalid("a portable file cannot hold a name of more than 255 bytes")
                    .at_text(EntryPath::from_bytes(path).shown())
                    .hint("give it a shorter name, then export the files without history"),
            );
        }
        self.contents.extend(node.content);
        self.exported.entries += 1;
        self.record(&Record::Entry(EntryRecord::of(path, since, until, node)))
    }

    fn record(&mut self, record: &Record) -> Result<()> {
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
        self.file.add(&format!("journal/{:06}.jsonl", self.chunks), &chunk)
    }

    /// Writes all content that an entry names, sorted by address, the parts of a list before the list.
    async fn content(&mut self, watch: Watch<'_>) -> Result<()> {
        let mut contents: Vec<_> = std::mem::take(&mut self.contents).into_iter().collect();
        // A hash set has no stable order; sorted addresses make the export reproducible.
        contents.sort_unstable();
        let mut done = HashSet::new();
        for address in contents {
            let shared = self.workspace.shared();
            let found = shared.content.plain_piece(&shared.database, address).await;
            let piece = found.map_err(|error| self.named(error, address))?;
            for part in piece.parts() {
                // Several lists can share a part.
                if done.insert(part) {
                    let found = shared.content.plain_piece(&shared.database, part).await;
                    let part = found.map_err(|error| self.named(error, address))?;
                    self.piece("content", part.address, &part.bytes, watch)?;
                }
            }
            if done.insert(address) {
                let folder = if piece.is_list { "lists" } else { "content" };
                self.piece(folder, address, &piece.bytes, watch)?;
            }
        }
        Ok(())
    }

    fn piece(
        &mut self,
        folder: &str,
        address: Address,
        bytes: &[u8],
        watch: &mut (dyn FnMut(Progress) + Send),
    ) -> Result<()> {
        self.file.add(&format!("{folder}/{}", address.to_hex()), bytes)?;
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
    fn named(&self, error: Error, address: Address) -> Error {
        match self.read(|session| session.path_of(self.workspace.number, address)) {
            Ok(Some(path)) => error.at_text(EntryPath::from_bytes(path).shown()),
            _ => error,
        }
    }
}

/// Replaces the leading NUL of a temporary name, which merges used between the moves of a cycle, because no path may
/// contain it.
fn between(mut path: Vec<u8>) -> Vec<u8> {
    if path.first() == Some(&0) {
        path.splice(..1, *b".garret-");
    }
    path
}
