//! A storage whose content is kept at hand as it passes.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use garret_core::{
    Applied, Batch, Directory, Follow, ListOptions, ListPage, Mutation, NearContent, ReadOptions, ReadResult, Result,
    Stat, StatOptions, Storage, StorageInfo, Version, WsPath,
};
use tokio::runtime::Handle;

use super::{CacheKey, ContentCache};

/// A storage over a cache: what is read or written whole is kept under its version, and given out by [`NearContent`].
///
/// Every call still asks the storage: the cache answers only whoever already knows which version is wanted.
#[derive(Debug, Clone)]
pub struct CachedStorage {
    pub(super) inner: Arc<dyn Storage>,
    cache: Arc<ContentCache>,
    scope: Arc<str>,
}

impl CachedStorage {
    /// Puts the cache over `inner`. `scope` tells the place of its files from every other place in the world; storages of the same scope
    /// see each other's content. Where a scope ends with the path at which another's begins, with a slash between, they do so too.
    pub fn new(inner: Arc<dyn Storage>, cache: Arc<ContentCache>, scope: &str) -> Self {
        Self {
            inner,
            cache,
            scope: scope.trim_end_matches('/').into(),
        }
    }

    /// Two files of one place that have one path, version and size have one content. Nothing less will do: versions of some servers tell
    /// only that a file changed, and whoever can choose bytes can make two of one MD5.
    fn key(&self, path: &WsPath, version: &Version, size: u64) -> CacheKey {
        let place = format!("{}/{}", self.scope, path.as_str());
        CacheKey::of(&[place.as_bytes(), version.as_str().as_bytes(), &size.to_le_bytes()])
    }

    async fn keep(&self, path: &WsPath, version: &Version, content: Bytes) {
        let key = self.key(path, version, content.len() as u64);
        if content.len() as u64 > self.cache.max_content_bytes() {
            return;
        }
        let cache = self.cache.clone();
        let put = move || cache.put(&key, &content);
        match Handle::try_current() {
            // What does not become of it is not worth an error.
            Ok(runtime) => drop(runtime.spawn_blocking(put).await),
            Err(_) => put(),
        }
    }
}

impl NearContent for CachedStorage {
    fn near(&self, path: &WsPath, version: &Version, size: u64) -> Option<Bytes> {
        let content = self.cache.get(&self.key(path, version, size));
        content.filter(|content| content.len() as u64 == size)
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Storage for CachedStorage {
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
        // Where a link may lead elsewhere, it is not known whose content it is.
        let is_plain = options.follow == Follow::Never;
        let read = self.inner.read(path, options).await?;
        if is_plain && read.bytes.len() as u64 == read.size {
            self.keep(path, &read.version, read.bytes.clone()).await;
        }
        Ok(read)
    }

    async fn list(&self, path: &WsPath, options: ListOptions) -> Result<ListPage> {
        self.inner.list(path, options).await
    }

    async fn apply(&self, batch: Batch) -> Result<Vec<Applied>> {
        let written = match batch.follow {
            Follow::Never => batch.mutations.iter().map(written).collect(),
            Follow::Inside => Vec::new(),
        };
        let applied = self.inner.apply(batch).await?;
        for (written, applied) in written.into_iter().zip(&applied) {
            if let (Some((path, content)), Some(version)) = (written, &applied.version) {
                self.keep(&path, version, content).await;
            }
        }
        Ok(applied)
    }

    fn open_directory(&self, path: &WsPath) -> Result<Option<Box<dyn Directory>>> {
        self.inner.open_directory(path)
    }
}

/// The file that a mutation writes whole, from memory.
fn written(mutation: &Mutation) -> Option<(WsPath, Bytes)> {
    match mutation {
        Mutation::Write { path, content, .. } => Some((path.clone(), content.as_bytes()?.clone())),
        _ => None,
    }
}
