//! Writes files of the journal into a checkout: several files are read at once, and one thread puts them in place.

use std::collections::BTreeMap;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use garret_core::{
    Directory, EntryPath, Error, ErrorKind, Exclusions, Follow, OpenFile, Precondition, ReadOptions, ReadResult,
    Result, Storage, Timestamp, WsPath,
};
use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::manifest::{Changes, Record};
use super::placing::{Placing, PlacingOptions, write_all};
use super::wanted::{FILE_MODE, Files, Wanted, What, raw_file, version_number};
use crate::effects::error::At;
use crate::effects::seen::Seen;

const READERS: usize = 8;
const WAITING_FILES: usize = 32;
const WAITING_PIECES: usize = 2;
/// A larger file is read in pieces of this size.
const PIECE_BYTES: u64 = 1024 * 1024;

/// The work to bring a checkout up to date.
#[derive(Debug, Default)]
pub(super) struct Work {
    /// The paths to remove; excluded files below them stay.
    pub(super) removed: Vec<Vec<u8>>,
    /// The entries to write.
    pub(super) wanted: BTreeMap<Vec<u8>, Wanted>,
}

impl Work {
    pub(super) fn is_empty(&self) -> bool {
        self.removed.is_empty() && self.wanted.is_empty()
    }
}

/// The outcome of filling a checkout.
#[derive(Debug, Default)]
pub(super) struct Filled {
    /// The entries that were written or removed.
    pub(super) changes: Changes,
    /// The files whose content is damaged. Nothing is at their paths.
    pub(super) corrupt: Vec<EntryPath>,
}

/// A message from a reader.
enum Incoming {
    File(ReadFile),
    /// The content of the file at this path is damaged.
    Corrupt(Vec<u8>),
}

/// A file that was read, or the beginning of one.
struct ReadFile {
    path: Vec<u8>,
    mode: u32,
    version: u64,
    modified: Option<Timestamp>,
    first: Bytes,
    rest: Option<Receiver<Result<Bytes>>>,
}

/// The files to read from.
#[derive(Clone)]
struct Source {
    storage: Arc<dyn Storage>,
    root: Option<Arc<dyn Directory>>,
}

/// Carries out the work; returns the written entries and the damaged files.
pub(super) async fn fill(tree: &OwnedFd, files: Files, work: Work, kept: Exclusions) -> Result<Filled> {
    let mut wanted_files = Vec::new();
    let mut others = Vec::new();
    for (path, wanted) in work.wanted {
        match wanted.what {
            What::File { .. } => wanted_files.push((path, wanted)),
            _ => others.push((path, wanted)),
        }
    }
    // Names that are not UTF-8 cannot be read by path, only from the root directory by handle.
    let is_raw = |(path, _): &(Vec<u8>, Wanted)| EntryPath::from_bytes(path.clone()).is_escaped();
    let root = if wanted_files.iter().any(is_raw) {
        files.root().await?
    } else {
        None
    };
    let source = Source {
        storage: files.storage,
        root,
    };
    let tree = tree.try_clone().map_err(|_| out_of_handles())?;
    let (sender, receiver) = channel(WAITING_FILES);
    let writer = tokio::task::spawn_blocking(move || put(&tree, &work.removed, &others, receiver, &kept));
    let read = read_all(source, wanted_files, sender).await;
    let written = writer.await.map_err(|_| stopped())?;
    // If both failed, the writer failed first: readers only notice that nobody takes their pieces.
    let filled = written?;
    read.map(|()| filled)
}

async fn read_all(files: Source, wanted: Vec<(Vec<u8>, Wanted)>, sender: Sender<Incoming>) -> Result<()> {
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
        outcome = outcome.and(reader.map_err(|_| stopped()).flatten());
    }
    outcome
}

async fn read_one(files: &Source, path: Vec<u8>, wanted: &Wanted, sender: &Sender<Incoming>) -> Result<()> {
    let entry = EntryPath::from_bytes(path.clone());
    let Some(name) = entry.as_path() else {
        return read_raw(files, path, wanted, sender).await;
    };
    let first = match read_piece(&*files.storage, name, 0, Precondition::Any).await {
        Err(error) if error.kind() == ErrorKind::Corrupt => {
            return sender.send(Incoming::Corrupt(path)).await.map_err(|_| stopped());
        }
        first => first?,
    };
    let (size, at_hand) = (first.size, first.bytes.len() as u64);
    let (pieces, rest) = channel(WAITING_PIECES);
    let file = ReadFile {
        path,
        mode: first.mode.unwrap_or(FILE_MODE),
        version: version_number(&first.version),
        modified: wanted.modified,
        first: first.bytes,
        rest: (at_hand < size).then_some(rest),
    };
    sender.send(Incoming::File(file)).await.map_err(|_| stopped())?;
    let mut place = at_hand;
    while place < size {
        // All pieces must come from one version, or the file would be a mixture.
        let same = Precondition::Version(first.version.clone());
        let piece = read_piece(&*files.storage, name, place, same)
            .await
            .map(|piece| piece.bytes);
        place += piece.as_ref().map_or(size, |bytes| bytes.len() as u64);
        pieces.send(piece).await.map_err(|_| stopped())?;
    }
    Ok(())
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
            format!("{} is shorter than expected", path.quoted()),
        )
        .at(path))
    } else {
        Ok(piece)
    }
}

/// Reads a file whose name is not UTF-8. A file that the storage cannot read is left out.
async fn read_raw(files: &Source, path: Vec<u8>, wanted: &Wanted, sender: &Sender<Incoming>) -> Result<()> {
    let What::File { mode, version, .. } = wanted.what else {
        return Ok(());
    };
    let (root, name) = (files.root.clone(), path.clone());
    let opened = tokio::task::spawn_blocking(move || raw_file(root.as_deref(), &name));
    let opened = match opened.await.map_err(|_| stopped())? {
        Err(error) if error.kind() == ErrorKind::Unsupported => return Ok(()),
        Err(error) if error.kind() == ErrorKind::Corrupt => {
            return sender.send(Incoming::Corrupt(path)).await.map_err(|_| stopped());
        }
        opened => opened?,
    };
    let (pieces, rest) = channel(WAITING_PIECES);
    let file = ReadFile {
        path,
        mode: mode.unwrap_or(FILE_MODE),
        version: version.unwrap_or(0),
        modified: wanted.modified,
        first: Bytes::new(),
        rest: Some(rest),
    };
    sender.send(Incoming::File(file)).await.map_err(|_| stopped())?;
    let read = tokio::task::spawn_blocking(move || send_pieces(opened, &pieces));
    read.await.map_err(|_| stopped())?
}

fn send_pieces(opened: OpenFile, pieces: &Sender<Result<Bytes>>) -> Result<()> {
    let mut content = opened.content;
    loop {
        let mut piece = Vec::new();
        let read = (&mut content).take(PIECE_BYTES).read_to_end(&mut piece);
        let piece = match read {
            Ok(0) => return Ok(()),
            Ok(_) => Ok(piece.into()),
            Err(_) => Err(Error::new(ErrorKind::Corrupt, "a file of the workspace cannot be read")),
        };
        let is_last = piece.is_err();
        pieces.blocking_send(piece).map_err(|_| stopped())?;
        if is_last {
            return Ok(());
        }
    }
}

fn put(
    tree: &OwnedFd,
    removed: &[Vec<u8>],
    others: &[(Vec<u8>, Wanted)],
    mut files: Receiver<Incoming>,
    kept: &Exclusions,
) -> Result<Filled> {
    let mut placing = Placing::new(tree.as_fd(), PlacingOptions::default());
    // Deepest first, so that a directory is empty before it is removed.
    removed.iter().rev().try_for_each(|path| placing.remove(path, kept))?;
    for (path, wanted) in others {
        match &wanted.what {
            What::Directory { mode } => placing.directory(path, *mode, wanted.modified)?,
            What::Symlink { target } => placing.link(path, target, wanted.modified)?,
            What::File { .. } | What::OutOfReach => {}
        }
    }
    let (mut versions, mut corrupt) = (BTreeMap::new(), Vec::new());
    while let Some(incoming) = files.blocking_recv() {
        let (path, outcome) = match incoming {
            Incoming::Corrupt(path) => (path, Outcome::Corrupt),
            Incoming::File(file) => {
                versions.insert(file.path.clone(), file.version);
                (file.path.clone(), put_file(&mut placing, file)?)
            }
        };
        if outcome == Outcome::Corrupt {
            // The old file at this path must not pass for the present one.
            placing.remove(&path, kept)?;
            corrupt.push(EntryPath::from_bytes(path));
        }
    }
    corrupt.sort();
    Ok(Filled {
        changes: recorded(placing.finish()?, &versions),
        corrupt,
    })
}

/// The outcome for one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Placed,
    Corrupt,
}

fn put_file(placing: &mut Placing<'_>, file: ReadFile) -> Result<Outcome> {
    let ReadFile { path, first, rest, .. } = file;
    let placed = placing.file(&path, file.mode, file.modified, |target| {
        write_all(target, &first).at(&path)?;
        let mut rest = rest;
        while let Some(piece) = rest.as_mut().and_then(Receiver::blocking_recv) {
            write_all(target, &piece?).at(&path)?;
        }
        Ok(())
    });
    match placed {
        Err(error) if error.kind() == ErrorKind::Corrupt => Ok(Outcome::Corrupt),
        placed => placed.map(|()| Outcome::Placed),
    }
}

/// Returns manifest changes for the written entries, with their known versions.
pub(super) fn recorded(placed: BTreeMap<Vec<u8>, Option<Seen>>, versions: &BTreeMap<Vec<u8>, u64>) -> Changes {
    let record = |(path, seen): (Vec<u8>, Option<Seen>)| {
        let version = versions.get(&path).copied().unwrap_or(0);
        let record = seen.map(|seen| Record { seen, version });
        (path, record)
    };
    placed.into_iter().map(record).collect()
}

fn out_of_handles() -> Error {
    Error::new(ErrorKind::Unavailable, "the system is out of handles")
}

pub(super) fn stopped() -> Error {
    Error::new(ErrorKind::Unavailable, "updating the files for commands was stopped")
}
