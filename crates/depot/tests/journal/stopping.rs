//! A storage that comes to a stop in the middle of a change, as a process that is killed does: some mutations are done, the rest never.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use garret_core::{
    Applied, Batch, Directory, ListOptions, ListPage, ReadOptions, ReadResult, Result, Stat, StatOptions, Storage,
    StorageInfo, WsPath,
};

#[derive(Debug)]
pub(crate) struct Stopping {
    inner: Arc<dyn Storage>,
    steps: usize,
    has_stopped: AtomicBool,
}

impl Stopping {
    pub(crate) fn after(inner: Arc<dyn Storage>, steps: usize) -> Self {
        Self {
            inner,
            steps,
            has_stopped: AtomicBool::new(false),
        }
    }
}

#[async_trait]
impl Storage for Stopping {
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

    async fn apply(&self, mut batch: Batch) -> Result<Vec<Applied>> {
        batch.mutations.truncate(self.steps);
        self.inner.apply(batch).await?;
        self.has_stopped.store(true, Ordering::Release);
        std::future::pending().await
    }

    fn open_directory(&self, path: &WsPath) -> Result<Option<Box<dyn Directory>>> {
        self.inner.open_directory(path)
    }
}
