//! The storage `memory`: with a history, a depot in memory; without one, the plain tree.

use async_trait::async_trait;
use garret_core::{HistoryMode, MemoryFactory, OpenContext, OpenedStorage, Result, StorageFactory};
use garret_depot::{Depot, DepotOptions, NewWorkspace};
use serde_json::{Map, Value};

use crate::filestore::with_own_history;

/// Opens `memory:`.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct MemoryWithHistoryFactory;

#[async_trait]
impl StorageFactory for MemoryWithHistoryFactory {
    fn kind(&self) -> &'static str {
        MemoryFactory.kind()
    }

    fn parse_url(&self, rest: &str) -> Result<Map<String, Value>> {
        MemoryFactory.parse_url(rest)
    }

    fn check_options(&self, options: &Map<String, Value>) -> Result<()> {
        MemoryFactory.check_options(options)
    }

    async fn open(&self, options: Map<String, Value>, context: &OpenContext) -> Result<OpenedStorage> {
        // Opened in either case, because the plain storage checks the options: it refuses any.
        let plain = MemoryFactory.open(options, context).await?;
        if context.history == HistoryMode::Off {
            return Ok(plain);
        }
        let depot = Depot::in_memory(DepotOptions::default(), context.clone())?;
        let new = NewWorkspace {
            kind: self.kind().to_owned(),
            ..NewWorkspace::unnamed()
        };
        Ok(with_own_history(depot.create(new).await?, context.history))
    }
}
