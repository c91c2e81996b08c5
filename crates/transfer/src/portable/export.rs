//! Writes a workspace into a portable file.

use std::collections::HashSet;
use std::io::Write;

use garret_core::{EntryPath, Error, Point, Result, WsPath};
use garret_depot::DepotWorkspace;
use garret_depot::transfer::{ExportSource, HistoryEntry, HistoryRecord, PieceAddress};
use serde::Serialize;

use super::portable_file::{EndRecord, FORMAT, Manifest, PortableFileWriter, VERSION};
use super::records::{PortableRecord, is_portable_path};
use crate::error::export_not_written;
use crate::progress::{Progress, ProgressWatcher};

/// Number of lines in one entry of the file.
const LINES: u64 = 1_000;

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
struct PortableExporter<W: Write> {
    source: ExportSource,
    file: PortableFileWriter<W>,
    exported: ExportReport,
    chunk: Vec<u8>,
    chunks: u64,
    records: u64,
    contents: HashSet<PieceAddress>,
}

/// Writes a workspace into `sink` as one portable file, which [`super::import_workspace`] reads. Others may change the
/// workspace meanwhile: the export is the state at its start. Blocks while it writes; the caller is responsible for
/// syncing and keeping the file.
pub async fn export_workspace(
    workspace: &DepotWorkspace,
    extent: &ExportExtent,
    sink: impl Write + Send,
    watch: ProgressWatcher<'_>,
) -> Result<ExportReport> {
    let mut exporting = PortableExporter {
        source: ExportSource::new(workspace),
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
    sink.flush().map_err(|error| export_not_written(&error))?;
    Ok(exported)
}

impl<W: Write> PortableExporter<W> {
    fn write_manifest(&mut self, manifest: &Manifest) -> Result<()> {
        let bytes = serde_json::to_vec(manifest).expect("it is plain data");
        self.file.add_entry("manifest.json", &bytes)
    }

    fn write_files(&mut self, point: &Point) -> Result<()> {
        let mut tree = self.source.read_tree(point, &WsPath::root())?;
        self.write_manifest(&Manifest {
            format: FORMAT.to_owned(),
            version: VERSION,
            name: self.source.workspace_name()?,
            head: 0,
            oldest: 0,
            oldest_at: 0,
            has_history: false,
        })?;
        loop {
            let page = tree.next_page()?;
            if page.is_empty() {
                return Ok(());
            }
            for (path, node) in page {
                // Without history every entry is live from the start.
                self.write_entry(HistoryEntry {
                    path,
                    since: 0,
                    until: None,
                    node,
                })?;
            }
        }
    }

    fn write_history(&mut self) -> Result<()> {
        let mut history = self.source.read_history()?;
        let (oldest, oldest_at) = history.oldest_state();
        self.write_manifest(&Manifest {
            format: FORMAT.to_owned(),
            version: VERSION,
            name: history.workspace_name().map(str::to_owned),
            head: history.head(),
            oldest,
            oldest_at,
            has_history: true,
        })?;
        self.exported.left_out = history.left_out_snapshots().to_vec();
        while let Some(page) = history.next_page()? {
            for record in page {
                match record {
                    HistoryRecord::Entry(entry) => self.write_entry(entry)?,
                    HistoryRecord::Move { change, step, from, to } => self.write_move(change, step, (from, to))?,
                    record => {
                        self.exported.changes += u64::from(matches!(record, HistoryRecord::Change(_)));
                        self.write_record(record)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Writes a move; a move with a name that no portable file can hold is left out.
    fn write_move(&mut self, change: i64, step: i64, (from, to): (Vec<u8>, Vec<u8>)) -> Result<()> {
        let (from, to) = (replace_leading_nul(from), replace_leading_nul(to));
        if !is_portable_path(&from) || !is_portable_path(&to) {
            return Ok(());
        }
        self.write_record(HistoryRecord::Move { change, step, from, to })
    }

    fn write_entry(&mut self, entry: HistoryEntry) -> Result<()> {
        if !is_portable_path(&entry.path) {
            return Err(
                Error::invalid("a portable file cannot hold a name of more than 255 bytes")
                    .at_path_text(EntryPath::from_bytes(entry.path).display_path())
                    .hint("give it a shorter name, then export the files without history"),
            );
        }
        self.contents.extend(entry.node.content);
        self.exported.entries += 1;
        self.write_record(HistoryRecord::Entry(entry))
    }

    fn write_record(&mut self, record: HistoryRecord) -> Result<()> {
        let record = PortableRecord::from_record(record);
        serde_json::to_writer(&mut self.chunk, &record).expect("memory takes it");
        self.chunk.push(b'\n');
        self.records += 1;
        match self.records % LINES {
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
            let found = self.source.read_piece(address).await;
            let piece = found.map_err(|error| self.with_content_path(error, address))?;
            for part in piece.part_addresses() {
                // Several lists can share a part.
                if done.insert(part) {
                    let found = self.source.read_piece(part).await;
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
        match self.source.path_with_content(address) {
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
