//! A wrapper at whose calls a test does something of its own: waits, counts, refuses, or changes files at the worst moment.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use garret_core::{
    Batch, DirectoryHandle, ListOptions, ListPage, MutationOutcome, ReadOptions, ReadResult, Result, Stat, StatOptions,
    Storage, StorageInfo, WsPath,
};

/// What a storage is asked.
#[derive(Debug, Clone, Copy)]
pub enum Call<'a> {
    /// Where a path leads.
    Resolve(&'a WsPath),
    /// What is at a path.
    Stat(&'a WsPath),
    /// Content, or a range of it.
    Read(&'a WsPath),
    /// What is in a directory.
    List(&'a WsPath, &'a ListOptions),
    /// A change.
    Apply,
}

/// What is done at each call.
#[async_trait]
pub trait Hook: fmt::Debug + Send + Sync {
    /// Before it is handed on.
    async fn before(&self, _call: Call<'_>) {}

    /// When its answer is there.
    async fn after(&self, _call: Call<'_>) {}

    /// The change that is handed on in place of `batch`.
    fn batch(&self, batch: Batch) -> Batch {
        batch
    }

    /// The directory that is given in place of the one at hand.
    fn directory(&self, opened: Option<Box<dyn DirectoryHandle>>) -> Option<Box<dyn DirectoryHandle>> {
        opened
    }
}

/// A storage that hands every call to another, with a hook before and after it.
#[derive(Debug)]
pub struct Hooked<H> {
    inner: Arc<dyn Storage>,
    hook: H,
}

impl<H: Hook> Hooked<H> {
    /// Wraps `inner`.
    pub fn new(inner: Arc<dyn Storage>, hook: H) -> Self {
        Self { inner, hook }
    }

    /// The storage behind it, which no hook sees being asked.
    pub fn inner(&self) -> &Arc<dyn Storage> {
        &self.inner
    }

    /// The hook.
    pub fn hook(&self) -> &H {
        &self.hook
    }

    async fn around<T>(&self, call: Call<'_>, answer: impl Future<Output = T>) -> T {
        self.hook.before(call).await;
        let answer = answer.await;
        self.hook.after(call).await;
        answer
    }
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl<H: Hook> Storage for Hooked<H> {
    fn info(&self) -> StorageInfo {
        self.inner.info()
    }

    async fn resolve(&self, path: &WsPath) -> Result<WsPath> {
        self.around(Call::Resolve(path), self.inner.resolve(path)).await
    }

    async fn stat(&self, path: &WsPath, options: StatOptions) -> Result<Stat> {
        self.around(Call::Stat(path), self.inner.stat(path, options)).await
    }

    async fn read(&self, path: &WsPath, options: ReadOptions) -> Result<ReadResult> {
        self.around(Call::Read(path), self.inner.read(path, options)).await
    }

    async fn list(&self, path: &WsPath, options: ListOptions) -> Result<ListPage> {
        let listed = self.inner.list(path, options.clone());
        self.around(Call::List(path, &options), listed).await
    }

    async fn apply(&self, batch: Batch) -> Result<Vec<MutationOutcome>> {
        let batch = self.hook.batch(batch);
        self.around(Call::Apply, self.inner.apply(batch)).await
    }

    fn open_directory(&self, path: &WsPath) -> Result<Option<Box<dyn DirectoryHandle>>> {
        self.inner
            .open_directory(path)
            .map(|opened| self.hook.directory(opened))
    }
}
