//! A storage that connects to its server with the first operation that needs it.

use std::sync::Arc;

use async_trait::async_trait;
use garret_core::{
    Batch, DirectoryHandle, ListOptions, ListPage, MutationOutcome, OpenContext, ReadOptions, ReadResult, Result, Stat,
    StatOptions, Storage, StorageInfo, WsPath,
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
    pub(super) async fn open_now(&self) -> Result<()> {
        self.open_storage().await.map(drop)
    }

    /// Returns the storage; opens it if it is not open yet, or if answers contradict the probe of its server.
    async fn open_storage(&self) -> Result<Arc<S3Storage>> {
        // Held while the storage is opened, so that concurrent first operations probe the server once.
        let mut opened = self.opened.lock().await;
        if let Some(storage) = opened.as_ref().filter(|storage| !storage.is_contradicted()) {
            return Ok(storage.clone());
        }
        let storage = open::open_storage(self.options.clone(), &self.context, &self.memory).await?;
        *opened = Some(storage.clone());
        Ok(storage)
    }

    /// Returns `answer`. If the answer contradicted the probe, the probe is forgotten at once, for other processes too.
    fn forget_if_contradicted<T>(&self, storage: &S3Storage, answer: T) -> T {
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
        let storage = self.open_storage().await?;
        self.forget_if_contradicted(&storage, storage.resolve(path).await)
    }

    async fn stat(&self, path: &WsPath, options: StatOptions) -> Result<Stat> {
        let storage = self.open_storage().await?;
        self.forget_if_contradicted(&storage, storage.stat(path, options).await)
    }

    async fn read(&self, path: &WsPath, options: ReadOptions) -> Result<ReadResult> {
        let storage = self.open_storage().await?;
        self.forget_if_contradicted(&storage, storage.read(path, options).await)
    }

    async fn list(&self, path: &WsPath, options: ListOptions) -> Result<ListPage> {
        let storage = self.open_storage().await?;
        self.forget_if_contradicted(&storage, storage.list(path, options).await)
    }

    async fn apply(&self, batch: Batch) -> Result<Vec<MutationOutcome>> {
        let storage = self.open_storage().await?;
        let applied = self.forget_if_contradicted(&storage, storage.apply(batch.clone()).await);
        match applied {
            // Nothing was written. Opening the storage again probes the server, and then the batch can be applied.
            Err(error) if error.message() == SERVER_CHANGED => {
                let storage = self.open_storage().await?;
                self.forget_if_contradicted(&storage, storage.apply(batch).await)
            }
            // The answer to this write was the first that showed another server. A server that ignores conditions may
            // have overwritten another writer's change; then opening it fails, and the caller gets that error.
            Ok(applied) if storage.is_contradicted() => self.open_now().await.map(|()| applied),
            applied => applied,
        }
    }

    fn open_directory(&self, _path: &WsPath) -> Result<Option<Box<dyn DirectoryHandle>>> {
        Ok(None)
    }
}
