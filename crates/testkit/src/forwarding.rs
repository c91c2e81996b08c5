//! A wrapper that changes nothing: it shows that the contract can be forwarded whole, and is the pattern for wrappers that do more.

use std::sync::Arc;

use async_trait::async_trait;
use garret_core::{
    Batch, DirectoryHandle, ListOptions, ListPage, MutationOutcome, ReadOptions, ReadResult, Result, Stat, StatOptions,
    Storage, StorageInfo, WsPath,
};

/// A storage that hands every call to another.
#[derive(Debug, Clone)]
pub struct Forwarding {
    inner: Arc<dyn Storage>,
}

impl Forwarding {
    /// Wraps `inner`.
    pub fn new(inner: Arc<dyn Storage>) -> Self {
        Self { inner }
    }
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl Storage for Forwarding {
    fn info(&self) -> StorageInfo {
        self.inner.info()
    }

    async fn resolve(&self, path: &WsPath) -> Result<WsPath> {
        self.inner.resolve(path).await
    }

    async fn stat(&self, path: &WsPath, options: StatOptions) -> Result<Stat> {
        self.inner.stat(path, options).await
    }

    async fn read(&self, path: &WsPath, options: ReadOptions) -> Result<ReadResult> {
        self.inner.read(path, options).await
    }

    async fn list(&self, path: &WsPath, options: ListOptions) -> Result<ListPage> {
        self.inner.list(path, options).await
    }

    async fn apply(&self, batch: Batch) -> Result<Vec<MutationOutcome>> {
        self.inner.apply(batch).await
    }

    fn open_directory(&self, path: &WsPath) -> Result<Option<Box<dyn DirectoryHandle>>> {
        self.inner.open_directory(path)
    }
}
