//! The memory storage: the reference implementation of the contract.
//!
//! The conformance suite describes the behaviour of this storage, and every other storage must pass it. The tree is one
//! ordered map from path to node. Invariant: every ancestor of a path in the map is a directory in the map, so a
//! file and a directory never share a name. A batch that fails is reversed node by node.

mod apply;
mod tree;

use std::sync::{Arc, RwLock};

use async_trait::async_trait;

use crate::memory::tree::{FinalLink, MemoryTree};
use crate::storage::{
    Batch, DirectoryHandle, ListOptions, ListPage, Mutation, MutationOutcome, ReadOptions, ReadResult, Stat,
    StatOptions, Storage, StorageInfo,
};
use crate::time::Clock;
use crate::{Error, ErrorKind, Result, WsPath};

/// Files in memory that live as long as this value.
#[derive(Debug)]
pub struct MemoryStorage {
    tree: RwLock<MemoryTree>,
    clock: Arc<dyn Clock>,
}

impl MemoryStorage {
    /// Makes an empty storage.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            tree: RwLock::new(MemoryTree::default()),
            clock,
        }
    }

    fn read_tree(&self) -> std::sync::RwLockReadGuard<'_, MemoryTree> {
        self.tree.read().expect("no holder panics")
    }
}

#[async_trait]
impl Storage for MemoryStorage {
    fn info(&self) -> StorageInfo {
        StorageInfo {
            kind: "memory".into(),
            is_durable: false,
            has_modes: true,
            has_symlinks: true,
            has_hard_links: false,
            file_mode: Some(0o644),
        }
    }

    async fn resolve(&self, path: &WsPath) -> Result<WsPath> {
        self.read_tree()
            .resolve_links(path, FinalLink::Followed, crate::storage::Follow::Inside)
    }

    async fn stat(&self, path: &WsPath, options: StatOptions) -> Result<Stat> {
        let tree = self.read_tree();
        let real = tree.resolve_links(path, FinalLink::NotFollowed, options.follow)?;
        tree.stat_node(&real).map(|stat| Stat {
            version: stat.version.filter(|_| options.with_version),
            ..stat
        })
    }

    async fn read(&self, path: &WsPath, options: ReadOptions) -> Result<ReadResult> {
        let tree = self.read_tree();
        let real = tree.resolve_links(path, FinalLink::Followed, options.follow)?;
        let file = tree.find_file(&real)?;
        options.precondition.check_version(path, Some(&file.version()))?;
        let size = file.content.len() as u64;
        let range = options.range.unwrap_or(0..size);
        // A range past the end is empty, not an error.
        let range = range.start.min(size)..range.end.min(size).max(range.start.min(size));
        check_read_limit(path, range.end - range.start, options.max_bytes)?;
        let bytes = file.content.slice(range.start as usize..range.end as usize);
        Ok(ReadResult {
            bytes,
            size,
            version: file.version(),
            mode: Some(file.mode),
            hard_linked: None,
        })
    }

    async fn list(&self, path: &WsPath, options: ListOptions) -> Result<ListPage> {
        let tree = self.read_tree();
        let real = tree.resolve_links(path, FinalLink::Followed, options.follow)?;
        tree.list_directory(&real, &options)
    }

    async fn apply(&self, mut batch: Batch) -> Result<Vec<MutationOutcome>> {
        // The sources are read before the lock is taken, so that nobody waits for them while the tree is locked.
        batch.mutations.iter_mut().try_for_each(load_content)?;
        let now = self.clock.now();
        apply::apply_batch(&mut self.tree.write().expect("no holder panics"), batch, now)
    }

    fn open_directory(&self, _path: &WsPath) -> Result<Option<Box<dyn DirectoryHandle>>> {
        Ok(None)
    }
}

/// Replaces the content of a write by its bytes in memory.
fn load_content(mutation: &mut Mutation) -> Result<()> {
    if let Mutation::Write { path, content, .. } = mutation {
        *content = content.to_bytes().map_err(|error| error.at_path(path))?.into();
    }
    Ok(())
}

/// Refuses a read of `size` bytes that is over `max_bytes`.
pub fn check_read_limit(path: &WsPath, size: u64, max_bytes: Option<u64>) -> Result<()> {
    match max_bytes {
        Some(limit) if size > limit => {
            let message = format!(
                "{} has {size} bytes; at most {limit} can be read at once",
                path.to_quoted()
            );
            Err(Error::new(ErrorKind::TooLarge, message)
                .at_path(path)
                .hint("read a part of it with `offset` and `limit`"))
        }
        _ => Ok(()),
    }
}
