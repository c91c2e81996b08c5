//! Writes files of the journal into a checkout: several files are read at once, and one thread puts them in place.

use std::collections::BTreeMap;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use garret_core::path::quote;
use garret_core::{
    DirectoryHandle, EntryPath, Error, ErrorKind, Exclusions, Follow, OpenFile, Precondition, ReadOptions, ReadResult,
    Result, Storage, Timestamp, WsPath,
};
use garret_handles::{run_blocking, write_all};
use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::bench_placer::BenchPlacer;
use super::manifest::{ManifestChanges, ManifestRecord};
use super::wanted_entries::{CheckoutFiles, EntryForm, FILE_MODE, WantedEntry, raw_file, version_number};
use crate::effects::entry_status::EntryStatus;
use crate::effects::path_error::ErrnoAtPath;

const READERS: usize = 8;
const WAITING_FILES: usize = 32;
const WAITING_PIECES: usize = 2;
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

/// A message from a reader.
enum CheckoutReaderMessage {
    File(IncomingReadFile),
    /// The content of the file at this path is damaged.
    Corrupt(Vec<u8>),
}

/// A file that was read, or the beginning of one.
struct IncomingReadFile {
    path: Vec<u8>,
    mode: u32,
    version: u64,
    modified: Option<Timestamp>,
    first: Bytes,
    rest: Option<Receiver<Result<Bytes>>>,
}

/// The files to read from.
#[derive(Clone)]
struct CheckoutSource {
    storage: Arc<dyn Storage>,
    root: Option<Arc<dyn DirectoryHandle>>,
}

/// Carries out the work; returns the written entries and the damaged files.
pub(super) async fn fill_tree(
    tree: &OwnedFd,
    files: CheckoutFiles,
    work: CheckoutWork,
    kept: Exclusions,
) -> Result<FillOutcome> {
    let mut wanted_files = Vec::new();
    let mut others = Vec::new();
    for (path, wanted) in work.wanted {
        match wanted.what {
            EntryForm::File { .. } => wanted_files.push((path, wanted)),
            _ => others.push((path, wanted)),
        }
    }
    // Names that are not UTF-8 cannot be read by path, only from the root directory by handle.
    let is_raw = |(path, _): &(Vec<u8>, WantedEntry)| EntryPath::from_bytes(path.clone()).is_escaped();
    let root = if wanted_files.iter().any(is_raw) {
        files.root_directory().await?
    } else {
        None
    };
    let source = CheckoutSource {
        storage: files.storage,
        root,
    };
    let tree = tree.try_clone().map_err(|_| out_of_handles())?;
    let (sender, receiver) = channel(WAITING_FILES);
    let writer = run_blocking(move || put_entries(&tree, &work.removed, &others, receiver, &kept));
    let (written, read) = tokio::join!(writer, read_all(source, wanted_files, sender));
    // If both failed, the writer failed first: readers only notice that nobody takes their pieces.
    let filled = written?;
    read.map(|()| filled)
}

async fn read_all(
    files: CheckoutSource,
    wanted: Vec<(Vec<u8>, WantedEntry)>,
    sender: Sender<CheckoutReaderMessage>,
) -> Result<()> {
    let queue = Arc::new(Mutex::new(wanted.into_iter()));
    let mut readers = tokio::task::JoinSet::new();
    for _ in 0..READERS {
        let (files, queue, sender) = (files.clone(), queue.clone(), sender.clone());
        readers.spawn(async move {
            loop {
                let next = queue.lock().expect("no holder panics").next();
                let Some((path, wanted)) = next else {
                    return Ok(());
                };
                read_one(&files, path, &wanted, &sender).await?;
            }
        });
    }
    drop(sender);
    let mut outcome = Ok(());
    while let Some(reader) = readers.join_next().await {
        outcome = outcome.and(reader.map_err(|_| update_stopped()).flatten());
    }
    outcome
}

async fn read_one(
    files: &CheckoutSource,
    path: Vec<u8>,
    wanted: &WantedEntry,
    sender: &Sender<CheckoutReaderMessage>,
) -> Result<()> {
    let entry = EntryPath::from_bytes(path.clone());
    let Some(name) = entry.as_path() else {
        return read_raw(files, path, wanted, sender).await;
    };
    let first = match read_piece(&*files.storage, name, 0, Precondition::Any).await {
        Err(error) if error.kind() == ErrorKind::Corrupt => {
            return send_message(sender, CheckoutReaderMessage::Corrupt(path)).await;
        }
        first => first?,
    };
    let (size, at_hand) = (first.size, first.bytes.len() as u64);
    let (pieces, rest) = channel(WAITING_PIECES);
    let file = IncomingReadFile {
        path,
        mode: first.mode.unwrap_or(FILE_MODE),
        version: version_number(&first.version),
        modified: wanted.modified,
        first: first.bytes,
        rest: (at_hand < size).then_some(rest),
    };
    send_message(sender, CheckoutReaderMessage::File(file)).await?;
    let mut place = at_hand;
    while place < size {
        // All pieces must come from one version, or the file would be a mixture.
        let same = Precondition::Version(first.version.clone());
        let piece = read_piece(&*files.storage, name, place, same)
            .await
            .map(|piece| piece.bytes);
        place += piece.as_ref().map_or(size, |bytes| bytes.len() as u64);
        pieces.send(piece).await.map_err(|_| update_stopped())?;
    }
    Ok(())
}

async fn send_message(sender: &Sender<CheckoutReaderMessage>, message: CheckoutReaderMessage) -> Result<()> {
    sender.send(message).await.map_err(|_| update_stopped())
}

async fn read_piece(files: &dyn Storage, path: &WsPath, start: u64, precondition: Precondition) -> Result<ReadResult> {
    let options = ReadOptions {
        range: Some(start..start + PIECE_BYTES),
        follow: Follow::Never,
        max_bytes: None,
        precondition,
    };
    let piece = files.read(path, options).await?;
    if piece.bytes.is_empty() && start < piece.size {
        Err(Error::new(
            ErrorKind::Corrupt,
            format!("{} is shorter than expected", path.to_quoted()),
        )
        .at_path(path))
    } else {
        Ok(piece)
    }
}

/// Reads a file whose name is not UTF-8. A file that the storage cannot read is left out.
async fn read_raw(
    files: &CheckoutSource,
    path: Vec<u8>,
    wanted: &WantedEntry,
    sender: &Sender<CheckoutReaderMessage>,
) -> Result<()> {
    let EntryForm::File { mode, version, .. } = wanted.what else {
        return Ok(());
    };
    let (root, name) = (files.root.clone(), path.clone());
    let opened = match run_blocking(move || raw_file(root.as_deref(), &name)).await {
        Err(error) if error.kind() == ErrorKind::Unsupported => return Ok(()),
        Err(error) if error.kind() == ErrorKind::Corrupt => {
            return send_message(sender, CheckoutReaderMessage::Corrupt(path)).await;
        }
        opened => opened?,
    };
    let (pieces, rest) = channel(WAITING_PIECES);
    let shown = EntryPath::from_bytes(path.clone());
    let file = IncomingReadFile {
        path,
        mode: mode.unwrap_or(FILE_MODE),
        version: version.unwrap_or(0),
        modified: wanted.modified,
        first: Bytes::new(),
        rest: Some(rest),
    };
    send_message(sender, CheckoutReaderMessage::File(file)).await?;
    run_blocking(move || send_pieces(opened, &shown, &pieces)).await
}

fn send_pieces(opened: OpenFile, path: &EntryPath, pieces: &Sender<Result<Bytes>>) -> Result<()> {
    let mut content = opened.content;
    loop {
        let mut piece = Vec::new();
        let read = (&mut content).take(PIECE_BYTES).read_to_end(&mut piece);
        let piece = match read {
            Ok(0) => return Ok(()),
            Ok(_) => Ok(piece.into()),
            Err(_) => Err(unreadable_file_error(path)),
        };
        let is_last = piece.is_err();
        pieces.blocking_send(piece).map_err(|_| update_stopped())?;
        if is_last {
            return Ok(());
        }
    }
}

fn unreadable_file_error(path: &EntryPath) -> Error {
    let message = format!("the content of {} cannot be read", quote(&path.display_path()));
    Error::new(ErrorKind::Corrupt, message).hint("`garret fsck` names damaged files, and how to repair them")
}

fn put_entries(
    tree: &OwnedFd,
    removed: &[Vec<u8>],
    others: &[(Vec<u8>, WantedEntry)],
    mut files: Receiver<CheckoutReaderMessage>,
    kept: &Exclusions,
) -> Result<FillOutcome> {
    let mut placing = BenchPlacer::new(tree.as_fd());
    // Deepest first, so that a directory is empty before it is removed.
    removed
        .iter()
        .rev()
        .try_for_each(|path| placing.remove_entry(path, kept))?;
    for (path, wanted) in others {
        match &wanted.what {
            EntryForm::Directory { mode } => placing.place_directory(path, *mode, wanted.modified)?,
            EntryForm::Symlink { target } => placing.place_link(path, target, wanted.modified)?,
            EntryForm::File { .. } | EntryForm::Unreadable => {}
        }
    }
    let (mut versions, mut corrupt) = (BTreeMap::new(), Vec::new());
    while let Some(incoming) = files.blocking_recv() {
        let corrupt_path = match incoming {
            CheckoutReaderMessage::Corrupt(path) => path,
            CheckoutReaderMessage::File(file) => {
                let path = file.path.clone();
                versions.insert(path.clone(), file.version);
                match put_file(&mut placing, file) {
                    Err(error) if error.kind() == ErrorKind::Corrupt => path,
                    placed => {
                        placed?;
                        continue;
                    }
                }
            }
        };
        // The old file at this path must not pass for the present one.
        placing.remove_entry(&corrupt_path, kept)?;
        corrupt.push(EntryPath::from_bytes(corrupt_path));
    }
    corrupt.sort();
    Ok(FillOutcome {
        changes: to_manifest_changes(placing.finish()?, &versions),
        corrupt,
    })
}

fn put_file(placing: &mut BenchPlacer<'_>, file: IncomingReadFile) -> Result<()> {
    let IncomingReadFile { path, first, rest, .. } = file;
    placing.place_file(&path, file.mode, file.modified, |target| {
        write_all(target, &first).at_path(&path)?;
        let mut rest = rest;
        while let Some(piece) = rest.as_mut().and_then(Receiver::blocking_recv) {
            write_all(target, &piece?).at_path(&path)?;
        }
        Ok(())
    })
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
