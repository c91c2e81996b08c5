//! The storage `filestore`: files that live in the depot of the home.

use async_trait::async_trait;
use garret_core::path::quote;
use garret_core::{
    Durability, Error, ErrorKind, HistoryMode, OpenContext, OpenedStorage, Point, Result, StorageFactory,
    WorkspaceConfig, shape,
};
use garret_depot::{Depot, DepotWorkspace, NewWorkspace};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::sync::Arc;

use crate::home::{self, Home};
use crate::named_workspaces::{parse_config, update_config};

/// The kind of a workspace whose files live in the depot.
pub(crate) const KIND: &str = "filestore";

/// The options of `filestore`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FilestoreOptions {
    /// The name of the workspace in the home, or its id.
    #[schemars(example = &"notes")]
    pub workspace: String,
    /// What a write that returned survives.
    #[serde(default)]
    #[schemars(example = &"relaxed")]
    pub durability: Durability,
    /// Whether a workspace that is missing is made.
    #[serde(default = "yes")]
    #[schemars(example = false)]
    pub create: bool,
    /// The id of the depot, where only this one will do. The default is any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"0190c2f4-7f3a-7cc1-9a55-6f3f3f0c1d2e")]
    pub depot: Option<String>,
}

fn yes() -> bool {
    true
}

/// Opens `filestore:NAME`.
#[derive(Debug, Clone, Default)]
pub(crate) struct FilestoreFactory {
    pub(crate) home: Option<Home>,
}

#[async_trait]
impl StorageFactory for FilestoreFactory {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn parse_url(&self, rest: &str) -> Result<Map<String, Value>> {
        if rest.is_empty() {
            return Err(Error::invalid("`filestore:` needs the name of a workspace").hint("write `filestore:notes`"));
        }
        Ok(Map::from_iter([("workspace".to_owned(), rest.into())]))
    }

    fn check_options(&self, options: &Map<String, Value>) -> Result<()> {
        shape::from_value::<FilestoreOptions>(Value::Object(options.clone())).map(|_| ())
    }

    async fn open(&self, options: Map<String, Value>, context: &OpenContext) -> Result<OpenedStorage> {
        let options: FilestoreOptions = shape::from_value(Value::Object(options))?;
        let depot = home::require_depot(self.home.as_ref(), context).await?;
        check_depot(&depot, &options)?;
        let workspace = find_or_create(&depot, &options)
            .await?
            .with_durability(options.durability);
        switch_history_mode(&workspace, context.history).await?;
        let reference = FilestoreOptions {
            workspace: workspace.id().to_owned(),
            create: false,
            depot: Some(depot.id()?),
            ..options
        };
        Ok(OpenedStorage {
            reference: serde_json::to_value(reference)
                .ok()
                .and_then(|value| value.as_object().cloned()),
            durability: options.durability,
            ..with_own_history(workspace, context.history)
        })
    }
}

/// Opens a workspace of the depot as a storage with its own history.
pub(crate) fn with_own_history(workspace: DepotWorkspace, history: HistoryMode) -> OpenedStorage {
    let storage = Arc::new(workspace);
    OpenedStorage {
        history: match history {
            HistoryMode::Off => None,
            HistoryMode::Durable | HistoryMode::Session => Some(storage.clone()),
        },
        local_content: Some(storage.clone()),
        ..storage.into()
    }
}

/// Switches the history of the workspace to `mode`. The history that an earlier session left is deleted. A durable
/// history is never deleted: if `mode` would delete one, it is an error and nothing is opened.
async fn switch_history_mode(workspace: &DepotWorkspace, mode: HistoryMode) -> Result<()> {
    let info = workspace.describe().await?;
    let config = parse_config(KIND, info.config)?;
    let before = config.history.unwrap_or(HistoryMode::Durable);
    match (before, mode) {
        (HistoryMode::Durable, HistoryMode::Durable) => return Ok(()),
        (HistoryMode::Durable, _) if !workspace.changes(None, 1).await?.is_empty() => {
            return Err(history_loss_error(info.name.as_deref().unwrap_or(&info.id), mode));
        }
        // The history of an earlier session ends here; a new session begins without one, and `off` shows none.
        (_, HistoryMode::Session | HistoryMode::Off) => drop(workspace.forget_history(&Point::Now).await?),
        (_, HistoryMode::Durable) => {}
    }
    if before == mode {
        return Ok(());
    }
    let keep = |config| {
        Ok(WorkspaceConfig {
            history: Some(mode),
            ..config
        })
    };
    update_config(workspace, keep).await.map(|_| ())
}

/// The error for a mode that would delete a durable history.
fn history_loss_error(name: &str, mode: HistoryMode) -> Error {
    let name = quote(name);
    let mode = match mode {
        HistoryMode::Off => "off",
        _ => "session",
    };
    Error::invalid(format!(
        "the workspace {name} has a durable history, and opening it with `history` set to `{mode}` would delete that history"
    ))
    .hint(
        "leave `history` at `durable`; to delete the history, first keep 0 changes of it and collect the garbage",
    )
}

fn check_depot(depot: &Depot, options: &FilestoreOptions) -> Result<()> {
    match &options.depot {
        Some(wanted) if *wanted != depot.id()? => Err(Error::new(
            ErrorKind::NotFound,
            "this workspace is in another home, not in the open one",
        )
        .hint("open the home in which the reference was made")),
        _ => Ok(()),
    }
}

/// Finds the workspace that the options name, and makes it if it is missing and may be made.
async fn find_or_create(depot: &Depot, options: &FilestoreOptions) -> Result<DepotWorkspace> {
    let name = &options.workspace;
    let workspace = match depot.workspace(name).await {
        Err(error) if error.kind() == ErrorKind::NotFound && options.create => {
            match depot.create(NewWorkspace::named(name)).await {
                // Another process made it in between.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => depot.workspace(name).await?,
                made => made?,
            }
        }
        found => found?,
    };
    match workspace.kind() {
        KIND => Ok(workspace),
        kind => Err(Error::invalid(format!(
            "the files of the workspace {} are in {}, not in the home",
            quote(name),
            quote(kind)
        ))
        .hint("open it by its name only")),
    }
}
