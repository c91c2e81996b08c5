//! Imports plain files into a workspace, as one change.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Read;
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use garret_core::path::check_target;
use garret_core::{
    Change, ChangeKind, Content, ContentSource, EntryKind, EntryPath, Error, ErrorKind, Making, Result, WsPath,
};

use super::{Form, Item, Message, Moved, TreeSource, WAITING, checked_path, gone, host, skipped, unpack};
use crate::change::Changing;
use crate::content::Prepared;
use crate::history::{described, finish};
use crate::metadata::{Node, Session};
use crate::portable::{Progress, Watch};
use crate::tree::bytes;
use crate::workspace::DepotWorkspace;

/// Bytes of content that are gathered for one transaction.
const GROUP_BYTES: u64 = 4 << 20;
const GROUP: usize = 500;

type Channel = Arc<Mutex<Receiver<Result<Message>>>>;
type Why = Arc<Mutex<Option<Error>>>;
type Entries = BTreeMap<Vec<u8>, Node>;

impl DepotWorkspace {
    /// Imports a directory of the host, or a tar archive, below `into`, as one change. Existing files are replaced,
    /// other entries are left alone; if a directory would replace a file or a file a directory, nothing is imported.
    /// Blocks while it reads.
    pub async fn import_tree(
        &self,
        source: TreeSource,
        into: &WsPath,
        making: impl Into<Making>,
        watch: Watch<'_>,
    ) -> Result<Moved> {
        let (sender, receiver) = sync_channel(WAITING);
        let reader = std::thread::Builder::new().name("garret-import".into()).spawn(move || {
            let read = match source {
                TreeSource::Directory(root) => host::read(&root, &sender),
                TreeSource::Archive(archive, compression) => unpack::read(archive, compression, &sender),
            };
            if let Err(error) = read {
                // If the receiver is gone, it has failed itself and does not need the reason.
                let _ = sender.send(Err(error));
            }
        });
        let reader = reader.map_err(|_| Error::new(ErrorKind::Unavailable, "a thread cannot be started"))?;
        let mut importing = Importing {
            workspace: self,
            channel: Arc::new(Mutex::new(receiver)),
            into: bytes(into).to_vec(),
            entries: Entries::new(),
            moved: Moved::default(),
            waiting: Vec::new(),
            waiting_bytes: 0,
        };
        let taken = importing.take_in(watch).await;
        let Importing {
            entries,
            moved,
            channel,
            ..
        } = importing;
        drop(channel);
        // Closing the channel ends the reader at its next entry, also when this side failed.
        let ended = reader.join();
        taken?;
        ended.map_err(|_| Error::new(ErrorKind::Internal, "the reader of the files has failed"))?;
        let change = self.put_entries(entries, into, making.into()).await?;
        Ok(Moved { change, ..moved })
    }

    /// Puts the entries in place. Their content is in the depot.
    async fn put_entries(&self, entries: Entries, into: &WsPath, making: Making) -> Result<Option<Change>> {
        let (shared, number, durability) = (self.shared().clone(), self.number, self.durability);
        let making = described(making, "import", format!("import {} entries", entries.len()));
        let into = into.clone();
        let work = move |session: Session<'_>| {
            let mut changing = Changing::begin(session, &shared, number, durability)?;
            if !into.is_root() {
                make_place(&mut changing, &into)?;
            }
            for (path, node) in entries {
                // The content was stored in earlier transactions, and garbage collection may have removed it since.
                if let Some(address) = node.content
                    && !shared.content.refer(session, address)?
                {
                    return Err(Error::new(
                        ErrorKind::Unavailable,
                        "imported content was collected as garbage during the import",
                    )
                    .hint("nothing was changed; import again, and collect garbage with a longer grace period"));
                }
                put(&mut changing, &path, node)?;
            }
            finish(session, &shared, changing, ChangeKind::Change, making)
        };
        self.shared().writer.write(self.durability, work).await
    }
}

/// Creates the destination directory, unless it exists.
fn make_place(changing: &mut Changing<'_>, into: &WsPath) -> Result<()> {
    match changing.tree.node(bytes(into))? {
        Some(node) if node.kind == EntryKind::Directory => Ok(()),
        Some(_) => Err(Error::not_a_directory(into)),
        None => {
            changing.make_parents(into, true)?;
            let now = changing.now();
            changing.set(bytes(into), Some(directory(0o755, now)))
        }
    }
}

/// Puts one entry, with the missing directories above it.
fn put(changing: &mut Changing<'_>, path: &[u8], node: Node) -> Result<()> {
    let before = changing.tree.node(path)?;
    let is_directory = |node: &Node| node.kind == EntryKind::Directory;
    let error_at = |error: Error| error.at_text(EntryPath::from_bytes(path.to_vec()).shown());
    match &before {
        Some(before) if is_directory(before) != is_directory(&node) => {
            let message = "a directory cannot replace a file, nor a file a directory";
            return Err(error_at(Error::new(ErrorKind::AlreadyExists, message)).hint("remove the existing entry first"));
        }
        // An unchanged file is not part of the change.
        Some(before) if before.is_same(&node) => return Ok(()),
        _ => {}
    }
    for (slash, _) in path.iter().enumerate().filter(|(_, byte)| **byte == b'/') {
        match changing.tree.node(&path[..slash])? {
            Some(above) if is_directory(&above) => {}
            Some(_) => {
                let message = "a path above it is not a directory";
                return Err(error_at(Error::new(ErrorKind::NotADirectory, message)).hint("nothing was imported"));
            }
            None => changing.set(&path[..slash], Some(directory(0o755, changing.now())))?,
        }
    }
    let created = before.map_or(changing.now(), |before| before.created);
    let node = Node {
        created,
        modified: changing.now(),
        ..node
    };
    changing.set(path, Some(node))
}

/// Returns the node of a symbolic link; a target that no system accepts is refused.
fn link(path: &[u8], target: String) -> Result<Node> {
    check_target(&target).map_err(|error| error.at_text(EntryPath::from_bytes(path.to_vec()).shown()))?;
    Ok(Node {
        kind: EntryKind::Symlink,
        mode: 0o777,
        size: target.len() as u64,
        target: Some(target),
        ..directory(0, 0)
    })
}

/// Returns the number of bytes that an entry adds to the total.
fn bytes_of(node: &Node) -> u64 {
    match node.kind {
        EntryKind::File => node.size,
        _ => 0,
    }
}

fn directory(mode: u32, now: i64) -> Node {
    Node {
        kind: EntryKind::Directory,
        mode,
        size: 0,
        content: None,
        target: None,
        created: now,
        modified: now,
    }
}

/// An import in progress.
struct Importing<'i> {
    workspace: &'i DepotWorkspace,
    channel: Channel,
    into: Vec<u8>,
    entries: Entries,
    moved: Moved,
    waiting: Vec<Prepared>,
    waiting_bytes: u64,
}

impl Importing<'_> {
    async fn take_in(&mut self, watch: Watch<'_>) -> Result<()> {
        loop {
            let next = self.channel.lock().expect("no holder panics").recv();
            match next {
                Ok(Ok(Message::Item(item))) => self.take(item).await?,
                Ok(Ok(Message::Skipped(one))) => self.moved.skipped.push(one),
                Ok(Ok(Message::Data(_) | Message::End)) => return Err(gone()),
                Ok(Err(error)) => return Err(error),
                Err(_) => return self.flush().await,
            }
            watch(Progress {
                files: self.moved.files,
                bytes: self.moved.bytes,
                total: None,
            });
        }
    }

    async fn take(&mut self, item: Item) -> Result<()> {
        let node = match &item.form {
            Form::Directory => directory(item.mode, 0),
            Form::File(size) => self.file(*size, item.mode).await?,
            Form::Same(other) => {
                let same = self
                    .entries
                    .get(&self.placed(other))
                    // No system makes hard links to directories.
                    .filter(|node| node.kind != EntryKind::Directory);
                same.cloned().ok_or_else(|| {
                    Error::invalid("the archive has a hard link to a file that is not in it")
                        .at_text(EntryPath::from_bytes(item.path.clone()).shown())
                })?
            }
            Form::Link(target) => match String::from_utf8(target.clone()) {
                Ok(target) => link(&item.path, target)?,
                Err(_) => {
                    let one = skipped(&item.path, "the target of the link is not UTF-8");
                    self.moved.skipped.push(one);
                    return Ok(());
                }
            },
        };
        let path = self.placed(&item.path);
        checked_path(&path)?;
        *self.moved.count_of(node.kind) += 1;
        self.moved.bytes += bytes_of(&node);
        // If an archive has two entries of one name, the last one wins, as in tar.
        if let Some(replaced) = self.entries.insert(path, node) {
            *self.moved.count_of(replaced.kind) -= 1;
            self.moved.bytes -= bytes_of(&replaced);
        }
        Ok(())
    }

    fn placed(&self, path: &[u8]) -> Vec<u8> {
        if self.into.is_empty() {
            path.to_vec()
        } else {
            [&self.into, b"/".as_slice(), path].concat()
        }
    }

    /// Stores the received data as the content of a file.
    async fn file(&mut self, size: u64, mode: u32) -> Result<Node> {
        let shared = self.workspace.shared();
        let why = Why::default();
        let content = Content::from_source(Incoming {
            channel: self.channel.clone(),
            size,
            why: why.clone(),
        });
        let prepared = shared
            .content
            .prepare(&shared.database, &content, self.workspace.durability)
            .await;
        // The error of the reader says more than the closed channel.
        let prepared = prepared.map_err(|error| why.lock().expect("no holder panics").take().unwrap_or(error))?;
        let node = Node {
            kind: EntryKind::File,
            mode,
            size: prepared.size,
            content: Some(prepared.address),
            ..directory(0, 0)
        };
        self.waiting.push(prepared);
        self.waiting_bytes += size;
        if self.waiting_bytes >= GROUP_BYTES || self.waiting.len() >= GROUP {
            self.flush().await?;
        }
        Ok(node)
    }

    /// Writes the rows of the gathered content, before the change that will refer to it.
    async fn flush(&mut self) -> Result<()> {
        self.waiting_bytes = 0;
        let (waiting, shared) = (std::mem::take(&mut self.waiting), self.workspace.shared().clone());
        let record = move |session: Session<'_>| {
            waiting
                .iter()
                .try_for_each(|prepared| shared.content.record(session, prepared))
        };
        self.workspace
            .shared()
            .writer
            .write(self.workspace.durability, record)
            .await
    }
}

/// The data of one file as it arrives over the channel. It can be read once.
struct Incoming {
    channel: Channel,
    size: u64,
    why: Why,
}

impl fmt::Debug for Incoming {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Incoming")
            .field("size", &self.size)
            .finish_non_exhaustive()
    }
}

impl ContentSource for Incoming {
    fn size(&self) -> u64 {
        self.size
    }

    fn open(&self) -> Result<Box<dyn Read + Send>> {
        Ok(Box::new(Reading {
            channel: self.channel.clone(),
            chunk: Bytes::new(),
            left: self.size,
            why: self.why.clone(),
        }))
    }
}

struct Reading {
    channel: Channel,
    chunk: Bytes,
    left: u64,
    why: Why,
}

impl Read for Reading {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.chunk.is_empty() && self.left > 0 {
            match self.channel.lock().expect("no holder panics").recv() {
                Ok(Ok(Message::Data(bytes))) => self.chunk = bytes,
                Ok(Err(error)) => {
                    *self.why.lock().expect("no holder panics") = Some(error);
                    return Err(std::io::ErrorKind::InvalidData.into());
                }
                _ => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            }
        }
        let count = buffer.len().min(self.chunk.len());
        buffer[..count].copy_from_slice(&self.chunk.split_to(count));
        self.left -= count as u64;
        Ok(count)
    }
}
