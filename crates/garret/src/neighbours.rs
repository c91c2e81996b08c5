//! The other workspaces of the home whose files are in directories that other programs can change.

use async_trait::async_trait;
use garret_core::{Error, ErrorKind, Exclusions, HistoryMode, Point, Result, StorageConfig, WsPath};
use garret_depot::{Depot, DepotWorkspace};
use garret_storage::LocalFactory;
use garret_workspace::NeighbourWorkspaces;
use serde_json::Map;

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
        let storage = self.storage_of(&depot, &workspace).await?;
        let opened = self
            .storages()
            .open(&storage, &context)
            .await
            .map_err(unreachable_files_error)?;
        let exclude = self.config_of(workspace.id()).await?.exclude;
        let opened = self
            .add_history(opened, &context, None, Exclusions::new(&exclude)?)
            .await?;
        if let Some(history) = opened.history {
            // Any question about the present lets the journal record the changes of other programs; the answer is not
            // needed.
            history.diff(&Point::Now, &Point::Now, &WsPath::root()).await?;
        }
        Ok(true)
    }
}

impl Garret {
    /// Returns the storage of a workspace of the home.
    async fn storage_of(&self, depot: &Depot, workspace: &DepotWorkspace) -> Result<StorageConfig> {
        let storage = self.config_of(workspace.id()).await?.storage;
        let is_bare = storage.options().is_some_and(Map::is_empty);
        // A directory that was never given a name has no configuration in the home, only its location.
        match depot.place_of(workspace).await? {
            Some(place) if is_bare && workspace.kind() == LocalFactory.kind() => Ok(StorageConfig::Table {
                kind: workspace.kind().to_owned(),
                options: Map::from_iter([("dir".to_owned(), place.replace("%25", "%").into())]),
            }),
            _ => Ok(storage),
        }
    }
}

/// The error for files that cannot be opened. It must not show the host's path of these files.
fn unreachable_files_error(error: Error) -> Error {
    let message = "the files of the workspace to merge cannot be opened";
    Error::new(error.kind(), message).hint("check that its directory still exists, or delete the workspace")
}
