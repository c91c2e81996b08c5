//! A storage that meets its server with the first operation that needs it.

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

/// Files in a bucket that nothing was asked of yet.
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

    /// The storage; opened where it is not yet, and opened again where answers contradict what was known of the server.
    async fn storage(&self) -> Result<Arc<S3Storage>> {
        let mut opened = self.opened.lock().await;
        if let Some(storage) = opened.as_ref().filter(|storage| !storage.is_contradicted()) {
            return Ok(storage.clone());
        }
        let storage = open::open(self.options.clone(), &self.context, &self.memory).await?;
        *opened = Some(storage.clone());
        Ok(storage)
    }

    /// Hands an answer on. Where it contradicts what is remembered of the server, that is forgotten at once, for other processes too.
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
            // Nothing was written. The server is probed, and the batch is applied on the strength of that.
            Err(error) if error.message() == SERVER_CHANGED => {
                let storage = self.storage().await?;
                self.checked(&storage, storage.apply(batch).await)
            }
            // The first answer of another server was that to the write. One that ignores conditions may have replaced what it must not: an error
            // says so.
            Ok(applied) if storage.is_contradicted() => self.meet_server().await.map(|()| applied),
            applied => applied,
        }
    }

    fn open_directory(&self, _path: &WsPath) -> Result<Option<Box<dyn Directory>>> {
        Ok(None)
    }
}
