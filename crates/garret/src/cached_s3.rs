//! Storages whose files are remote: their content is cached, and tools read and search no more than the options allow.

use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use garret_core::{
    AccessLimits, Error, ErrorKind, HistoryMode, OpenContext, OpenedStorage, Result, StorageConfig, StorageFactory,
    shape,
};
use garret_storage::cache::{CacheOptions, CachedStorage, ContentCache};
use garret_storage::s3::{Finding, ProbeMemory, S3Factory, S3Options, S3Storage};
use serde_json::{Map, Value};

use crate::Garret;
use crate::home::Home;

/// Opens `s3:` with a cache of its content, in the home or for the life of the program.
#[derive(Debug, Clone, Default)]
pub(crate) struct CachedS3Factory {
    pub(crate) home: Option<Home>,
    temporary: Arc<OnceLock<TemporaryCache>>,
    /// The known abilities of servers, kept in the home or for the life of the program.
    probes: ProbeMemory,
}

/// A cache that is removed when the program ends.
#[derive(Debug)]
struct TemporaryCache {
    cache: Arc<ContentCache>,
    _directory: tempfile::TempDir,
}

impl CachedS3Factory {
    pub(crate) fn in_home(home: Home) -> Self {
        Self {
            probes: home.probes(),
            home: Some(home),
            temporary: Arc::default(),
        }
    }

    fn open_cache(&self) -> Result<Arc<ContentCache>> {
        if let Some(home) = &self.home {
            return home.cache();
        }
        if let Some(temporary) = self.temporary.get() {
            return Ok(temporary.cache.clone());
        }
        let made = TemporaryCache::create()?;
        // Of two threads that made one at the same time, both use the first; the other directory is removed with its
        // value.
        Ok(self.temporary.get_or_init(|| made).cache.clone())
    }
}

impl TemporaryCache {
    fn create() -> Result<Self> {
        let no_room = |_| Error::new(ErrorKind::Unavailable, "there is no directory for temporary files");
        let directory = tempfile::Builder::new()
            .prefix("garret-cache-")
            .tempdir()
            .map_err(no_room)?;
        let options = CacheOptions {
            directory: directory.path().join("content"),
            max_bytes: CacheOptions::MAX_BYTES,
        };
        Ok(Self {
            cache: Arc::new(ContentCache::open(&options)?),
            _directory: directory,
        })
    }
}

#[async_trait]
impl StorageFactory for CachedS3Factory {
    fn kind(&self) -> &'static str {
        S3Factory.kind()
    }

    fn parse_url(&self, rest: &str) -> Result<Map<String, Value>> {
        S3Factory.parse_url(rest)
    }

    fn check_options(&self, options: &Map<String, Value>) -> Result<()> {
        S3Factory.check_options(options)
    }

    async fn open(&self, options: Map<String, Value>, context: &OpenContext) -> Result<OpenedStorage> {
        let options: S3Options = shape::from_value(Value::Object(options))?;
        let reach = reach_of(&options);
        let mut opened = S3Factory.open_lazily(options, context, self.probes.clone())?;
        opened.access_limits = reach;
        let Some(place) = &opened.location_id else {
            return Ok(opened);
        };
        let cached = Arc::new(CachedStorage::new(opened.storage.clone(), self.open_cache()?, place));
        Ok(OpenedStorage {
            local_content: Some(cached.clone()),
            storage: cached,
            ..opened
        })
    }
}

impl Garret {
    /// Returns the keys below the prefix of the workspace `name` of the home that are not the key of any path, or that collide with
    /// each other; none if its files are not in a bucket.
    pub(crate) async fn odd_keys(&self, name: &str) -> Result<Vec<Finding>> {
        let StorageConfig::Table { kind, options } = self.config_of(name).await?.storage else {
            return Ok(Vec::new());
        };
        if kind != S3Factory.kind() {
            return Ok(Vec::new());
        }
        let options: S3Options = shape::from_value(Value::Object(options))?;
        let probes = self.home.as_ref().map(Home::probes).unwrap_or_default();
        let storage = S3Storage::open_with_memory(options, &self.open_context(HistoryMode::Off), &probes).await?;
        storage.check().await
    }
}

/// Returns the limits on reading and searching that the options set.
fn reach_of(options: &S3Options) -> AccessLimits {
    AccessLimits {
        is_remote: true,
        max_read_bytes: Some(options.max_read_bytes),
        is_searchable: options.search_enabled,
        max_objects_scanned: options.max_objects_scanned,
        max_grep_bytes_per_object: options.max_grep_bytes_per_object,
        search_concurrency: options.search_concurrency,
    }
}
