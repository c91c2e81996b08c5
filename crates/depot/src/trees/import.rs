//! Imports plain files into a workspace, as one change.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Read;
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use garret_core::path::check_target;
use garret_core::{
    Change, ChangeKind, ChangeRequest, Content, ContentSource, EntryKind, EntryPath, Error, ErrorKind, Result, WsPath,
};

use super::{
    TreeItem, TreeItemForm, TreeMessage, TreeSource, TreeTransferReport, WAITING, channel_closed, check_outside_path,
    host_directory, skipped_entry, unpack,
};
use crate::change::ChangeBuilder;
use crate::content::PreparedContent;
use crate::history::{finish_change, with_description};
use crate::metadata::{EntryNode, MetadataSession};
use crate::portable::{Progress, ProgressWatcher};
use crate::tree::path_key;
use crate::workspace::DepotWorkspace;

/// Bytes of content that are gathered for one transaction.
const GROUP_BYTES: u64 = 4 << 20;
const GROUP: usize = 500;

type TreeChannel = Arc<Mutex<Receiver<Result<TreeMessage>>>>;
type ReaderFailure = Arc<Mutex<Option<Error>>>;
type ImportedEntries = BTreeMap<Vec<u8>, EntryNode>;

impl DepotWorkspace {
    /// Imports a directory of the host, or a tar archive, below `into`, as one change. Existing files are replaced,
    /// other entries are left alone; if a directory would replace a file or a file a directory, nothing is imported.
    /// Blocks while it reads.
    pub async fn import_tree(
        &self,
        source: TreeSource,
        into: &WsPath,
        making: impl Into<ChangeRequest>,
        watch: ProgressWatcher<'_>,
    ) -> Result<TreeTransferReport> {
        let (sender, receiver) = sync_channel(WAITING);
        let reader = std::thread::Builder::new().name("garret-import".into()).spawn(move || {
            let read = match source {
                TreeSource::Directory(root) => host_directory::read_directory(&root, &sender),
                TreeSource::Archive(archive, compression) => unpack::read_archive(archive, compression, &sender),
            };
            if let Err(error) = read {
                // If the receiver is gone, it has failed itself and does not need the reason.
                let _ = sender.send(Err(error));
            }
        });
        let reader = reader.map_err(|_| Error::new(ErrorKind::Unavailable, "a thread cannot be started"))?;
        let mut importing = TreeImporter {
            workspace: self,
            channel: Arc::new(Mutex::new(receiver)),
            into: path_key(into).to_vec(),
            entries: ImportedEntries::new(),
            moved: TreeTransferReport::default(),
            waiting: Vec::new(),
            waiting_bytes: 0,
        };
        let taken = importing.receive_entries(watch).await;
        let TreeImporter {
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
        Ok(TreeTransferReport { change, ..moved })
    }

    /// Puts the entries in place. Their content is in the depot.
    async fn put_entries(
        &self,
        entries: ImportedEntries,
        into: &WsPath,
        making: ChangeRequest,
    ) -> Result<Option<Change>> {
        let (shared, number, durability) = (self.shared().clone(), self.number, self.durability);
        let making = with_description(making, "import", format!("import {} entries", entries.len()));
        let into = into.clone();
        let work = move |session: MetadataSession<'_>| {
            let mut changing = ChangeBuilder::begin(session, &shared, number, durability)?;
            if !into.is_root() {
                make_destination(&mut changing, &into)?;
            }
            for (path, node) in entries {
                // The content was stored in earlier transactions, and garbage collection may have removed it since.
                if let Some(address) = node.content
                    && !shared.content.refer_to_content(session, address)?
                {
                    return Err(Error::new(
                        ErrorKind::Unavailable,
                        "imported content was collected as garbage during the import",
                    )
                    .hint("nothing was changed; import again, and collect garbage with a longer grace period"));
                }
                put_entry(&mut changing, &path, node)?;
            }
            finish_change(session, &shared, changing, ChangeKind::Change, making)
        };
        self.shared().writer.write(self.durability, work).await
    }
}

/// Creates the destination directory, unless it exists.
fn make_destination(changing: &mut ChangeBuilder<'_>, into: &WsPath) -> Result<()> {
    match changing.tree.node(path_key(into))? {
        Some(node) if node.kind == EntryKind::Directory => Ok(()),
        Some(_) => Err(Error::not_a_directory(into)),
        None => {
            changing.make_parents(into, true)?;
            let now = changing.now();
            changing.set_entry(path_key(into), Some(directory_node(0o755, now)))
        }
    }
}

/// Puts one entry, with the missing directories above it.
fn put_entry(changing: &mut ChangeBuilder<'_>, path: &[u8], node: EntryNode) -> Result<()> {
    let before = changing.tree.node(path)?;
    let is_directory = |node: &EntryNode| node.kind == EntryKind::Directory;
    let error_at = |error: Error| error.at_path_text(EntryPath::from_bytes(path.to_vec()).display_path());
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
            None => changing.set_entry(&path[..slash], Some(directory_node(0o755, changing.now())))?,
        }
    }
    let created = before.map_or(changing.now(), |before| before.created);
    let node = EntryNode {
        created,
        modified: changing.now(),
        ..node
    };
    changing.set_entry(path, Some(node))
}

/// Returns the node of a symbolic link; a target that no system accepts is refused.
fn link_node(path: &[u8], target: String) -> Result<EntryNode> {
    check_target(&target).map_err(|error| error.at_path_text(EntryPath::from_bytes(path.to_vec()).display_path()))?;
    Ok(EntryNode {
        kind: EntryKind::Symlink,
        mode: 0o777,
        size: target.len() as u64,
        target: Some(target),
        ..directory_node(0, 0)
    })
}

/// Returns the number of bytes that an entry adds to the total.
fn content_bytes(node: &EntryNode) -> u64 {
    match node.kind {
        EntryKind::File => node.size,
        _ => 0,
    }
}

fn directory_node(mode: u32, now: i64) -> EntryNode {
    EntryNode {
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
struct TreeImporter<'i> {
    workspace: &'i DepotWorkspace,
    channel: TreeChannel,
    into: Vec<u8>,
    entries: ImportedEntries,
    moved: TreeTransferReport,
    waiting: Vec<PreparedContent>,
    waiting_bytes: u64,
}

impl TreeImporter<'_> {
    async fn receive_entries(&mut self, watch: ProgressWatcher<'_>) -> Result<()> {
        loop {
            let next = self.channel.lock().expect("no holder panics").recv();
            match next {
                Ok(Ok(TreeMessage::Item(item))) => self.receive_item(item).await?,
                Ok(Ok(TreeMessage::Skipped(one))) => self.moved.skipped.push(one),
                Ok(Ok(TreeMessage::Data(_) | TreeMessage::End)) => return Err(channel_closed()),
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

    async fn receive_item(&mut self, item: TreeItem) -> Result<()> {
        let node = match &item.form {
            TreeItemForm::Directory => directory_node(item.mode, 0),
            TreeItemForm::File(size) => self.store_file(*size, item.mode).await?,
            TreeItemForm::HardLink(other) => {
                let same = self
                    .entries
                    .get(&self.destination_path(other))
                    // No system makes hard links to directories.
                    .filter(|node| node.kind != EntryKind::Directory);
                same.cloned().ok_or_else(|| {
                    Error::invalid("the archive has a hard link to a file that is not in it")
                        .at_path_text(EntryPath::from_bytes(item.path.clone()).display_path())
                })?
            }
            TreeItemForm::SymbolicLink(target) => match String::from_utf8(target.clone()) {
                Ok(target) => link_node(&item.path, target)?,
                Err(_) => {
                    let one = skipped_entry(&item.path, "the target of the link is not UTF-8");
                    self.moved.skipped.push(one);
                    return Ok(());
                }
            },
        };
        let path = self.destination_path(&item.path);
        check_outside_path(&path)?;
        *self.moved.counter_for(node.kind) += 1;
        self.moved.bytes += content_bytes(&node);
        // If an archive has two entries of one name, the last one wins, as in tar.
        if let Some(replaced) = self.entries.insert(path, node) {
            *self.moved.counter_for(replaced.kind) -= 1;
            self.moved.bytes -= content_bytes(&replaced);
        }
        Ok(())
    }

    fn destination_path(&self, path: &[u8]) -> Vec<u8> {
        if self.into.is_empty() {
            path.to_vec()
        } else {
            [&self.into, b"/".as_slice(), path].concat()
        }
    }

    /// Stores the received data as the content of a file.
    async fn store_file(&mut self, size: u64, mode: u32) -> Result<EntryNode> {
        let shared = self.workspace.shared();
        let why = ReaderFailure::default();
        let content = Content::from_source(IncomingContent {
            channel: self.channel.clone(),
            size,
            why: why.clone(),
        });
        let prepared = shared
            .content
            .prepare_content(&shared.database, &content, self.workspace.durability)
            .await;
        // The error of the reader says more than the closed channel.
        let prepared = prepared.map_err(|error| why.lock().expect("no holder panics").take().unwrap_or(error))?;
        let node = EntryNode {
            kind: EntryKind::File,
            mode,
            size: prepared.size,
            content: Some(prepared.address),
            ..directory_node(0, 0)
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
        let record = move |session: MetadataSession<'_>| {
            waiting
                .iter()
                .try_for_each(|prepared| shared.content.record_content(session, prepared))
        };
        self.workspace
            .shared()
            .writer
            .write(self.workspace.durability, record)
            .await
    }
}

/// The data of one file as it arrives over the channel. It can be read once.
struct IncomingContent {
    channel: TreeChannel,
    size: u64,
    why: ReaderFailure,
}

impl fmt::Debug for IncomingContent {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Incoming")
            .field("size", &self.size)
            .finish_non_exhaustive()
    }
}

impl ContentSource for IncomingContent {
    fn size(&self) -> u64 {
        self.size
    }

    fn open(&self) -> Result<Box<dyn Read + Send>> {
        Ok(Box::new(IncomingContentReader {
            channel: self.channel.clone(),
            chunk: Bytes::new(),
            left: self.size,
            why: self.why.clone(),
        }))
    }
}

struct IncomingContentReader {
    channel: TreeChannel,
    chunk: Bytes,
    left: u64,
    why: ReaderFailure,
}

impl Read for IncomingContentReader {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.chunk.is_empty() && self.left > 0 {
            match self.channel.lock().expect("no holder panics").recv() {
                Ok(Ok(TreeMessage::Data(bytes))) => self.chunk = bytes,
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
