//! The journal over files that live outside the depot.

use std::sync::Arc;

use garret_core::{
    Error, ErrorKind, Exclusions, History as _, HistoryMode, Keep, OpenContext, Opened, Result, StorageConfig,
    WorkspaceConfig,
};
use garret_depot::{Depot, DepotOptions, Journaled, LazyDepot};

use serde_json::{Map, Value};

use crate::named::kept;
use crate::{Garret, filestore};

impl Garret {
    /// Gives what was opened a history, unless it has one or is to have none: durable in the home where its place can be found again,
    /// and otherwise for as long as it is open.
    pub(crate) async fn journaled(
        &self,
        opened: Opened,
        context: &OpenContext,
        keep: Option<Keep>,
        exclusions: Exclusions,
    ) -> Result<Opened> {
        if let (Some(history), Some(keep)) = (&opened.history, keep) {
            history.set_keep(&keep).await?;
        }
        if opened.history.is_some() || context.history == HistoryMode::Off {
            return Ok(opened);
        }
        let depot = match (&self.home, context.history, &opened.place) {
            (Some(home), HistoryMode::Durable, Some(place)) if home.is_within(place) => return Err(home_is_inside()),
            (Some(home), HistoryMode::Durable, Some(_)) => home.lazy(context),
            _ => {
                let depot = Depot::in_memory(DepotOptions::default(), context.clone())?;
                Arc::new(LazyDepot::opened(depot))
            }
        };
        let known = opened.clone();
        let journaled = Journaled::open_excluding(opened, depot, known.durability, exclusions).await?;
        if let Some(keep) = keep {
            journaled.set_keep(&keep).await?;
        }
        Ok(Opened {
            history: Some(journaled.clone()),
            storage: journaled,
            ..known
        })
    }
}

/// The configuration for the branches of a workspace: what it allows, on files that live in the depot.
pub(crate) fn branch_config(config: &WorkspaceConfig) -> Result<Value> {
    let durability = config.storage.options().and_then(|options| options.get("durability"));
    kept(&WorkspaceConfig {
        storage: StorageConfig::Table {
            kind: filestore::KIND.to_owned(),
            options: Map::from_iter(durability.map(|word| ("durability".to_owned(), word.clone()))),
        },
        history: None,
        keep: None,
        ..config.clone()
    })
}

/// The error for a durable history of files that cannot be found again.
pub(crate) fn has_no_place(kind: &str) -> Error {
    Error::new(
        ErrorKind::Unsupported,
        format!("the storage `{kind}` does not report the location of its files, so their history cannot be kept"),
    )
    .hint("set `history` to `session`")
}

/// The error for a limit on what is not kept anyway.
pub(crate) fn nothing_to_keep() -> Error {
    Error::invalid("`keep` limits a durable history, and this workspace has no durable history")
        .hint("leave `keep` out, or give the workspace a durable history: a home, and `history` at `durable`")
}

/// The error for a home that the workspace itself could change.
fn home_is_inside() -> Error {
    Error::invalid("the home lies inside the workspace whose history it would keep")
        .hint("choose a home elsewhere, another directory for the workspace, or set `history` to `off`")
}
