//! A storage wrapper that caches file content as it is read and written.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use garret_core::{
    Batch, DirectoryHandle, Follow, ListOptions, ListPage, LocalContent, Mutation, MutationOutcome, ReadOptions,
    ReadResult, Result, Stat, StatOptions, Storage, StorageInfo, Version, WsPath,
};
use garret_handles::run_blocking;

use super::{CacheKey, ContentCache};

/// A storage behind a cache: a file that is read or written as a whole is cached under its version, and [`LocalContent`]
/// returns it.
///
/// Every call still goes to the storage: the cache only answers callers who already know the version that they want.
#[derive(Debug, Clone)]
pub struct CachedStorage {
    pub(super) inner: Arc<dyn Storage>,
    cache: Arc<ContentCache>,
    scope: Arc<str>,
}

impl CachedStorage {
    /// Puts the cache in front of `inner`. `scope` identifies the location of its files among all locations in the
    /// world; storages with the same scope share their cached content. A scope of `a` with the path `b/c` and a scope
    /// of `a/b` with the path `c` share it, too.
    pub fn new(inner: Arc<dyn Storage>, cache: Arc<ContentCache>, scope: &str) -> Self {
        Self {
            inner,
            cache,
            scope: scope.trim_end_matches('/').into(),
        }
    }

    /// Returns the cache key of a file.
    fn cache_key(&self, path: &WsPath, version: &Version, size: u64) -> CacheKey {
        // Scope, path, version and size together identify the content, and nothing less does: the versions of some
        // servers only say that a file changed, and an attacker who chooses the bytes can make two files with one MD5.
        let place = format!("{}/{}", self.scope, path.as_str());
        CacheKey::from_parts(&[place.as_bytes(), version.as_str().as_bytes(), &size.to_le_bytes()])
    }

    async fn cache_content(&self, path: &WsPath, version: &Version, content: Bytes) {
        let key = self.cache_key(path, version, content.len() as u64);
        if content.len() as u64 > self.cache.max_content_bytes() {
            return;
        }
        let cache = self.cache.clone();
        let put = move || {
            cache.put(&key, &content);
            Ok(())
        };
        // The cache is optional: if the program ends before the write does, nothing is lost.
        let _ = run_blocking(put).await;
    }
}

impl LocalContent for CachedStorage {
    fn find_content(&self, path: &WsPath, version: &Version, size: u64) -> Option<Bytes> {
        let content = self.cache.get(&self.cache_key(path, version, size));
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
        // If links are followed, the content may belong to another path than this one.
        let is_plain = options.follow == Follow::Never;
        let read = self.inner.read(path, options).await?;
        if is_plain && read.bytes.len() as u64 == read.size {
            self.cache_content(path, &read.version, read.bytes.clone()).await;
        }
        Ok(read)
    }

    async fn list(&self, path: &WsPath, options: ListOptions) -> Result<ListPage> {
        self.inner.list(path, options).await
    }

    async fn apply(&self, batch: Batch) -> Result<Vec<MutationOutcome>> {
        let written = match batch.follow {
            Follow::Never => batch.mutations.iter().map(whole_file_write).collect(),
            Follow::Inside => Vec::new(),
        };
        let applied = self.inner.apply(batch).await?;
        for (written, applied) in written.into_iter().zip(&applied) {
            if let (Some((path, content)), Some(version)) = (written, &applied.version) {
                self.cache_content(&path, version, content).await;
            }
        }
        Ok(applied)
    }

    fn open_directory(&self, path: &WsPath) -> Result<Option<Box<dyn DirectoryHandle>>> {
        self.inner.open_directory(path)
    }
}

/// Returns the path and the content of a mutation that writes a whole file from memory.
fn whole_file_write(mutation: &Mutation) -> Option<(WsPath, Bytes)> {
    match mutation {
        Mutation::Write { path, content, .. } => Some((path.clone(), content.as_bytes()?.clone())),
        _ => None,
    }
}
