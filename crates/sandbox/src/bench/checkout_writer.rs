//! Writes files of the journal into a checkout: several threads read files and put them in place.
//!
//! Each thread takes files of one directory at a time, because the kernel lets one thread at a time create entries in a
//! directory. Nothing is synced, and a file gets its own name at once where that name is free: until everything is in
//! place, the checkout is marked as incomplete, and a file that is not recorded is written again.

use std::collections::BTreeMap;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::{thread, vec};

use garret_core::path::{quote, split_path};
use garret_core::{
    DirectoryHandle, EntryPath, Error, ErrorKind, Exclusions, Follow, Precondition, ReadOptions, ReadResult, Result,
    Storage, WsPath,
};
use garret_handles::{run_blocking, write_all};
use tokio::runtime::Handle;

use super::bench_placer::BenchPlacer;
use super::manifest::{ManifestChanges, ManifestRecord};
use super::wanted_entries::{CheckoutFiles, EntryForm, FILE_MODE, WantedEntry, raw_file, version_number};
use crate::effects::entry_status::EntryStatus;
use crate::effects::path_error::ErrnoAtPath;

/// The most threads. More than most machines have processors, because files that are far away are waited for.
const MAX_THREADS: usize = 8;
/// The most files that a thread takes at once; all of them are in one directory.
const RUN_FILES: usize = 32;
/// A larger file is read in pieces of this size.
const PIECE_BYTES: u64 = 1024 * 1024;

/// The work to bring a checkout up to date.
#[derive(Debug, Default)]
pub(super) struct CheckoutWork {
    /// The paths to remove; excluded files below them stay.
    pub(super) removed: Vec<Vec<u8>>,
    /// The entries to write.
    pub(super) wanted: BTreeMap<Vec<u8>, WantedEntry>,
}

impl CheckoutWork {
    pub(super) fn is_empty(&self) -> bool {
        self.removed.is_empty() && self.wanted.is_empty()
    }
}

/// The outcome of filling a checkout.
#[derive(Debug, Default)]
pub(super) struct FillOutcome {
    /// The entries that were written or removed.
    pub(super) changes: ManifestChanges,
    /// The files whose content is damaged. Nothing is at their paths.
    pub(super) corrupt: Vec<EntryPath>,
}

/// A path and the entry that is to be there.
type PathWithEntry = (Vec<u8>, WantedEntry);

/// Carries out the work; returns the written entries and the damaged files. Dropping the future ends the work at the
/// next file.
pub(super) async fn fill_tree(
    tree: &OwnedFd,
    files: CheckoutFiles,
    work: CheckoutWork,
    kept: Exclusions,
) -> Result<FillOutcome> {
    let is_file = |(_, wanted): &PathWithEntry| matches!(wanted.what, EntryForm::File { .. });
    let (wanted_files, others): (Vec<_>, Vec<_>) = work.wanted.into_iter().partition(is_file);
    // Names that are not UTF-8 cannot be read by path, only from the root directory by handle.
    let is_raw = |(path, _): &PathWithEntry| EntryPath::from_bytes(path.clone()).is_escaped();
    let root = if wanted_files.iter().any(is_raw) {
        files.root_directory().await?
    } else {
        None
    };
    let is_cancelled = Arc::new(AtomicBool::new(false));
    let _cancellation = FillCancellation(Arc::clone(&is_cancelled));
    let fill = CheckoutFill {
        tree: tree.try_clone().map_err(|_| out_of_handles())?,
        storage: files.storage,
        root,
        runtime: Handle::current(),
        kept,
        is_cancelled,
    };
    run_blocking(move || fill.put_entries(&work.removed, &others, wanted_files)).await
}

struct FillCancellation(Arc<AtomicBool>);

impl Drop for FillCancellation {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The parts of one filling of a checkout that all threads share.
struct CheckoutFill {
    tree: OwnedFd,
    storage: Arc<dyn Storage>,
    /// The root directory of the files, if one of them has a name that is not UTF-8.
    root: Option<Arc<dyn DirectoryHandle>>,
    /// Drives the reads of the storage.
    runtime: Handle,
    kept: Exclusions,
    is_cancelled: Arc<AtomicBool>,
}

impl CheckoutFill {
    fn put_entries(
        &self,
        removed: &[Vec<u8>],
        others: &[PathWithEntry],
        files: Vec<PathWithEntry>,
    ) -> Result<FillOutcome> {
        let mut placing = BenchPlacer::new(self.tree.as_fd());
        // Deepest first, so that a directory is empty before it is removed.
        removed
            .iter()
            .rev()
            .try_for_each(|path| placing.remove_entry(path, &self.kept))?;
        for (path, wanted) in others {
            match &wanted.what {
                EntryForm::Directory { mode } => placing.place_directory(path, *mode, wanted.modified)?,
                EntryForm::Symlink { target } => placing.place_link(path, target, wanted.modified)?,
                EntryForm::File { .. } | EntryForm::Unreadable => {}
            }
        }
        let runs = split_into_runs(files);
        // Before there are several threads, so that one never takes permission bits back that another still needs.
        for run in &runs {
            placing.prepare_parent(&run[0].0)?;
        }
        let parts = self.put_on_threads(runs)?;
        let mut filled = FillOutcome {
            changes: to_manifest_changes(placing.finish()?, &BTreeMap::new()),
            corrupt: Vec::new(),
        };
        for part in parts {
            filled.changes.extend(part.changes);
            filled.corrupt.extend(part.corrupt);
        }
        filled.corrupt.sort();
        Ok(filled)
    }

    /// Writes the files; returns an outcome for each thread.
    fn put_on_threads(&self, runs: Vec<Vec<PathWithEntry>>) -> Result<Vec<FillOutcome>> {
        let count = runs.len().min(MAX_THREADS);
        let queue = Mutex::new(runs.into_iter());
        let work = || {
            self.put_runs(&queue)
                .inspect_err(|_| self.is_cancelled.store(true, Ordering::Relaxed))
        };
        thread::scope(|scope| {
            // If the system refuses a thread, the work goes on with those that there are.
            let others: Vec<_> = (1..count)
                .map_while(|_| thread::Builder::new().spawn_scoped(scope, work).ok())
                .collect();
            let own = work();
            let joined = others
                .into_iter()
                .map(|other| other.join().unwrap_or_else(|panic| resume_unwind(panic)));
            std::iter::once(own).chain(joined).collect()
        })
    }

    /// Writes run after run, until there are no more or the work is cancelled.
    fn put_runs(&self, queue: &Mutex<vec::IntoIter<Vec<PathWithEntry>>>) -> Result<FillOutcome> {
        let mut placing = BenchPlacer::new(self.tree.as_fd());
        let (mut versions, mut corrupt) = (BTreeMap::new(), Vec::new());
        while !self.is_cancelled() {
            let next = queue.lock().expect("no holder panics").next();
            let Some(run) = next else { break };
            for (path, wanted) in run {
                if self.is_cancelled() {
                    break;
                }
                match self.put_file(&mut placing, &path, &wanted) {
                    Err(error) if error.kind() == ErrorKind::Corrupt => {
                        // The old file at this path must not pass for the present one.
                        placing.remove_entry(&path, &self.kept)?;
                        corrupt.push(EntryPath::from_bytes(path));
                    }
                    version => drop(versions.insert(path, version?)),
                }
            }
        }
        Ok(FillOutcome {
            changes: to_manifest_changes(placing.finish()?, &versions),
            corrupt,
        })
    }

    fn is_cancelled(&self) -> bool {
        self.is_cancelled.load(Ordering::Relaxed)
    }

    /// Writes the file at `path`; returns the number of its version.
    fn put_file(&self, placing: &mut BenchPlacer<'_>, path: &[u8], wanted: &WantedEntry) -> Result<u64> {
        let entry = EntryPath::from_bytes(path.to_vec());
        let Some(name) = entry.as_path() else {
            return self.put_raw_file(placing, &entry, wanted);
        };
        let first = self.read_piece(name, 0, Precondition::Any)?;
        let mode = first.mode.unwrap_or(FILE_MODE);
        placing.place_file(path, mode, wanted.modified, |target| {
            write_all(target, &first.bytes).at_path(path)?;
            let mut place = first.bytes.len() as u64;
            while place < first.size {
                // All pieces must come from one version, or the file would be a mixture.
                let piece = self.read_piece(name, place, Precondition::Version(first.version.clone()))?;
                write_all(target, &piece.bytes).at_path(path)?;
                place += piece.bytes.len() as u64;
            }
            Ok(())
        })?;
        Ok(version_number(&first.version))
    }

    fn read_piece(&self, path: &WsPath, start: u64, precondition: Precondition) -> Result<ReadResult> {
        let options = ReadOptions {
            range: Some(start..start + PIECE_BYTES),
            follow: Follow::Never,
            max_bytes: None,
            precondition,
        };
        let piece = self.runtime.block_on(self.storage.read(path, options))?;
        if piece.bytes.is_empty() && start < piece.size {
            let message = format!("{} is shorter than expected", path.to_quoted());
            return Err(Error::new(ErrorKind::Corrupt, message).at_path(path));
        }
        Ok(piece)
    }

    /// Writes a file whose name is not UTF-8; returns the number of its version. A file that the storage cannot read is
    /// left out.
    fn put_raw_file(&self, placing: &mut BenchPlacer<'_>, entry: &EntryPath, wanted: &WantedEntry) -> Result<u64> {
        let EntryForm::File { mode, version, .. } = wanted.what else {
            return Ok(0);
        };
        let path = entry.as_bytes();
        let mut content = match raw_file(self.root.as_deref(), path) {
            Err(error) if error.kind() == ErrorKind::Unsupported => return Ok(0),
            opened => opened?.content,
        };
        let mut piece = Vec::new();
        placing.place_file(path, mode.unwrap_or(FILE_MODE), wanted.modified, |target| {
            loop {
                piece.clear();
                let read = (&mut content).take(PIECE_BYTES).read_to_end(&mut piece);
                match read {
                    Ok(0) => return Ok(()),
                    Ok(_) => write_all(target, &piece).at_path(path)?,
                    Err(_) => return Err(unreadable_file_error(entry)),
                }
            }
        })?;
        Ok(version.unwrap_or(0))
    }
}

/// Divides the files, which are in the order of their paths, into runs of files of one directory.
fn split_into_runs(files: Vec<PathWithEntry>) -> Vec<Vec<PathWithEntry>> {
    let mut runs: Vec<Vec<PathWithEntry>> = Vec::new();
    for file in files {
        let above = split_path(&file.0).0;
        match runs.last_mut() {
            Some(run) if run.len() < RUN_FILES && split_path(&run[0].0).0 == above => run.push(file),
            _ => runs.push(vec![file]),
        }
    }
    runs
}

fn unreadable_file_error(path: &EntryPath) -> Error {
    let message = format!("the content of {} cannot be read", quote(&path.display_path()));
    Error::new(ErrorKind::Corrupt, message).hint("`garret fsck` names damaged files, and how to repair them")
}

/// Returns manifest changes for the written entries, with their known versions.
pub(super) fn to_manifest_changes(
    placed: BTreeMap<Vec<u8>, Option<EntryStatus>>,
    versions: &BTreeMap<Vec<u8>, u64>,
) -> ManifestChanges {
    let record = |(path, seen): (Vec<u8>, Option<EntryStatus>)| {
        let version = versions.get(&path).copied().unwrap_or(0);
        let record = seen.map(|seen| ManifestRecord { seen, version });
        (path, record)
    };
    placed.into_iter().map(record).collect()
}

fn out_of_handles() -> Error {
    Error::new(ErrorKind::Unavailable, "the system is out of handles")
}

pub(super) fn update_stopped() -> Error {
    Error::new(ErrorKind::Unavailable, "updating the files for commands was stopped")
}
