//! Directories made from the lists of a storage that has no handles.
//!
//! The whole part of the tree that a search covers is listed first, because that is cheap on every storage while a list
//! for each directory may not be. The walk then runs on its own threads as on any other storage. It asks for content
//! through a channel, and the future of the search answers, so that a storage is driven by the runtime that it belongs
//! to.

use std::io;
use std::io::Read;
use std::sync::Arc;

use bytes::{Buf, Bytes};
use futures::StreamExt;
use futures::channel::{mpsc, oneshot};
use futures::executor::block_on;
use garret_core::{
    DirectoryEntry, DirectoryHandle, Entry, EntryAlteration, EntryKind, EntryPath, Error, ErrorKind, Follow,
    LocalContent, OpenFile, ReadOptions, Result, Stat, StatOptions, Storage, WsPath,
};

/// A question of the walk to the storage.
pub(super) enum StorageQuestion {
    Read(WsPath, oneshot::Sender<Result<Bytes>>),
    Kind(WsPath, oneshot::Sender<Result<EntryKind>>),
}

/// Answers questions, up to `concurrency` at a time, until all senders are gone.
pub(super) async fn answer_questions(
    storage: &dyn Storage,
    concurrency: usize,
    questions: mpsc::UnboundedReceiver<StorageQuestion>,
) {
    questions
        .for_each_concurrent(concurrency, |question| async move {
            // A reply cannot be sent if the search was cancelled; then nobody needs it.
            match question {
                StorageQuestion::Read(path, reply) => drop(reply.send(read_content(storage, &path).await)),
                StorageQuestion::Kind(path, reply) => drop(reply.send(read_kind(storage, &path).await)),
            }
        })
        .await;
}

async fn read_content(storage: &dyn Storage, path: &WsPath) -> Result<Bytes> {
    let options = ReadOptions {
        follow: Follow::Never,
        ..ReadOptions::default()
    };
    storage.read(path, options).await.map(|read| read.bytes)
}

async fn read_kind(storage: &dyn Storage, path: &WsPath) -> Result<EntryKind> {
    let options = StatOptions {
        follow: Follow::Never,
        ..StatOptions::default()
    };
    storage.stat(path, options).await.map(|stat| stat.kind)
}

/// A list of entries of a storage.
#[derive(Debug)]
pub(super) struct SearchList {
    /// The path below which the list has every entry that the search looks at.
    pub(super) complete: WsPath,
    /// The entries, in the byte order of their paths.
    pub(super) entries: Vec<Entry>,
    /// The last path that was listed, if a limit left out the paths after it.
    pub(super) left_out: Option<EntryPath>,
}

impl SearchList {
    /// Returns a list without entries, complete below `start`.
    pub(super) fn empty(start: &WsPath) -> Self {
        Self {
            complete: start.clone(),
            entries: Vec::new(),
            left_out: None,
        }
    }

    /// Returns the root directory of the storage, made from this list.
    pub(super) fn into_root(
        self,
        questions: mpsc::UnboundedSender<StorageQuestion>,
        near: Option<Arc<dyn LocalContent>>,
    ) -> Box<dyn DirectoryHandle> {
        let listing = ListedTree {
            list: self,
            questions,
            near,
        };
        Box::new(ListedDirectory {
            listing: Arc::new(listing),
            path: WsPath::root().into(),
        })
    }
}

/// The list, and the means to ask the storage for more.
#[derive(Debug)]
struct ListedTree {
    list: SearchList,
    questions: mpsc::UnboundedSender<StorageQuestion>,
    near: Option<Arc<dyn LocalContent>>,
}

impl ListedTree {
    fn find_entry(&self, path: &EntryPath) -> Option<&Entry> {
        let place = self.list.entries.binary_search_by(|entry| entry.path.cmp(path));
        place.ok().map(|place| &self.list.entries[place])
    }

    /// Returns the index of the first entry at or after `path`.
    fn first_index_at(&self, path: &[u8]) -> usize {
        self.list.entries.partition_point(|entry| entry.path.as_bytes() < path)
    }

    fn ask_storage<T>(&self, question: impl FnOnce(oneshot::Sender<Result<T>>) -> StorageQuestion) -> Result<T> {
        let (reply, answer) = oneshot::channel();
        let gone = || Error::new(ErrorKind::Unavailable, "the search was cancelled");
        self.questions.unbounded_send(question(reply)).map_err(|_| gone())?;
        // This is a thread of the walk; the future of the search answers on another one.
        block_on(answer).map_err(|_| gone())?
    }

    /// Returns the content of a file: from this machine if it has the version that the list names, and else from the
    /// storage.
    fn read_file(&self, path: &WsPath) -> Result<Bytes> {
        if let Some(near) = &self.near
            && let Some(entry) = self.find_entry(&path.clone().into())
            && let Some(version) = &entry.version
            && let Some(content) = near.find_content(path, version, entry.size)
        {
            return Ok(content);
        }
        self.ask_storage(|reply| StorageQuestion::Read(path.clone(), reply))
    }
}

/// A directory of a [`ListedTree`].
#[derive(Debug)]
struct ListedDirectory {
    listing: Arc<ListedTree>,
    path: EntryPath,
}

impl ListedDirectory {
    fn prefix(&self) -> Vec<u8> {
        let mut prefix = self.path.as_bytes().to_vec();
        if !prefix.is_empty() {
            prefix.push(b'/');
        }
        prefix
    }

    /// Returns the kind of the entry at `path`, from the list if it has or rules out the entry.
    fn entry_kind(&self, path: &EntryPath) -> Result<EntryKind> {
        let valid = as_usable_path(path)?;
        match self.listing.find_entry(path) {
            Some(entry) => Ok(entry.kind),
            // The list is complete here, so the entry does not exist.
            None if valid != &self.listing.list.complete && valid.is_within(&self.listing.list.complete) => {
                Err(Error::not_found(valid))
            }
            None => self
                .listing
                .ask_storage(|reply| StorageQuestion::Kind(valid.clone(), reply)),
        }
    }
}

impl DirectoryHandle for ListedDirectory {
    fn list_entries(&self) -> Result<Vec<DirectoryEntry>> {
        let prefix = self.prefix();
        let mut place = self.listing.first_index_at(&prefix);
        let mut found = Vec::new();
        while let Some(entry) = self.listing.list.entries.get(place) {
            let Some(rest) = entry.path.as_bytes().strip_prefix(prefix.as_slice()) else {
                break;
            };
            match memchr::memchr(b'/', rest) {
                // Jump over everything below this child; `0` is the character after `/`.
                Some(slash) => {
                    let past = [prefix.as_slice(), &rest[..slash], b"0"].concat();
                    place = self.listing.first_index_at(&past);
                }
                None => {
                    let name = rest.to_vec();
                    found.push(DirectoryEntry { name, kind: entry.kind });
                    place += 1;
                }
            }
        }
        Ok(found)
    }

    fn open_directory(&self, name: &[u8]) -> Result<Box<dyn DirectoryHandle>> {
        let path = self.path.child(name);
        // A storage cannot be asked for a name that is not UTF-8, but the entries below it are in the list.
        if !path.is_escaped() && self.entry_kind(&path)? != EntryKind::Directory {
            return Err(Error::not_a_directory(as_usable_path(&path)?));
        }
        let listing = Arc::clone(&self.listing);
        Ok(Box::new(Self { listing, path }))
    }

    fn open_file(&self, name: &[u8]) -> Result<OpenFile> {
        let path = self.path.child(name);
        if self.entry_kind(&path)? != EntryKind::File {
            return Err(unsupported_error());
        }
        let path = as_usable_path(&path)?;
        // The size is known from the list; a file that turns out too large is then never read.
        if let Some(entry) = self.listing.find_entry(&path.clone().into()) {
            let content = Box::new(LazyContent::Unread(Arc::clone(&self.listing), path.clone()));
            return Ok(OpenFile {
                content,
                size: entry.size,
                hard_linked: entry.hard_linked,
            });
        }
        let bytes = self.listing.read_file(path)?;
        let size = bytes.len() as u64;
        let content = Box::new(LazyContent::Read(bytes));
        Ok(OpenFile {
            content,
            size,
            hard_linked: None,
        })
    }

    fn stat_entry(&self, name: &[u8]) -> Result<Stat> {
        let path = self.path.child(name);
        let listed = self.listing.find_entry(&path);
        Ok(Stat {
            kind: listed.map_or_else(|| self.entry_kind(&path), |entry| Ok(entry.kind))?,
            size: listed.map_or(0, |entry| entry.size),
            mode: None,
            created: None,
            modified: listed.and_then(|entry| entry.modified),
            changed: None,
            version: None,
            target: None,
            hard_linked: listed.and_then(|entry| entry.hard_linked),
        })
    }

    fn alter_entry(&self, _name: &[u8], _alteration: EntryAlteration<'_>) -> Result<()> {
        Err(unsupported_error())
    }
}

fn as_usable_path(path: &EntryPath) -> Result<&WsPath> {
    path.as_path().ok_or_else(unsupported_error)
}

fn unsupported_error() -> Error {
    Error::new(ErrorKind::Unsupported, "this is not a plain file that can be opened")
}

/// The content of a file, which is fetched when its first byte is read.
enum LazyContent {
    Unread(Arc<ListedTree>, WsPath),
    Read(Bytes),
}

impl Read for LazyContent {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Self::Unread(listing, path) = self {
            *self = Self::Read(listing.read_file(path).map_err(io::Error::other)?);
        }
        let Self::Read(bytes) = self else {
            return Ok(0);
        };
        let count = bytes.len().min(buffer.len());
        bytes.copy_to_slice(&mut buffer[..count]);
        Ok(count)
    }
}
