//! Workspaces by name: made once, kept in the home, opened from anywhere.

use garret_core::path::quote;
use garret_core::{
    Capabilities, Error, ErrorKind, FsRestriction, HistoryMode, ListOptions, Point, Result, StorageConfig,
    WorkspaceConfig, WsPath, shape,
};
use garret_depot::{DepotWorkspace, Journaled, NewWorkspace, WorkspaceInfo};
use garret_tools::Toolbox;
use garret_workspace::Workspace;
use serde_json::{Map, Value};

use crate::Garret;
use crate::filestore;
use crate::journal::nothing_to_keep;

impl Garret {
    /// Makes a workspace called `name` in the home, as configured, and gives what the home knows of it. The storage `filestore` needs no
    /// options then. A name that is taken is `already_exists`.
    pub async fn create(&self, name: &str, config: &WorkspaceConfig) -> Result<WorkspaceInfo> {
        self.check(&with_workspace(config.clone(), name))?;
        if config.keep.is_some() && config.history.is_some_and(|mode| mode != HistoryMode::Durable) {
            return Err(nothing_to_keep());
        }
        let depot = self.depot().await?;
        let made = match config.storage.kind() {
            filestore::KIND => depot.create(new_workspace(name, in_depot(config))?).await?,
            kind => {
                let (config, place) = self.settled(config).await?;
                depot.claim(kind, &place, new_workspace(name, config)?).await?
            }
        };
        if let Some(keep) = &config.keep {
            made.set_keep(keep).await?;
        }
        made.describe().await
    }

    /// The configuration with its storage as it can be opened from anywhere, and its place; checked by opening it.
    async fn settled(&self, config: &WorkspaceConfig) -> Result<(WorkspaceConfig, String)> {
        let opened = self
            .storages()
            .open(&config.storage, &self.context(HistoryMode::Off))
            .await?;
        // A storage may be opened without a look at its server: what is wrong with that is to be known before it has a name.
        let first = ListOptions {
            limit: 1,
            ..ListOptions::default()
        };
        opened.storage.list(&WsPath::root(), first).await?;
        let kind = config.storage.kind();
        let (Some(options), Some(place)) = (opened.reference, opened.place) else {
            return Err(Error::invalid(format!(
                "the files of the storage {} are lost when this program ends, so it cannot have a name",
                quote(kind)
            ))
            .hint("use `filestore`, or `local:` with a directory"));
        };
        let storage = StorageConfig::Table {
            kind: kind.to_owned(),
            options,
        };
        let settled = WorkspaceConfig {
            storage,
            ..config.clone()
        };
        Ok((settled, place))
    }

    /// Brings back the deleted workspace `name` of the home. Where its files live in a directory that is another workspace by now, that
    /// is `already_exists`, and nothing is touched.
    pub async fn recover(&self, name: &str) -> Result<()> {
        let depot = self.depot().await?;
        let all = depot.workspaces().await?;
        let is_meant = |info: &&WorkspaceInfo| info.name.as_deref() == Some(name) || info.id == name;
        let info = all.iter().find(is_meant).filter(|info| info.kind != filestore::KIND);
        let Some(info) = info else {
            return depot.recover(name).await;
        };
        let config = read_back(&info.kind, info.config.clone())?;
        // A directory without a name has no configuration that would tell where it is.
        let is_bare = config.storage.options().is_some_and(Map::is_empty);
        match self.settled(&config).await {
            Ok((_, place)) if !is_bare => depot.recover_at(&info.id, &info.kind, &place).await,
            // The directory may come back later, too.
            _ => depot.recover(&info.id).await,
        }
    }

    /// The configuration of the workspace `name` of the home, by which [`Garret::open_config`] opens it.
    pub async fn config_of(&self, name: &str) -> Result<WorkspaceConfig> {
        let workspace = self.depot().await?.workspace(name).await?;
        let info = workspace.describe().await?;
        Ok(with_workspace(read_back(&info.kind, info.config)?, &info.id))
    }

    /// Says what may be done in the workspace `name` of the home from the next opening on, and gives it as it is kept. A capability that
    /// it declares already keeps its options.
    pub async fn set_capabilities(&self, name: &str, capabilities: &Capabilities) -> Result<Capabilities> {
        let workspace = self.depot().await?.workspace(name).await?;
        let declare = |mut config: WorkspaceConfig| {
            config.capabilities = capabilities.clone().keeping(config.capabilities);
            self.check(&with_workspace(config.clone(), workspace.id()))?;
            Ok(config)
        };
        Ok(reconfigure(&workspace, declare).await?.capabilities)
    }

    /// Moves the files of the workspace `name` out of the home into the empty directory that `storage` is. From then on they live there,
    /// with the same name, history and lineage, so that a branch can be worked on with other programs and merged back. A directory that
    /// is not empty is `not_empty`.
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
        let (config, _) = self.settled(&config).await?;
        let context = self.context(HistoryMode::Durable);
        let opened = self.storages().open(&config.storage, &context).await?;
        let home = self.home.as_ref().expect("a depot was opened in it").lazy(&context);
        let durability = opened.durability;
        Journaled::move_out(&workspace, opened, home, durability, &kept(&config)?).await?;
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

    /// Opens the branch `name`, by name or id, of `workspace`, with what was kept for it: it allows what the workspace allows. A branch
    /// of `memory:`, or of a history that ends with this program, is found in this way alone; one in the home by
    /// [`Garret::open_named`], too.
    pub async fn open_branch(&self, workspace: &Workspace, name: &str) -> Result<Toolbox> {
        let found = workspace.hand_out_branch(name).await?;
        let name = found.branch.name.as_deref().unwrap_or(&found.branch.id);
        match found.opened {
            Some(opened) => {
                let config = read_back(&found.kind, found.config)?;
                self.assembled(name, &config, opened, HistoryMode::Session, &FsRestriction::default())
            }
            None => self.open_config(name, &self.config_of(&found.branch.id).await?).await,
        }
    }

    /// The same tools on the workspace as it was at `point`.
    pub async fn open_at(&self, toolbox: &Toolbox, point: &str) -> Result<Toolbox> {
        let past = toolbox.workspace().at(&Point::or_now(Some(point))).await?;
        Ok(toolbox.on(past))
    }
}

/// Splits `name@point`.
pub fn split_point(text: &str) -> (&str, Option<&str>) {
    match text.split_once('@') {
        Some((name, point)) => (name, Some(point)),
        None => (text, None),
    }
}

/// The configuration of a workspace in the depot, as it is kept there.
fn in_depot(config: &WorkspaceConfig) -> WorkspaceConfig {
    let storage = StorageConfig::Table {
        kind: filestore::KIND.to_owned(),
        options: config.storage.options().cloned().unwrap_or_default(),
    };
    WorkspaceConfig {
        storage,
        ..config.clone()
    }
}

fn new_workspace(name: &str, config: WorkspaceConfig) -> Result<NewWorkspace> {
    // What is to be kept of its history stands elsewhere in the home, where it can be changed.
    let config = WorkspaceConfig { keep: None, ..config };
    Ok(NewWorkspace {
        name: Some(name.to_owned()),
        kind: config.storage.kind().to_owned(),
        config: kept(&config)?,
    })
}

/// A configuration as the home keeps it.
pub(crate) fn kept(config: &WorkspaceConfig) -> Result<Value> {
    let internal = |error| {
        Error::new(
            ErrorKind::Internal,
            format!("the configuration cannot be stored: {error}"),
        )
    };
    serde_json::to_value(config).map_err(internal)
}

/// Changes the configuration of a workspace of the home and gives it; what others make of it meanwhile is changed, never overwritten.
pub(crate) async fn reconfigure(
    workspace: &DepotWorkspace,
    change: impl Fn(WorkspaceConfig) -> Result<WorkspaceConfig>,
) -> Result<WorkspaceConfig> {
    loop {
        let before = workspace.describe().await?;
        let config = change(read_back(&before.kind, before.config.clone())?)?;
        let depot = workspace.depot();
        if depot.replace_config(workspace, &before, &kept(&config)?).await? {
            return Ok(config);
        }
    }
}

/// A configuration that was kept; the default where none was.
pub(crate) fn read_back(kind: &str, kept: Value) -> Result<WorkspaceConfig> {
    match kept.as_object().is_none_or(Map::is_empty) {
        true => Ok(WorkspaceConfig::on(StorageConfig::Table {
            kind: kind.to_owned(),
            options: Map::new(),
        })),
        false => shape::from_value(kept),
    }
}

/// The configuration of a workspace in the depot, told which one it is.
fn with_workspace(config: WorkspaceConfig, workspace: &str) -> WorkspaceConfig {
    if config.storage.kind() != filestore::KIND {
        return config;
    }
    let mut config = in_depot(&config);
    if let StorageConfig::Table { options, .. } = &mut config.storage {
        options.insert("workspace".into(), workspace.into());
        options.insert("create".into(), Value::Bool(false));
    }
    config
}
