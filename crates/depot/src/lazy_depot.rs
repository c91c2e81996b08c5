//! A depot that is opened on first use, so that only reading a directory creates no home.

#![allow(
    clippy::disallowed_methods,
    reason = "this file looks whether a home is there before it makes one"
)]

use std::path::{Path, PathBuf};

use futures::lock::Mutex;
use garret_core::{HistoryMode, OpenContext, Result};

use crate::depot::Depot;
use crate::options::DepotOptions;

/// A depot that is opened on first use.
#[derive(Debug)]
pub struct LazyDepot {
    home: Option<PathBuf>,
    options: DepotOptions,
    context: OpenContext,
    opened: Mutex<Option<Depot>>,
}

impl LazyDepot {
    /// Returns the depot in the directory `home`, not opened yet.
    pub fn new(home: &Path, options: DepotOptions, context: OpenContext) -> Self {
        Self {
            home: Some(home.to_owned()),
            options,
            context,
            opened: Mutex::new(None),
        }
    }

    /// Wraps a depot that is open.
    pub fn from_opened(depot: Depot) -> Self {
        let shared = &depot.shared;
        Self {
            home: shared.home.clone(),
            options: shared.options.clone(),
            context: OpenContext {
                clock: shared.clock.clone(),
                ids: shared.ids.clone(),
                history: HistoryMode::Durable,
            },
            opened: Mutex::new(Some(depot)),
        }
    }

    /// Returns the directory of the depot; `None` for a depot in memory.
    pub fn home(&self) -> Option<&Path> {
        self.home.as_deref()
    }

    /// Returns the context with which the depot is opened.
    pub fn context(&self) -> &OpenContext {
        &self.context
    }

    /// Returns the depot, and creates it if it is missing.
    pub async fn get(&self) -> Result<Depot> {
        let mut opened = self.opened.lock().await;
        if let Some(depot) = &*opened {
            return Ok(depot.clone());
        }
        let depot = match &self.home {
            Some(home) => Depot::open(home, self.options.clone(), self.context.clone()).await?,
            None => Depot::in_memory(self.options.clone(), self.context.clone())?,
        };
        *opened = Some(depot.clone());
        Ok(depot)
    }

    /// Returns the depot, unless its home does not exist yet.
    pub async fn get_existing(&self) -> Result<Option<Depot>> {
        // A lock file without a database is a home that lost its database. It must not be taken for a new home.
        let is_missing = |home: &PathBuf| {
            ["depot.db", "depot.lock"]
                .iter()
                .all(|name| is_absent(&home.join(name)))
        };
        if self.opened.lock().await.is_none() && self.home.as_ref().is_none_or(is_missing) {
            return Ok(None);
        }
        self.get().await.map(Some)
    }
}

/// Returns whether nothing is at `path`. A path that may not be accessed counts as present, so that opening the home
/// reports the reason.
fn is_absent(path: &Path) -> bool {
    match path.try_exists() {
        Ok(is_there) => !is_there,
        Err(failure) => failure.kind() != std::io::ErrorKind::PermissionDenied,
    }
}
