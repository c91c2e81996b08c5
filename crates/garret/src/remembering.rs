//! The storage `memory`: with a history, a depot in memory; without one, the plain tree.

use async_trait::async_trait;
use garret_core::{HistoryMode, MemoryFactory, OpenContext, Opened, Result, StorageFactory};
use garret_depot::{Depot, DepotOptions, NewWorkspace};
use serde_json::{Map, Value};

use crate::filestore::native;

/// Opens `memory:`.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RememberingFactory;

#[async_trait]
impl StorageFactory for RememberingFactory {
    fn kind(&self) -> &'static str {
        MemoryFactory.kind()
    }

    fn options_of_url(&self, rest: &str) -> Result<Map<String, Value>> {
        MemoryFactory.options_of_url(rest)
    }

    fn check(&self, options: &Map<String, Value>) -> Result<()> {
        MemoryFactory.check(options)
    }

    async fn open(&self, options: Map<String, Value>, context: &OpenContext) -> Result<Opened> {
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
        Ok(native(depot.create(new).await?, context.history))
    }
}
