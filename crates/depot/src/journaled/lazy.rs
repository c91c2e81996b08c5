//! A depot that is opened when it is first needed, so that merely reading a directory makes no home.

#![allow(
    clippy::disallowed_methods,
    reason = "this file looks whether a home is there before it makes one"
)]

use std::path::{Path, PathBuf};

use futures::lock::Mutex;
use garret_core::{HistoryMode, OpenContext, Result};

use crate::depot::Depot;
use crate::options::DepotOptions;

/// A depot that is opened when it is first needed.
#[derive(Debug)]
pub struct LazyDepot {
    home: Option<PathBuf>,
    options: DepotOptions,
    context: OpenContext,
    opened: Mutex<Option<Depot>>,
}

impl LazyDepot {
    /// The depot in the directory `home`.
    pub fn new(home: &Path, options: DepotOptions, context: OpenContext) -> Self {
        Self {
            home: Some(home.to_owned()),
            options,
            context,
            opened: Mutex::new(None),
        }
    }

    /// A depot that is open.
    pub fn opened(depot: Depot) -> Self {
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

    /// The directory it is in; `None` in memory.
    pub(crate) fn home(&self) -> Option<&Path> {
        self.home.as_deref()
    }

    pub(crate) fn context(&self) -> &OpenContext {
        &self.context
    }

    /// The depot, made where it is missing.
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

    /// The depot, unless its home is still to be made.
    pub async fn existing(&self) -> Result<Option<Depot>> {
        // The lock file tells of a home whose database is lost, which must not pass for one that is still to be made.
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

/// Whether nothing is there. What may not be looked at is: whoever opens the home is told why that fails.
fn is_absent(path: &Path) -> bool {
    match path.try_exists() {
        Ok(is_there) => !is_there,
        Err(failure) => failure.kind() != std::io::ErrorKind::PermissionDenied,
    }
}
