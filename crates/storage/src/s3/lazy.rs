//! A storage that connects to its server with the first operation that needs it.

use std::sync::Arc;

use async_trait::async_trait;
use garret_core::{
    Applied, Batch, Directory, ListOptions, ListPage, OpenContext, ReadOptions, ReadResult, Result, Stat, StatOptions,
    Storage, StorageInfo, WsPath,
};
use tokio::sync::Mutex;

use super::options::S3Options;
use super::probe_memory::ProbeMemory;
use super::wire::failure::SERVER_CHANGED;
use super::{S3Storage, open, storage_info};

/// An S3 storage that is opened by its first operation.
#[derive(Debug)]
pub(super) struct LazyS3Storage {
    options: S3Options,
    context: OpenContext,
    memory: ProbeMemory,
    opened: Mutex<Option<Arc<S3Storage>>>,
}

impl LazyS3Storage {
    pub(super) fn new(options: S3Options, context: &OpenContext, memory: ProbeMemory) -> Self {
        Self {
            options,
            context: context.clone(),
            memory,
            opened: Mutex::new(None),
        }
    }

    /// Opens the storage now.
    pub(super) async fn meet_server(&self) -> Result<()> {
        self.storage().await.map(drop)
    }

    /// Returns the storage; opens it if it is not open yet, or if answers contradict the probe of its server.
    async fn storage(&self) -> Result<Arc<S3Storage>> {
        // Held while the storage is opened, so that concurrent first operations probe the server once.
        let mut opened = self.opened.lock().await;
        if let Some(storage) = opened.as_ref().filter(|storage| !storage.is_contradicted()) {
            return Ok(storage.clone());
        }
        let storage = open::open(self.options.clone(), &self.context, &self.memory).await?;
        *opened = Some(storage.clone());
        Ok(storage)
    }

    /// Returns `answer`. If the answer contradicted the probe, the probe is forgotten at once, for other processes too.
    fn checked<T>(&self, storage: &S3Storage, answer: T) -> T {
        if storage.is_contradicted() {
            storage.forget_probe(&self.memory);
        }
        answer
    }
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl Storage for LazyS3Storage {
    fn info(&self) -> StorageInfo {
        storage_info()
    }

    async fn resolve(&self, path: &WsPath) -> Result<WsPath> {
        let storage = self.storage().await?;
        self.checked(&storage, storage.resolve(path).await)
    }

    async fn stat(&self, path: &WsPath, options: StatOptions) -> Result<Stat> {
        let storage = self.storage().await?;
        self.checked(&storage, storage.stat(path, options).await)
    }

    async fn read(&self, path: &WsPath, options: ReadOptions) -> Result<ReadResult> {
        let storage = self.storage().await?;
        self.checked(&storage, storage.read(path, options).await)
    }

    async fn list(&self, path: &WsPath, options: ListOptions) -> Result<ListPage> {
        let storage = self.storage().await?;
        self.checked(&storage, storage.list(path, options).await)
    }

    async fn apply(&self, batch: Batch) -> Result<Vec<Applied>> {
        let storage = self.storage().await?;
        let applied = self.checked(&storage, storage.apply(batch.clone()).await);
        match applied {
            // Nothing was written. Opening the storage again probes the server, and then the batch can be applied.
            Err(error) if error.message() == SERVER_CHANGED => {
                let storage = self.storage().await?;
                self.checked(&storage, storage.apply(batch).await)
            }
            // The answer to this write was the first that showed another server. A server that ignores conditions may
            // have overwritten another writer's change; then opening it fails, and the caller gets that error.
            Ok(applied) if storage.is_contradicted() => self.meet_server().await.map(|()| applied),
            applied => applied,
        }
    }

    fn open_directory(&self, _path: &WsPath) -> Result<Option<Box<dyn Directory>>> {
        Ok(None)
    }
}
