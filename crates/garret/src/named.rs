//! Workspaces by name: made once, kept in the home, opened from anywhere.

use garret_core::{Error, ErrorKind, Point, Result, StorageConfig, WorkspaceConfig, shape};
use garret_depot::{NewWorkspace, WorkspaceInfo};
use garret_tools::Toolbox;
use serde_json::{Map, Value};

use crate::Garret;
use crate::filestore;

impl Garret {
    /// Makes a workspace called `name` in the home, as configured, and gives what the home knows of it. The storage `filestore` needs no
    /// options then. A name that is taken is `already_exists`.
    pub async fn create(&self, name: &str, config: &WorkspaceConfig) -> Result<WorkspaceInfo> {
        let config = self.settled(name, config).await?;
        let StorageConfig::Table { kind, .. } = &config.storage else {
            return Err(Error::invalid(
                "a named workspace needs a storage that can be opened again",
            ));
        };
        let new = NewWorkspace {
            name: Some(name.to_owned()),
            kind: kind.clone(),
            config: serde_json::to_value(&config)
                .map_err(|error| Error::new(ErrorKind::Internal, format!("a configuration cannot be kept: {error}")))?,
        };
        self.depot().await?.create(new).await?.describe().await
    }

    /// The configuration with its storage as it can be opened from anywhere; checked by opening it.
    async fn settled(&self, name: &str, config: &WorkspaceConfig) -> Result<WorkspaceConfig> {
        let kind = config.storage.kind();
        if kind == filestore::KIND {
            let storage = StorageConfig::Table {
                kind: kind.to_owned(),
                options: config.storage.options().cloned().unwrap_or_default(),
            };
            let settled = WorkspaceConfig {
                storage,
                ..config.clone()
            };
            self.check(&with_workspace(settled.clone(), name))?;
            return Ok(settled);
        }
        let reference = self.open_config(name, config).await?.workspace().reference()?;
        let storage = StorageConfig::Table {
            kind: reference.kind,
            options: reference.payload,
        };
        Ok(WorkspaceConfig {
            storage,
            ..config.clone()
        })
    }

    /// The configuration of the workspace `name` of the home, by which [`Garret::open_config`] opens it.
    pub async fn config_of(&self, name: &str) -> Result<WorkspaceConfig> {
        let workspace = self.depot().await?.workspace(name).await?;
        let info = workspace.describe().await?;
        let is_bare = info.config.as_object().is_none_or(Map::is_empty);
        let config = match is_bare {
            true => WorkspaceConfig::on(StorageConfig::Table {
                kind: info.kind.clone(),
                options: Map::new(),
            }),
            false => shape::from_value(info.config)?,
        };
        match info.kind == filestore::KIND {
            true => Ok(with_workspace(config, &info.id)),
            false => Ok(config),
        }
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

    /// The same tools on the workspace as it was at `point`.
    pub async fn open_at(&self, toolbox: &Toolbox, point: &str) -> Result<Toolbox> {
        let past = toolbox.workspace().at(&Point::Named(point.to_owned())).await?;
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

/// The configuration of a workspace in the depot, told which one it is.
fn with_workspace(mut config: WorkspaceConfig, workspace: &str) -> WorkspaceConfig {
    if let StorageConfig::Table { options, .. } = &mut config.storage {
        options.insert("workspace".into(), workspace.into());
        options.insert("create".into(), Value::Bool(false));
    }
    config
}
