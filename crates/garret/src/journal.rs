//! The journal for files that are outside the depot.

use std::sync::Arc;

use garret_core::{
    Error, ErrorKind, Exclusions, History as _, HistoryMode, OpenContext, OpenedStorage, Result, RetentionLimits,
    StorageConfig, WorkspaceConfig,
};
use garret_depot::{Depot, DepotOptions, LazyDepot};
use garret_journal::Journaled;

use serde_json::{Map, Value};

use crate::named_workspaces::serialize_config;
use crate::{Garret, filestore};

impl Garret {
    /// Gives an opened storage a history, unless it has one or is to have none: a durable one in the home if its files
    /// can be found again, else one that lasts while the storage is open.
    pub(crate) async fn add_history(
        &self,
        opened: OpenedStorage,
        context: &OpenContext,
        keep: Option<RetentionLimits>,
        exclusions: Exclusions,
    ) -> Result<OpenedStorage> {
        if let (Some(history), Some(keep)) = (&opened.history, keep) {
            history.set_retention(&keep).await?;
        }
        if opened.history.is_some() || context.history == HistoryMode::Off {
            return Ok(opened);
        }
        let depot = match (&self.home, context.history, &opened.location_id) {
            // A command or a tool could change a home inside the workspace, and with it the history.
            (Some(home), HistoryMode::Durable, Some(place)) if home.is_within(place) => return Err(home_inside_error()),
            (Some(home), HistoryMode::Durable, Some(_)) => home.lazy_depot(context),
            _ => {
                let depot = Depot::in_memory(DepotOptions::default(), context.clone())?;
                Arc::new(LazyDepot::from_opened(depot))
            }
        };
        let known = opened.clone();
        let journaled = Journaled::open_excluding(opened, depot, known.durability, exclusions).await?;
        if let Some(keep) = keep {
            journaled.set_retention(&keep).await?;
        }
        Ok(OpenedStorage {
            history: Some(journaled.clone()),
            storage: journaled,
            ..known
        })
    }
}

/// Returns the configuration for the branches of a workspace: its capabilities, on files that are in the depot.
pub(crate) fn branch_config(config: &WorkspaceConfig) -> Result<Value> {
    let durability = config.storage.options().and_then(|options| options.get("durability"));
    serialize_config(&WorkspaceConfig {
        storage: StorageConfig::table(
            filestore::KIND,
            Map::from_iter(durability.map(|word| ("durability".to_owned(), word.clone()))),
        ),
        history: None,
        keep: None,
        ..config.clone()
    })
}

/// The error for a durable history of files that cannot be found again.
pub(crate) fn no_location_error(kind: &str) -> Error {
    Error::new(
        ErrorKind::Unsupported,
        format!("the storage `{kind}` does not report the location of its files, so their history cannot be kept"),
    )
    .hint("set `history` to `session`")
}

/// The error for `keep` without a durable history.
pub(crate) fn keep_without_history_error() -> Error {
    Error::invalid("`keep` limits a durable history, and this workspace has no durable history")
        .hint("leave `keep` out, or give the workspace a durable history: a home, and `history` at `durable`")
}

/// The error for a home inside the workspace, which the workspace itself could change.
fn home_inside_error() -> Error {
    Error::invalid("the home lies inside the workspace whose history it would keep")
        .hint("choose a home elsewhere, another directory for the workspace, or set `history` to `off`")
}
