//! Reads entries of the files as effects that can be placed on a layer, with names that are not UTF-8. The content of
//! large files is read only when it is placed.

use std::collections::BTreeSet;
use std::io::{self, Read};
use std::sync::Arc;

use bytes::Bytes;
use garret_core::{
    Content, ContentSource, DirectoryHandle, Effect, EntryKind, EntryPath, Error, ErrorKind, Follow, ListOptions,
    PathImage, PlacedEntry, Point, Precondition, ReadOptions, ReadResult, Result, Storage, Version, WsPath,
};
use tokio::runtime::Handle;

use crate::file_access::FileSource;
use crate::path_images::{image_of_stat, is_absence, read_image};
use crate::shell::effects::commit_without_history::skip_unreadable;

/// Larger files are read in pieces of this size.
pub(in crate::shell) const PIECE_BYTES: u64 = 1024 * 1024;

impl FileSource {
    /// Returns the entry of the files at each path as an effect, in the order of paths. Paths that cannot be read are
    /// left out.
    pub(in crate::shell) async fn read_entries_as_effects(
        &self,
        paths: impl Iterator<Item = &EntryPath>,
    ) -> Result<Vec<Effect>> {
        let paths: BTreeSet<&EntryPath> = paths.collect();
        let mut root: Option<Arc<dyn DirectoryHandle>> = None;
        let mut effects = Vec::new();
        for path in paths {
            let looked = match path.as_path() {
                Some(valid) => self.read_placed_at(valid).await,
                None => {
                    if root.is_none() {
                        root = self.open_file_root().await?;
                    }
                    match &root {
                        Some(root) => read_raw_placed(root, path.as_bytes()),
                        // Neither the storage nor a history can hold such a name, so there is nothing to place.
                        None => continue,
                    }
                }
            };
            effects.extend(skip_unreadable(looked)?.map(|placed| effect_at(path, placed)));
        }
        Ok(effects)
    }

    /// Opens the root directory of the files, through which names that are not UTF-8 can be reached.
    async fn open_file_root(&self) -> Result<Option<Arc<dyn DirectoryHandle>>> {
        if let Some(root) = self.storage.open_directory(&WsPath::root())? {
            return Ok(Some(root.into()));
        }
        match &self.history {
            Some(history) => Ok(Some(history.open_root_directory(&Point::Now).await?.into())),
            None => Ok(None),
        }
    }

    /// Returns the entry of the files at `path`.
    pub(in crate::shell) async fn read_placed_at(&self, path: &WsPath) -> Result<PlacedEntry> {
        let Some(image) = read_image(&*self.storage, path).await? else {
            return Ok(PlacedEntry::Nothing);
        };
        if image.kind != EntryKind::File {
            return Ok(placed_without_content(&image));
        }
        match open_file_content(&self.storage, path).await {
            Ok(content) => Ok(PlacedEntry::File {
                content,
                mode: image.mode,
            }),
            // Another program removed the file between the two calls.
            Err(error) if is_absence(error.kind()) => Ok(PlacedEntry::Nothing),
            Err(error) => Err(error),
        }
    }

    /// Returns the entries of the files at `paths` and below them, with the directories above them.
    pub(in crate::shell) async fn read_trees_as_effects(&self, paths: &[EntryPath]) -> Result<Vec<Effect>> {
        let mut all: BTreeSet<EntryPath> = BTreeSet::new();
        for path in paths {
            all.extend(path_with_ancestors(path));
            let Some(valid) = path.as_path() else { continue };
            let mut options = ListOptions {
                is_deep: true,
                follow: Follow::Never,
                ..ListOptions::default()
            };
            while let Ok(page) = self.storage.list(valid, options.clone()).await {
                all.extend(page.entries.iter().map(|entry| entry.path.clone()));
                match page.entries.last().filter(|_| page.has_more) {
                    Some(last) => options.after = Some(last.path.clone()),
                    None => break,
                }
            }
        }
        self.read_entries_as_effects(all.iter()).await
    }
}

/// Returns a path and the directories above it, without the root.
pub(in crate::shell) fn path_with_ancestors(path: &EntryPath) -> Vec<EntryPath> {
    let bytes = path.as_bytes();
    let slashes = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'/');
    let above = slashes.map(|(at, _)| EntryPath::from_bytes(bytes[..at].to_vec()));
    above
        .chain([path.clone()])
        .filter(|one| !one.as_bytes().is_empty())
        .collect()
}

/// Makes an effect of an entry, without a time.
pub(in crate::shell) fn effect_at(path: &EntryPath, placed: PlacedEntry) -> Effect {
    Effect {
        path: path.clone(),
        placed,
        modified: None,
        is_lost_below: false,
    }
}

/// Returns the entry that an image without content stands for.
fn placed_without_content(image: &PathImage) -> PlacedEntry {
    match image.kind {
        EntryKind::Directory => PlacedEntry::Directory { mode: image.mode },
        EntryKind::Symlink => PlacedEntry::Symlink {
            target: image.target.clone().unwrap_or_default(),
        },
        EntryKind::File | EntryKind::Other => PlacedEntry::Nothing,
    }
}

/// Returns the content of a file: small content in memory, large content as a source that reads it later.
async fn open_file_content(storage: &Arc<dyn Storage>, path: &WsPath) -> Result<Content> {
    let first = read_piece(&**storage, path, 0, Precondition::Any).await?;
    if first.size <= PIECE_BYTES {
        return Ok(first.bytes.into());
    }
    Ok(Content::from_source(StorageFileSource {
        storage: storage.clone(),
        path: path.clone(),
        size: first.size,
        version: first.version,
        runtime: Handle::try_current().ok(),
    }))
}

pub(in crate::shell) async fn read_piece(
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

/// The content of a file in a storage, read a piece at a time. Reading fails if the file changes between two pieces.
#[derive(Debug, Clone)]
struct StorageFileSource {
    storage: Arc<dyn Storage>,
    path: WsPath,
    size: u64,
    version: Version,
    runtime: Option<Handle>,
}

impl StorageFileSource {
    fn read_piece_at(&self, at: u64) -> Result<Bytes> {
        let same = Precondition::Version(self.version.clone());
        let read = read_piece(&*self.storage, &self.path, at, same);
        // A storage may wait on timers and sockets of the runtime that its caller runs on, so that runtime drives the
        // read.
        let read = match &self.runtime {
            Some(runtime) => runtime.block_on(read),
            None => futures::executor::block_on(read),
        };
        read.map(|read| read.bytes)
    }
}

impl ContentSource for StorageFileSource {
    fn size(&self) -> u64 {
        self.size
    }

    fn open(&self) -> Result<Box<dyn Read + Send>> {
        Ok(Box::new(StorageFileReader {
            source: self.clone(),
            at: 0,
            piece: Bytes::new(),
        }))
    }
}

struct StorageFileReader {
    source: StorageFileSource,
    at: u64,
    piece: Bytes,
}

impl Read for StorageFileReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.piece.is_empty() && self.at < self.source.size {
            // On a thread of its own: the caller's may drive futures, and Tokio panics if such a thread blocks on
            // another future.
            let read = std::thread::scope(|scope| scope.spawn(|| self.source.read_piece_at(self.at)).join());
            self.piece = read.map_err(|_| io::ErrorKind::Other)?.map_err(io::Error::other)?;
            self.at += self.piece.len() as u64;
        }
        let count = buffer.len().min(self.piece.len());
        buffer[..count].copy_from_slice(&self.piece.split_to(count));
        Ok(count)
    }
}

/// Returns the entry at a path that is not UTF-8.
fn read_raw_placed(root: &Arc<dyn DirectoryHandle>, path: &[u8]) -> Result<PlacedEntry> {
    match look_up_raw_path(root, path) {
        Err(error) if is_absence(error.kind()) => Ok(PlacedEntry::Nothing),
        found => found,
    }
}

fn look_up_raw_path(root: &Arc<dyn DirectoryHandle>, path: &[u8]) -> Result<PlacedEntry> {
    let mut names: Vec<_> = path.split(|byte| *byte == b'/').collect();
    let name = names.pop().unwrap_or_default();
    let mut directory = root.clone();
    for name in names {
        directory = directory.open_directory(name)?.into();
    }
    let image = image_of_stat(&directory.stat_entry(name)?);
    if image.kind != EntryKind::File {
        return Ok(placed_without_content(&image));
    }
    let name = name.to_vec();
    let size = directory.open_file(&name)?.size;
    Ok(PlacedEntry::File {
        content: Content::from_source(RawNameSource { directory, name, size }),
        mode: image.mode,
    })
}

/// The content of a file that is reached through a handle on its directory.
struct RawNameSource {
    directory: Arc<dyn DirectoryHandle>,
    name: Vec<u8>,
    size: u64,
}

impl std::fmt::Debug for RawNameSource {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shown = EntryPath::from_bytes(self.name.clone()).display_path();
        formatter.debug_tuple("RawSource").field(&shown).finish()
    }
}

impl ContentSource for RawNameSource {
    fn size(&self) -> u64 {
        self.size
    }

    fn open(&self) -> Result<Box<dyn Read + Send>> {
        let opened = self.directory.open_file(&self.name)?;
        if opened.size == self.size {
            Ok(opened.content)
        } else {
            Err(Error::new(ErrorKind::Unavailable, "a file changed while it was read"))
        }
    }
}
