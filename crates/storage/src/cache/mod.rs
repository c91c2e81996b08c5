//! Content of remote files, kept on local disk.
//!
//! A version of a file never changes its bytes, so what was fetched once need not be fetched again. The cache is a directory of small
//! files, one for each content, that every workspace and every process of one home shares. Nothing depends on it: an entry that is
//! damaged, cut short or gone is as if it had never been there, and a cache that cannot be written is no error.
//!
//! `entry` is what one file holds, `shard` keeps a part of the directory within its bounds, `storage` puts the cache behind a storage.

mod entry;
mod shard;
mod storage;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use garret_core::{Error, ErrorKind, Result};

pub use self::entry::CacheKey;
use self::shard::Shard;
pub use self::storage::CachedStorage;

/// Parts of the cache, each of which is kept within its share; a content that is larger than a share is not kept.
const SHARDS: usize = 64;

/// Where a cache is, and how large it may become.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheOptions {
    /// Its directory, made where it is missing, for this user alone.
    pub directory: PathBuf,
    /// About how much room it takes at most. What was used least recently goes first.
    pub max_bytes: u64,
}

impl CacheOptions {
    /// How large a cache may become where nothing else is said.
    pub const MAX_BYTES: u64 = 4 << 30;
}

/// A cache of contents on local disk.
#[derive(Debug)]
pub struct ContentCache {
    shards: Vec<Shard>,
    /// About what time it is, in seconds, as the file system says.
    now: AtomicU64,
}

impl ContentCache {
    /// Opens the cache, for this process and beside others.
    pub fn open(options: &CacheOptions) -> Result<Self> {
        let share = (options.max_bytes / SHARDS as u64).max(1);
        let shard = |number| Shard::new(options.directory.join(format!("{number:02x}")), share);
        shard::make_private(&options.directory).map_err(|_| unusable())?;
        let now = shard::time_in(&options.directory).map_err(|_| unusable())?;
        Ok(Self {
            shards: (0..SHARDS).map(shard).collect(),
            now: AtomicU64::new(now),
        })
    }

    /// The content under `key`, whole and undamaged. A damaged entry is removed.
    pub fn get(&self, key: &CacheKey) -> Option<Bytes> {
        self.shard(key).get(key, self.now.load(Ordering::Relaxed))
    }

    /// Keeps `content` under `key`, as far as there is room for it. Whoever looks sees all of it or nothing.
    pub fn put(&self, key: &CacheKey, content: &[u8]) {
        if let Some(now) = self.shard(key).put(key, content) {
            self.now.fetch_max(now, Ordering::Relaxed);
        }
    }

    /// The size up to which a content is kept.
    pub fn max_content_bytes(&self) -> u64 {
        self.shards.first().map_or(0, Shard::max_content_bytes)
    }

    fn shard(&self, key: &CacheKey) -> &Shard {
        &self.shards[key.number() % SHARDS]
    }
}

fn unusable() -> Error {
    Error::new(ErrorKind::Unavailable, "the cache directory cannot be used")
        .hint("check that the home can be written and has free space")
}

#[cfg(test)]
mod tests;
