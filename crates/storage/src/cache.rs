//! A cache of remote file content on local disk.
//!
//! A version of a file never changes its bytes, so content that was fetched once need not be fetched again. The cache
//! is a directory of small files, one for each content, and every workspace and process of one home shares it. Nothing
//! depends on it: an entry that is damaged, cut short or gone counts as absent, and a cache that cannot be written is
//! no error.
//!
//! `entry` is the format of one file, `shard` keeps a part of the directory within its size limit, and `storage` puts
//! the cache behind a storage.

mod entry;
mod shard;
mod storage;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use garret_core::{Error, ErrorKind, Result};

pub use self::entry::CacheKey;
use self::shard::CacheShard;
pub use self::storage::CachedStorage;

/// The number of shards. Each shard is kept within its share of the size limit; a content larger than half a share is
/// not cached.
const SHARDS: usize = 64;

/// The location and the size limit of a cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheOptions {
    /// The directory of the cache; a missing one is made, for this user alone.
    pub directory: PathBuf,
    /// The approximate limit of its size on disk. The least recently used content is removed first.
    pub max_bytes: u64,
}

impl CacheOptions {
    /// The default size limit.
    pub const MAX_BYTES: u64 = 4 << 30;
}

/// A cache of contents on local disk.
#[derive(Debug)]
pub struct ContentCache {
    shards: Vec<CacheShard>,
    /// The approximate time in seconds, by the clock of the file system.
    now: AtomicU64,
}

impl ContentCache {
    /// Opens the cache; other processes may have it open at the same time.
    pub fn open(options: &CacheOptions) -> Result<Self> {
        let share = (options.max_bytes / SHARDS as u64).max(1);
        let shard = |number| CacheShard::new(options.directory.join(format!("{number:02x}")), share);
        shard::make_private_directory(&options.directory).map_err(|_| cache_unusable_error())?;
        // The time comes from the file system and not from the process, because it is compared with file times.
        let now = shard::file_system_time(&options.directory).map_err(|_| cache_unusable_error())?;
        Ok(Self {
            shards: (0..SHARDS).map(shard).collect(),
            now: AtomicU64::new(now),
        })
    }

    /// Returns the content under `key`, whole and undamaged. A damaged entry is removed.
    pub fn get(&self, key: &CacheKey) -> Option<Bytes> {
        self.shard_of_key(key).get(key, self.now.load(Ordering::Relaxed))
    }

    /// Caches `content` under `key`, if there is room for it. A reader sees all of the content or none.
    pub fn put(&self, key: &CacheKey, content: &[u8]) {
        if let Some(now) = self.shard_of_key(key).put(key, content) {
            self.now.fetch_max(now, Ordering::Relaxed);
        }
    }

    /// Returns the size in bytes up to which a content is cached.
    pub fn max_content_bytes(&self) -> u64 {
        self.shards.first().map_or(0, CacheShard::max_content_bytes)
    }

    fn shard_of_key(&self, key: &CacheKey) -> &CacheShard {
        &self.shards[key.shard_number() % SHARDS]
    }
}

fn cache_unusable_error() -> Error {
    Error::new(ErrorKind::Unavailable, "the cache directory cannot be used")
        .hint("check that the home can be written and has free space")
}

#[cfg(test)]
mod tests;
