//! The other workspaces of the home whose files are in directories that other programs can change.

use async_trait::async_trait;
use garret_core::{Error, ErrorKind, Exclusions, HistoryMode, Point, Result, WsPath};
use garret_storage::LocalFactory;
use garret_workspace::NeighbourWorkspaces;
use serde_json::Map;

use crate::anchored_local::local_storage;
use crate::{Garret, filestore};
use garret_core::StorageFactory as _;

#[async_trait]
impl NeighbourWorkspaces for Garret {
    async fn record_outside_changes(&self, id: &str) -> Result<bool> {
        let context = self.open_context(HistoryMode::Durable);
        let depot = match &self.home {
            Some(home) => home.lazy_depot(&context).get_existing().await?,
            None => None,
        };
        let Some(depot) = depot else { return Ok(false) };
        let workspace = match depot.workspace(id).await {
            // It is in a depot in memory, which holds the files itself: no other program can change them.
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            found => found?,
        };
        if workspace.kind() == filestore::KIND {
            return Ok(false);
        }
        let config = self.config_of(workspace.id()).await?;
        let is_bare = config.storage.options().is_some_and(Map::is_empty);
        let storage = match depot.place_of(&workspace).await? {
            // A directory that was never given a name has no configuration in the home, only its location.
            Some(place) if is_bare && workspace.kind() == LocalFactory.kind() => {
                local_storage(&place.replace("%25", "%"))
            }
            _ => config.storage,
        };
        let opened = self
            .storages()
            .open(&storage, &context)
            .await
            .map_err(unreachable_files_error)?;
        let exclusions = Exclusions::new(&config.exclude)?;
        let opened = self.add_history(opened, &context, None, exclusions).await?;
        if let Some(history) = opened.history {
            // Any question about the present lets the journal record the changes of other programs; the answer is not
            // needed.
            history.diff(&Point::Now, &Point::Now, &WsPath::root()).await?;
        }
        Ok(true)
    }
}

/// The error for files that cannot be opened. It must not show the host's path of these files.
fn unreachable_files_error(error: Error) -> Error {
    let message = "the files of the workspace to merge cannot be opened";
    Error::new(error.kind(), message).hint("check that its directory still exists, or delete the workspace")
}
