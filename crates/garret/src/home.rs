//! The home: the directory of the depot that one program opens, at most once and only when something needs it.

#![allow(
    clippy::disallowed_methods,
    reason = "this file finds out where the home is, beside the directory of a workspace"
)]

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use garret_core::{Error, OpenContext, Result};
use garret_depot::{Depot, DepotOptions, LazyDepot};
use garret_storage::cache::{CacheOptions, ContentCache};
use garret_storage::s3::ProbeMemory;

/// The directory of a depot. Cheap to clone; clones share one open depot, with the clock and the ids of the
/// [`crate::Garret`] that needs it first.
#[derive(Debug, Clone)]
pub struct Home {
    directory: PathBuf,
    depot: Arc<OnceLock<Arc<LazyDepot>>>,
    cache: Arc<OnceLock<Arc<ContentCache>>>,
}

impl Home {
    /// Returns the home in `directory`, which need not exist yet. A relative path begins at the present current
    /// directory.
    pub fn new(directory: impl AsRef<Path>) -> Self {
        let directory = directory.as_ref();
        // Commands start in another directory, in which a relative path would name another one.
        let absolute = std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned());
        Self {
            directory: absolute,
            depot: Arc::default(),
            cache: Arc::default(),
        }
    }

    /// The cached content of remote files, shared by all workspaces.
    pub(crate) fn cache(&self) -> Result<Arc<ContentCache>> {
        if let Some(cache) = self.cache.get() {
            return Ok(cache.clone());
        }
        let opened = ContentCache::open(&CacheOptions {
            directory: self.directory.join("cache"),
            max_bytes: CacheOptions::MAX_BYTES,
        })?;
        Ok(self.cache.get_or_init(|| Arc::new(opened)).clone())
    }

    /// The results of the probes of S3 servers.
    pub(crate) fn probes(&self) -> ProbeMemory {
        ProbeMemory::in_directory(self.directory.join("probes"))
    }

    /// The directory.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// The depot, which is opened when it is first needed.
    pub(crate) fn lazy_depot(&self, context: &OpenContext) -> Arc<LazyDepot> {
        let open = || LazyDepot::new(&self.directory, DepotOptions::default(), context.clone());
        self.depot.get_or_init(|| Arc::new(open())).clone()
    }

    /// Whether the home is inside the directory `place` of the storage `local`, as far as the two exist.
    pub(crate) fn is_within(&self, place: &str) -> bool {
        // The home may not exist yet, so the nearest existing directory above it is compared.
        let existing = self.directory.ancestors().find_map(|above| above.canonicalize().ok());
        existing.is_some_and(|home| home.starts_with(place))
    }
}

/// Opens the depot of `home`; without a home it is `invalid`.
pub(crate) async fn require_depot(home: Option<&Home>, context: &OpenContext) -> Result<Depot> {
    match home {
        Some(home) => home.lazy_depot(context).get().await,
        None => Err(Error::invalid("this operation needs a home, and no home was given")
            .hint("give a directory for the home: `Garret::new().home(Home::new(directory))`")),
    }
}
