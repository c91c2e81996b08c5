//! Exports the files of a workspace as plain files.

use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

use bytes::Bytes;
use garret_core::{
    EntryKind, EntryPath, Error, ErrorKind, Follow, ListOptions, Point, Precondition, ReadOptions, Result, StatOptions,
    Storage, WsPath,
};
use garret_depot::DepotWorkspace;
use garret_depot::transfer::{EntryNode, ExportSource, TreeReader};

use super::{
    TreeItem, TreeItemForm, TreeMessage, TreeTarget, TreeTransferReport, WAITING, channel_closed, host_directory, pack,
    permission_bits, skipped_entry,
};
use crate::error::no_thread_error;
use crate::progress::{Progress, ProgressWatcher};

/// Number of entries that are looked up at once.
const PAGE: usize = 1_000;
/// Bytes of a file that are read at once.
const PIECE: u64 = 4 << 20;

/// The writing side of an export, on its own thread.
struct TreeWriterThread {
    sender: SyncSender<TreeMessage>,
    thread: JoinHandle<Result<()>>,
    moved: TreeTransferReport,
}

impl TreeWriterThread {
    fn start(target: TreeTarget) -> Result<Self> {
        let (sender, receiver) = sync_channel(WAITING);
        let thread = std::thread::Builder::new().name("garret-export".into());
        let thread = thread.spawn(move || match target {
            TreeTarget::Directory(root) => host_directory::write_directory(&root, &receiver),
            TreeTarget::Archive(sink, compression) => pack::write_archive(sink, compression, &receiver),
        });
        Ok(Self {
            sender,
            thread: thread.map_err(|_| no_thread_error("write the export"))?,
            moved: TreeTransferReport::default(),
        })
    }

    fn send_item(&mut self, item: TreeItem) -> Result<()> {
        *self.moved.counter_for(item.form.kind()) += 1;
        self.sender.send(TreeMessage::Item(item)).map_err(|_| channel_closed())
    }

    fn send_data(&mut self, bytes: Bytes, watch: &mut (dyn FnMut(Progress) + Send)) -> Result<()> {
        self.moved.bytes += bytes.len() as u64;
        watch(Progress {
            files: self.moved.files,
            bytes: self.moved.bytes,
            total: None,
        });
        self.sender.send(TreeMessage::Data(bytes)).map_err(|_| channel_closed())
    }

    /// Waits for the writing thread and returns the result.
    fn finish(self, sent: Result<()>) -> Result<TreeTransferReport> {
        // Without this message the writer does not keep a directory.
        let sent = sent.and_then(|()| self.sender.send(TreeMessage::End).map_err(|_| channel_closed()));
        drop(self.sender);
        let written = self.thread.join();
        let written = written.map_err(|_| Error::new(ErrorKind::Internal, "the writer of the files has failed"))?;
        // If both sides failed because the channel closed, the writer's error is the cause.
        match (sent, written) {
            (Ok(()), Ok(())) => Ok(self.moved),
            (Err(sent), Err(_)) if sent.kind() != channel_closed().kind() => Err(sent),
            (_, Err(written)) => Err(written),
            (Err(sent), Ok(())) => Err(sent),
        }
    }
}

/// Exports the files of a workspace at `point`, at `path` and below, as a directory or an archive. Names that are not
/// UTF-8 are kept. Blocks while it writes. On failure nothing of a directory is left; the caller removes a partial
/// archive.
pub async fn export_tree(
    workspace: &DepotWorkspace,
    point: &Point,
    path: &WsPath,
    target: TreeTarget,
    watch: ProgressWatcher<'_>,
) -> Result<TreeTransferReport> {
    let source = ExportSource::new(workspace);
    let tree = source.read_tree(point, path)?;
    let mut writing = TreeWriterThread::start(target)?;
    let sent = send_tree(&source, tree, path, &mut writing, watch).await;
    writing.finish(sent)
}

async fn send_tree(
    source: &ExportSource,
    mut tree: TreeReader,
    path: &WsPath,
    writing: &mut TreeWriterThread,
    watch: ProgressWatcher<'_>,
) -> Result<()> {
    let skip = if path.is_root() { 0 } else { path.as_str().len() + 1 };
    loop {
        let page = tree.next_page()?;
        if page.is_empty() {
            return Ok(());
        }
        for (place, node) in page {
            let sent = send_node(source, &place[skip..], &node, writing, watch).await;
            sent.map_err(|error| error.at_path_text(EntryPath::from_bytes(place).display_path()))?;
        }
    }
}

async fn send_node(
    source: &ExportSource,
    path: &[u8],
    node: &EntryNode,
    writing: &mut TreeWriterThread,
    watch: &mut (dyn FnMut(Progress) + Send),
) -> Result<()> {
    let form = match (node.kind, &node.target) {
        (EntryKind::Directory, _) => TreeItemForm::Directory,
        (EntryKind::Symlink, Some(target)) => TreeItemForm::SymbolicLink(target.clone().into_bytes()),
        _ => TreeItemForm::File(node.size),
    };
    writing.send_item(TreeItem {
        path: path.to_vec(),
        form,
        mode: permission_bits(node.mode),
        modified: node.modified / 1_000_000,
    })?;
    match node.kind {
        EntryKind::File => send_content(source, node, writing, watch).await,
        _ => Ok(()),
    }
}

/// Sends the bytes of a file. An empty file is read too, so that damage of its content is noticed.
async fn send_content(
    source: &ExportSource,
    node: &EntryNode,
    writing: &mut TreeWriterThread,
    watch: ProgressWatcher<'_>,
) -> Result<()> {
    let mut start = 0;
    loop {
        let end = node.size.min(start + PIECE);
        let piece = source.read_range(node, start..end).await?;
        if node.size > 0 {
            writing.send_data(piece, watch)?;
        }
        if end == node.size {
            return Ok(());
        }
        start = end;
    }
}

/// Exports the files of any storage, at `path` and below, as a directory or an archive. Entries that cannot be opened
/// by a path (a name that is not UTF-8, a device) are skipped and reported. A file that others change meanwhile is a
/// `conflict`.
pub async fn export_storage(
    storage: &dyn Storage,
    path: &WsPath,
    target: TreeTarget,
    watch: ProgressWatcher<'_>,
) -> Result<TreeTransferReport> {
    let mut writing = TreeWriterThread::start(target)?;
    let sent = send_storage(storage, path, &mut writing, watch).await;
    writing.finish(sent)
}

async fn send_storage(
    storage: &dyn Storage,
    path: &WsPath,
    writing: &mut TreeWriterThread,
    watch: ProgressWatcher<'_>,
) -> Result<()> {
    let mut options = ListOptions {
        is_deep: true,
        limit: PAGE,
        ..ListOptions::default()
    };
    loop {
        let page = storage.list(path, options.clone()).await?;
        for entry in &page.entries {
            match (entry.path.as_path(), entry.kind) {
                (None, _) => writing
                    .moved
                    .skipped
                    .push(skipped_entry(entry.path.as_bytes(), "its name is not UTF-8")),
                (_, EntryKind::Other) => {
                    let why = "it is neither a file, a directory nor a link";
                    writing.moved.skipped.push(skipped_entry(entry.path.as_bytes(), why));
                }
                (Some(place), _) => send_entry(storage, place, path, writing, watch).await?,
            }
        }
        match page.entries.last() {
            Some(last) if page.has_more => options.after = Some(last.path.clone()),
            _ => return Ok(()),
        }
    }
}

async fn send_entry(
    storage: &dyn Storage,
    place: &WsPath,
    base: &WsPath,
    writing: &mut TreeWriterThread,
    watch: &mut (dyn FnMut(Progress) + Send),
) -> Result<()> {
    let options = StatOptions {
        follow: Follow::Never,
        with_version: true,
    };
    let stat = storage.stat(place, options).await?;
    let relative = place.relative_to(base).unwrap_or_else(|| place.clone());
    let form = match (stat.kind, stat.target) {
        (EntryKind::Directory, _) => TreeItemForm::Directory,
        (EntryKind::Symlink, Some(target)) => TreeItemForm::SymbolicLink(target.into_bytes()),
        _ => TreeItemForm::File(stat.size),
    };
    let is_file = matches!(form, TreeItemForm::File(_));
    let default = if is_file { 0o644 } else { 0o755 };
    writing.send_item(TreeItem {
        path: relative.as_str().as_bytes().to_vec(),
        form,
        mode: permission_bits(stat.mode.unwrap_or(default)),
        modified: stat.modified.map_or(0, |time| time.as_second()),
    })?;
    let mut start = 0;
    while is_file && start < stat.size {
        let options = ReadOptions {
            range: Some(start..stat.size.min(start + PIECE)),
            follow: Follow::Never,
            // All pieces must come from one version of the file.
            precondition: stat.version.clone().map_or(Precondition::Any, Precondition::Version),
            ..ReadOptions::default()
        };
        let read = storage.read(place, options).await?;
        if read.size != stat.size || read.bytes.is_empty() {
            return Err(Error::conflict(place, Some(read.version)));
        }
        start += read.bytes.len() as u64;
        writing.send_data(read.bytes, watch)?;
    }
    Ok(())
}
