//! A storage over a cache keeps the contract, and a list tells the versions that files have.

use std::sync::Arc;

use garret_core::{MemoryStorage, SystemClock};
use garret_storage::cache::{CacheOptions, CachedStorage, ContentCache};
use garret_testkit::Fixture;

async fn cached() -> Fixture {
    let home = tempfile::tempdir().expect("a temporary directory can be made");
    let options = CacheOptions {
        directory: home.path().join("cache"),
        max_bytes: 1 << 30,
    };
    let cache = Arc::new(ContentCache::open(&options).expect("the cache can be opened"));
    let memory = Arc::new(MemoryStorage::new(Arc::new(SystemClock::default())));
    Fixture::new(Arc::new(CachedStorage::new(memory, cache, "memory"))).holding(home)
}

garret_testkit::conformance_tests!(cached);
