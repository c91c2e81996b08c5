//! Imports plain files into a workspace, as one change.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Read;
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use garret_core::path::check_target;
use garret_core::{Content, ContentSource, EntryKind, EntryPath, Error, ErrorKind, Origin, Result, WsPath};
use garret_depot::DepotWorkspace;
use garret_depot::transfer::{EntryNode, ImportTarget, PreparedContent};

use super::{
    TreeItem, TreeItemForm, TreeMessage, TreeSource, TreeTransferReport, WAITING, channel_closed, check_outside_path,
    host_directory, skipped_entry, unpack,
};
use crate::error::no_thread_error;
use crate::progress::{Progress, ProgressWatcher};

/// Bytes of content that are gathered for one transaction.
const GROUP_BYTES: u64 = 4 << 20;
const GROUP: usize = 500;

type TreeChannel = Arc<Mutex<Receiver<Result<TreeMessage>>>>;
type ReaderFailure = Arc<Mutex<Option<Error>>>;
type ImportedEntries = BTreeMap<Vec<u8>, EntryNode>;

/// Imports a directory of the host, or a tar archive, below `into`, as one change. Existing files are replaced,
/// other entries are left alone; if a directory would replace a file or a file a directory, nothing is imported.
/// Blocks while it reads.
pub async fn import_tree(
    workspace: &DepotWorkspace,
    source: TreeSource,
    into: &WsPath,
    request: impl Into<Origin>,
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
    let reader = reader.map_err(|_| no_thread_error("read the files to import"))?;
    let mut importing = TreeImporter {
        target: ImportTarget::new(workspace),
        channel: Arc::new(Mutex::new(receiver)),
        into: into.as_str().as_bytes().to_vec(),
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
        target,
        ..
    } = importing;
    drop(channel);
    // Closing the channel ends the reader at its next entry, also when this side failed.
    let ended = reader.join();
    taken?;
    ended.map_err(|_| Error::new(ErrorKind::Internal, "the reader of the files has failed"))?;
    let change = target.put_entries(entries, into, request.into()).await?;
    Ok(TreeTransferReport { change, ..moved })
}

/// Returns the node of a symbolic link; a target that no system accepts is refused.
fn link_node(path: &[u8], target: String) -> Result<EntryNode> {
    check_target(&target).map_err(|error| error.at_path_text(EntryPath::from_bytes(path.to_vec()).display_path()))?;
    Ok(EntryNode {
        kind: EntryKind::Symlink,
        mode: 0o777,
        size: target.len() as u64,
        target: Some(target),
        ..directory_node(0)
    })
}

/// Returns the number of bytes that an entry adds to the total.
fn content_bytes(node: &EntryNode) -> u64 {
    match node.kind {
        EntryKind::File => node.size,
        _ => 0,
    }
}

fn directory_node(mode: u32) -> EntryNode {
    EntryNode {
        kind: EntryKind::Directory,
        mode,
        size: 0,
        content: None,
        target: None,
        created: 0,
        modified: 0,
    }
}

/// An import in progress.
struct TreeImporter {
    target: ImportTarget,
    channel: TreeChannel,
    into: Vec<u8>,
    entries: ImportedEntries,
    moved: TreeTransferReport,
    waiting: Vec<PreparedContent>,
    waiting_bytes: u64,
}

impl TreeImporter {
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
            TreeItemForm::Directory => directory_node(item.mode),
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
        let why = ReaderFailure::default();
        let content = Content::from_source(IncomingContent {
            channel: self.channel.clone(),
            size,
            why: why.clone(),
        });
        let prepared = self.target.prepare_content(&content).await;
        // The error of the reader says more than the closed channel.
        let prepared = prepared.map_err(|error| why.lock().expect("no holder panics").take().unwrap_or(error))?;
        let node = EntryNode {
            kind: EntryKind::File,
            mode,
            size: prepared.size(),
            content: Some(prepared.address()),
            ..directory_node(0)
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
        let waiting = std::mem::take(&mut self.waiting);
        self.target.record_contents(waiting).await
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
