//! The home: the directory of the depot that one program opens, at most once and only when something needs it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::lock::Mutex;
use garret_core::{Error, OpenContext, Result};
use garret_depot::{Depot, DepotOptions};

/// Where a depot lives. Cheap to clone; clones open it together.
#[derive(Debug, Clone)]
pub struct Home {
    directory: PathBuf,
    depot: Arc<Mutex<Option<Depot>>>,
}

impl Home {
    /// The home in `directory`, which need not exist yet.
    pub fn new(directory: impl AsRef<Path>) -> Self {
        Self {
            directory: directory.as_ref().to_owned(),
            depot: Arc::default(),
        }
    }

    /// The depot, opened by whoever needs it first.
    pub async fn depot(&self, context: &OpenContext) -> Result<Depot> {
        let mut opened = self.depot.lock().await;
        if let Some(depot) = opened.as_ref() {
            return Ok(depot.clone());
        }
        let depot = Depot::open(&self.directory, DepotOptions::default(), context.clone()).await?;
        Ok(opened.insert(depot).clone())
    }
}

/// The depot of `home`; without one it is `invalid`.
pub(crate) async fn required(home: Option<&Home>, context: &OpenContext) -> Result<Depot> {
    match home {
        Some(home) => home.depot(context).await,
        None => Err(Error::invalid("this needs a home, and none was given")
            .hint("give a directory for it: `Garret::new().home(directory)`")),
    }
}
