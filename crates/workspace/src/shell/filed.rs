//! What the files have at paths, as effects to be placed on a layer: names that no path can spell included, and large content read as it
//! is placed.

use std::collections::BTreeSet;
use std::io::{self, Read};
use std::sync::Arc;

use bytes::Bytes;
use garret_core::{
    Content, ContentSource, Directory, Effect, EntryKind, EntryPath, Error, ErrorKind, Follow, Image, ListOptions,
    Placed, Point, Precondition, ReadOptions, ReadResult, Result, Storage, Version, WsPath,
};
use tokio::runtime::Handle;

use super::batch::{is_absence, unless_closed};
use super::images::image_of_stat;
use crate::Workspace;

/// Larger files are read in pieces of this size.
pub(super) const PIECE_BYTES: u64 = 1024 * 1024;

impl Workspace {
    /// What the files have at each path, in the order of paths. What cannot be looked at is left out.
    pub(super) async fn as_in_files(&self, paths: impl Iterator<Item = &EntryPath>) -> Result<Vec<Effect>> {
        let paths: BTreeSet<&EntryPath> = paths.collect();
        let mut root: Option<Arc<dyn Directory>> = None;
        let mut effects = Vec::new();
        for path in paths {
            let looked = match path.as_path() {
                Some(valid) => self.placed_at(valid).await,
                None => {
                    if root.is_none() {
                        root = self.root_of_files().await?;
                    }
                    match &root {
                        Some(root) => raw_placed(root, path.as_bytes()),
                        // The storage holds no such name.
                        None => continue,
                    }
                }
            };
            effects.extend(unless_closed(looked)?.map(|placed| Effect {
                path: path.clone(),
                placed,
                modified: None,
                is_lost_below: false,
            }));
        }
        Ok(effects)
    }

    /// The root, for names that no path can spell.
    async fn root_of_files(&self) -> Result<Option<Arc<dyn Directory>>> {
        if let Some(root) = self.storage().open_directory(&WsPath::root())? {
            return Ok(Some(root.into()));
        }
        match &self.shared.history {
            Some(history) => Ok(Some(history.directory(&Point::Now).await?.into())),
            None => Ok(None),
        }
    }

    /// What the files have at `path`.
    pub(super) async fn placed_at(&self, path: &WsPath) -> Result<Placed> {
        let Some(image) = self.image_at(path).await? else {
            return Ok(Placed::Nothing);
        };
        if image.kind != EntryKind::File {
            return Ok(placed(&image));
        }
        match content_at(&self.shared.storage, path).await {
            Ok(content) => Ok(Placed::File {
                content,
                mode: image.mode,
            }),
            Err(error) if is_absence(error.kind()) => Ok(Placed::Nothing),
            Err(error) => Err(error),
        }
    }

    /// What the files have at `paths` and below.
    pub(super) async fn below_in_files(&self, paths: &[EntryPath]) -> Result<Vec<Effect>> {
        let mut all: BTreeSet<EntryPath> = BTreeSet::new();
        for path in paths {
            all.extend(ancestry(path));
            let Some(valid) = path.as_path() else { continue };
            let mut options = ListOptions {
                is_deep: true,
                follow: Follow::Never,
                ..ListOptions::default()
            };
            while let Ok(page) = self.storage().list(valid, options.clone()).await {
                all.extend(page.entries.iter().map(|entry| entry.path.clone()));
                match page.entries.last().filter(|_| page.has_more) {
                    Some(last) => options.after = Some(last.path.clone()),
                    None => break,
                }
            }
        }
        self.as_in_files(all.iter()).await
    }
}

/// A path and the directories above it, without the root.
pub(super) fn ancestry(path: &EntryPath) -> Vec<EntryPath> {
    let bytes = path.as_bytes();
    let slashes = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'/');
    let above = slashes.map(|(at, _)| EntryPath::from_bytes(bytes[..at].to_vec()));
    above
        .chain([path.clone()])
        .filter(|one| !one.as_bytes().is_empty())
        .collect()
}

/// What an image without content is.
fn placed(image: &Image) -> Placed {
    match image.kind {
        EntryKind::Directory => Placed::Directory { mode: image.mode },
        EntryKind::Symlink => Placed::Symlink {
            target: image.target.clone().unwrap_or_default(),
        },
        EntryKind::File | EntryKind::Other => Placed::Nothing,
    }
}

/// The content of a file: at hand where it is small.
async fn content_at(storage: &Arc<dyn Storage>, path: &WsPath) -> Result<Content> {
    let first = read_piece(&**storage, path, 0, Precondition::Any).await?;
    if first.size <= PIECE_BYTES {
        return Ok(first.bytes.into());
    }
    Ok(Content::from_source(FiledSource {
        storage: storage.clone(),
        path: path.clone(),
        size: first.size,
        version: first.version,
        runtime: Handle::try_current().ok(),
    }))
}

pub(super) async fn read_piece(
    storage: &dyn Storage,
    path: &WsPath,
    at: u64,
    precondition: Precondition,
) -> Result<ReadResult> {
    let options = ReadOptions {
        range: Some(at..at + PIECE_BYTES),
        follow: Follow::Never,
        precondition,
        ..ReadOptions::default()
    };
    storage.read(path, options).await
}

/// A file of a storage, read a piece at a time for as long as it is the same.
#[derive(Debug, Clone)]
struct FiledSource {
    storage: Arc<dyn Storage>,
    path: WsPath,
    size: u64,
    version: Version,
    runtime: Option<Handle>,
}

impl FiledSource {
    fn piece(&self, at: u64) -> Result<Bytes> {
        let same = Precondition::Version(self.version.clone());
        let read = read_piece(&*self.storage, &self.path, at, same);
        let read = match &self.runtime {
            Some(runtime) => runtime.block_on(read),
            None => futures::executor::block_on(read),
        };
        read.map(|read| read.bytes)
    }
}

impl ContentSource for FiledSource {
    fn size(&self) -> u64 {
        self.size
    }

    fn open(&self) -> Result<Box<dyn Read + Send>> {
        Ok(Box::new(FiledReader {
            source: self.clone(),
            at: 0,
            piece: Bytes::new(),
        }))
    }
}

struct FiledReader {
    source: FiledSource,
    at: u64,
    piece: Bytes,
}

impl Read for FiledReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.piece.is_empty() && self.at < self.source.size {
            // On a thread of its own: the caller's may be one that drives futures.
            let read = std::thread::scope(|scope| scope.spawn(|| self.source.piece(self.at)).join());
            self.piece = read.map_err(|_| io::ErrorKind::Other)?.map_err(io::Error::other)?;
            self.at += self.piece.len() as u64;
        }
        let count = buffer.len().min(self.piece.len());
        buffer[..count].copy_from_slice(&self.piece.split_to(count));
        Ok(count)
    }
}

/// What is at a path that no text can spell.
fn raw_placed(root: &Arc<dyn Directory>, path: &[u8]) -> Result<Placed> {
    match raw_found(root, path) {
        Err(error) if is_absence(error.kind()) => Ok(Placed::Nothing),
        found => found,
    }
}

fn raw_found(root: &Arc<dyn Directory>, path: &[u8]) -> Result<Placed> {
    let mut names: Vec<_> = path.split(|byte| *byte == b'/').collect();
    let name = names.pop().unwrap_or_default();
    let mut directory = root.clone();
    for name in names {
        directory = directory.open_directory(name)?.into();
    }
    let image = image_of_stat(&directory.stat(name)?);
    if image.kind != EntryKind::File {
        return Ok(placed(&image));
    }
    let name = name.to_vec();
    let size = directory.open_file(&name)?.size;
    Ok(Placed::File {
        content: Content::from_source(RawSource { directory, name, size }),
        mode: image.mode,
    })
}

/// A file reached by handle.
struct RawSource {
    directory: Arc<dyn Directory>,
    name: Vec<u8>,
    size: u64,
}

impl std::fmt::Debug for RawSource {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shown = EntryPath::from_bytes(self.name.clone()).shown();
        formatter.debug_tuple("RawSource").field(&shown).finish()
    }
}

impl ContentSource for RawSource {
    fn size(&self) -> u64 {
        self.size
    }

    fn open(&self) -> Result<Box<dyn Read + Send>> {
        let opened = self.directory.open_file(&self.name)?;
        match opened.size == self.size {
            true => Ok(opened.content),
            false => Err(Error::new(ErrorKind::Unavailable, "a file changed while it was read")),
        }
    }
}
