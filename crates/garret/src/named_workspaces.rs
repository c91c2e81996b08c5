//! Workspaces by name: created once, kept in the home, opened from any directory.

use garret_core::path::quote;
use garret_core::{
    Capabilities, Error, ErrorKind, FsRestriction, HistoryMode, ListOptions, OptionEdit, Point, Result,
    RetentionLimits, StorageConfig, WorkspaceConfig, WsPath, shape,
};
use garret_depot::{Depot, DepotWorkspace, NewWorkspace, WorkspaceInfo};
use garret_journal::Journaled;
use garret_tools::Toolbox;
use garret_workspace::Workspace;
use serde_json::{Map, Value};

use crate::Garret;
use crate::filestore;
use crate::journal::keep_without_history_error;
use crate::results::{
    DeclaredCapabilities, KeptHistory, RecoverResult, WorkspaceName, WorkspaceOptions, WorkspaceSummary,
};
use crate::workspace_lists::summarize_workspace;

impl Garret {
    /// Creates the workspace `name` in the home, as configured, and returns its summary. The storage `filestore`
    /// needs no options then. A name that is taken is `already_exists`.
    pub async fn create(&self, name: &str, config: &WorkspaceConfig) -> Result<WorkspaceSummary> {
        self.check(&with_workspace(config.clone(), name))?;
        check_kept_history(config)?;
        let depot = self.depot().await?;
        let made = match config.storage.kind() {
            filestore::KIND => {
                let options = config.storage.options().cloned().unwrap_or_default();
                let config = WorkspaceConfig {
                    storage: StorageConfig::table(filestore::KIND, options),
                    ..config.clone()
                };
                depot.create(new_workspace(name, config)?).await?
            }
            kind => {
                let (config, place) = self.resolve_config(config).await?;
                depot.claim_place(kind, &place, new_workspace(name, config)?).await?
            }
        };
        if let Some(keep) = &config.keep {
            made.set_keep(keep).await?;
        }
        let info = made.describe().await?;
        Ok(summarize_workspace(&info, std::slice::from_ref(&info), None))
    }

    /// Returns the configuration with a storage that can be opened from any directory, and the location of its files.
    /// The storage is opened to check it.
    async fn resolve_config(&self, config: &WorkspaceConfig) -> Result<(WorkspaceConfig, String)> {
        let opened = self
            .storages()
            .open(&config.storage, &self.open_context(HistoryMode::Off))
            .await?;
        // A storage may be opened without a request to its server; a list shows a wrong address or key before the
        // workspace has a name.
        let first = ListOptions {
            limit: 1,
            ..ListOptions::default()
        };
        opened.storage.list(&WsPath::root(), first).await?;
        let kind = config.storage.kind();
        let (Some(options), Some(place)) = (opened.reference, opened.location_id) else {
            return Err(Error::invalid(format!(
                "the files of the storage {} are lost when this program ends, so it cannot have a name",
                quote(kind)
            ))
            .hint("use `filestore`, or `local:` with a directory"));
        };
        let settled = WorkspaceConfig {
            storage: StorageConfig::table(kind, options),
            ..config.clone()
        };
        Ok((settled, place))
    }

    /// Renames the workspace `name` of the home to `new_name`. A name that is taken is `already_exists`.
    pub async fn rename(&self, name: &str, new_name: &str) -> Result<WorkspaceName> {
        let depot = self.depot().await?;
        let workspace = depot.workspace(name).await?;
        depot.rename(workspace.id(), new_name).await?;
        Ok(WorkspaceName::new(&workspace, new_name))
    }

    /// Deletes the workspace `name` of the home; [`Garret::recover`] brings it back until the garbage is collected. Its
    /// branches are not affected, and a directory outside the home is left unchanged.
    pub async fn delete(&self, name: &str) -> Result<WorkspaceName> {
        let depot = self.depot().await?;
        // A workspace that is deleted already is not found here, so it keeps the date of its deletion.
        let workspace = depot.workspace(name).await?;
        depot.delete(workspace.id()).await?;
        Ok(WorkspaceName::new(&workspace, name))
    }

    /// Recovers the deleted workspace `name` of the home; one that is not deleted stays as it is. If the directory of its
    /// files belongs to another workspace by now, it is `already_exists`, and nothing is touched.
    pub async fn recover(&self, name: &str) -> Result<RecoverResult> {
        let depot = self.depot().await?;
        let recovered = depot.workspace(name).await.is_err();
        if recovered {
            self.recover_deleted(&depot, name).await?;
        }
        Ok(RecoverResult {
            workspace: WorkspaceName::new(&depot.workspace(name).await?, name),
            recovered,
        })
    }

    async fn recover_deleted(&self, depot: &Depot, name: &str) -> Result<()> {
        let all = depot.workspaces().await?;
        let is_meant = |info: &&WorkspaceInfo| info.name.as_deref() == Some(name) || info.id == name;
        let info = all.iter().find(is_meant).filter(|info| info.kind != filestore::KIND);
        let Some(info) = info else {
            return depot.recover(name).await;
        };
        let config = parse_config(&info.kind, info.config.clone())?;
        // A directory that was never given a name has no configuration, and so no path to open.
        let is_bare = config.storage.options().is_some_and(Map::is_empty);
        match self.resolve_config(&config).await {
            Ok((_, place)) if !is_bare => depot.recover_at(&info.id, &info.kind, &place).await,
            // A directory that is missing now does not prevent the recovery: it may exist again later.
            _ => depot.recover(&info.id).await,
        }
    }

    /// Returns the configuration of the workspace `name` of the home, by which [`Garret::open_config`] opens it.
    pub async fn config_of(&self, name: &str) -> Result<WorkspaceConfig> {
        let workspace = self.depot().await?.workspace(name).await?;
        let info = workspace.describe().await?;
        Ok(with_workspace(parse_config(&info.kind, info.config)?, &info.id))
    }

    /// Returns how much history the workspace `name` of the home keeps; with `limits`, sets it first. Nothing is deleted
    /// before the garbage is collected.
    pub async fn keep(&self, name: &str, limits: Option<&RetentionLimits>) -> Result<KeptHistory> {
        let workspace = self.depot().await?.workspace(name).await?;
        if let Some(limits) = limits {
            workspace.set_keep(limits).await?;
        }
        Ok(KeptHistory {
            id: workspace.id().to_owned(),
            keep: workspace.keep().await?,
        })
    }

    /// Returns the capabilities of the workspace `name` of the home; with `capabilities`, sets them first, from the next
    /// opening on. A capability that it already declares keeps its options.
    pub async fn capabilities(&self, name: &str, capabilities: Option<&Capabilities>) -> Result<DeclaredCapabilities> {
        let declared = match capabilities {
            Some(capabilities) => self.set_capabilities(name, capabilities).await?,
            None => self.config_of(name).await?.capabilities,
        };
        Ok(DeclaredCapabilities {
            name: name.to_owned(),
            capabilities: declared.declared_names(),
        })
    }

    /// Returns the options of the workspace `name` of the home; with `edits`, makes them first, from the next opening on.
    /// The whole new configuration is checked before any of it is kept.
    pub async fn configure(&self, name: &str, edits: &[OptionEdit]) -> Result<WorkspaceOptions> {
        let workspace = self.depot().await?.workspace(name).await?;
        let keep = workspace.keep().await?;
        let edit = |config: WorkspaceConfig| {
            // `keep` is stored apart from the configuration.
            let config = WorkspaceConfig {
                keep: (!keep.keeps_everything()).then_some(keep),
                ..config
            };
            let config = config.edit_options(edits)?;
            check_kept_history(&config)?;
            self.check(&with_workspace(config.clone(), workspace.id()))?;
            Ok(config)
        };
        let config = if edits.is_empty() {
            let info = workspace.describe().await?;
            edit(parse_config(&info.kind, info.config)?)?
        } else {
            let config = update_config(&workspace, edit).await?;
            // Another process may have set it since it was read.
            if edits.iter().any(|edit| edit.touches("keep")) {
                workspace.set_keep(&config.keep.unwrap_or_default()).await?;
            }
            config
        };
        Ok(WorkspaceOptions {
            name: name.to_owned(),
            options: config.list_options(),
        })
    }

    async fn set_capabilities(&self, name: &str, capabilities: &Capabilities) -> Result<Capabilities> {
        let workspace = self.depot().await?.workspace(name).await?;
        let declare = |mut config: WorkspaceConfig| {
            config.capabilities = capabilities.clone().keep_options_of(config.capabilities);
            self.check(&with_workspace(config.clone(), workspace.id()))?;
            Ok(config)
        };
        Ok(update_config(&workspace, declare).await?.capabilities)
    }

    /// Moves the files of the workspace `name` out of the home into the empty directory of `storage`. From then on they
    /// are there, with the same name, history and lineage, so that other programs can work on a branch before it is
    /// merged back. A directory that is not empty is `not_empty`.
    pub async fn check_out(&self, name: &str, storage: &StorageConfig) -> Result<()> {
        let workspace = self.depot().await?.workspace(name).await?;
        if workspace.kind() != filestore::KIND {
            return Err(Error::invalid(format!(
                "the files of the workspace {} are not in the home",
                quote(name)
            ))
            .hint("create a branch of it, and check out the branch"));
        }
        let config = WorkspaceConfig {
            storage: storage.clone(),
            ..self.config_of(name).await?
        };
        let (config, _) = self.resolve_config(&config).await?;
        let context = self.open_context(HistoryMode::Durable);
        let opened = self.storages().open(&config.storage, &context).await?;
        let home = self
            .home
            .as_ref()
            .expect("a depot was opened in it")
            .lazy_depot(&context);
        let durability = opened.durability;
        Journaled::move_out(&workspace, opened, home, durability, &serialize_config(&config)?).await?;
        Ok(())
    }

    /// Opens the workspace `name` of the home; `name@point` as it was at a snapshot, a change or a time, for reading.
    pub async fn open_named(&self, name: &str) -> Result<Toolbox> {
        let (name, point) = split_point(name);
        let toolbox = self.open_config(name, &self.config_of(name).await?).await?;
        match point {
            None => Ok(toolbox),
            Some(point) => self.open_at(&toolbox, point).await,
        }
    }

    /// Opens the branch `name`, by name or id, of `workspace`, with the configuration that was kept for it: that of the
    /// workspace. Only this function finds a branch of `memory:`, or of a history that ends with this program;
    /// [`Garret::open_named`] finds a branch in the home, too.
    pub async fn open_branch(&self, workspace: &Workspace, name: &str) -> Result<Toolbox> {
        let found = workspace.hand_out_branch(name).await?;
        let name = found.branch.name.as_deref().unwrap_or(&found.branch.id);
        match found.opened {
            Some(opened) => {
                let config = parse_config(&found.kind, found.config)?;
                self.assemble_toolbox(name, &config, opened, HistoryMode::Session, &FsRestriction::default())
            }
            None => self.open_config(name, &self.config_of(&found.branch.id).await?).await,
        }
    }

    /// Returns the tools of `toolbox` on the workspace as it was at `point`.
    pub async fn open_at(&self, toolbox: &Toolbox, point: &str) -> Result<Toolbox> {
        let past = toolbox.workspace().at_point(&Point::parse_or_now(Some(point))).await?;
        Ok(toolbox.on(past))
    }
}

/// Refuses a limit on a durable history for a workspace without one.
fn check_kept_history(config: &WorkspaceConfig) -> Result<()> {
    if config.keep.is_some() && config.history.is_some_and(|mode| mode != HistoryMode::Durable) {
        return Err(keep_without_history_error());
    }
    Ok(())
}

/// Splits `name@point`.
pub fn split_point(text: &str) -> (&str, Option<&str>) {
    match text.split_once('@') {
        Some((name, point)) => (name, Some(point)),
        None => (text, None),
    }
}

fn new_workspace(name: &str, config: WorkspaceConfig) -> Result<NewWorkspace> {
    // `keep` is stored apart from the configuration, because it can be changed later.
    let config = WorkspaceConfig { keep: None, ..config };
    Ok(NewWorkspace {
        name: Some(name.to_owned()),
        kind: config.storage.kind().to_owned(),
        config: serialize_config(&config)?,
    })
}

/// Returns a configuration in the form that the home keeps.
pub(crate) fn serialize_config(config: &WorkspaceConfig) -> Result<Value> {
    let internal = |error| {
        Error::new(
            ErrorKind::Internal,
            format!("the configuration cannot be stored: {error}"),
        )
    };
    serde_json::to_value(config).map_err(internal)
}

/// Changes the configuration of a workspace of the home, and returns the new one. A change that another process makes
/// at the same time is kept: `change` is applied again to its result.
pub(crate) async fn update_config(
    workspace: &DepotWorkspace,
    change: impl Fn(WorkspaceConfig) -> Result<WorkspaceConfig>,
) -> Result<WorkspaceConfig> {
    loop {
        let before = workspace.describe().await?;
        let config = change(parse_config(&before.kind, before.config.clone())?)?;
        let depot = workspace.depot();
        let stored = WorkspaceConfig {
            // Stored apart, because it can be changed by itself.
            keep: None,
            ..config.clone()
        };
        if depot
            .replace_config(workspace, &before, &serialize_config(&stored)?)
            .await?
        {
            return Ok(config);
        }
    }
}

/// Parses a configuration that the home kept; the default if it kept none.
pub(crate) fn parse_config(kind: &str, kept: Value) -> Result<WorkspaceConfig> {
    if kept.as_object().is_none_or(Map::is_empty) {
        return Ok(WorkspaceConfig::with_storage(StorageConfig::table(kind, Map::new())));
    }
    shape::from_value(kept)
}

/// Adds the name or id of the workspace to the configuration of a workspace in the depot.
fn with_workspace(config: WorkspaceConfig, workspace: &str) -> WorkspaceConfig {
    if config.storage.kind() != filestore::KIND {
        return config;
    }
    let mut options = config.storage.options().cloned().unwrap_or_default();
    options.insert("workspace".into(), workspace.into());
    options.insert("create".into(), Value::Bool(false));
    WorkspaceConfig {
        storage: StorageConfig::table(filestore::KIND, options),
        ..config
    }
}
