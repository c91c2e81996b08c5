//! `garret config`

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use garret::{Error, ErrorKind, Result, WorkspaceConfig};
use serde_json::json;

use crate::config_file::{self, ConfigFile};
use crate::output::{Outcome, Report};
use crate::session::Session;

#[derive(Debug, Args)]
pub(crate) struct Config {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Check a configuration file: its syntax, every key and value, and the storages it names
    Check {
        /// The file: TOML, or JSON by its name [default: --config, or the nearest garret.toml]
        file: Option<PathBuf>,
    },
}

impl Config {
    pub(crate) fn run(&self, session: &Session) -> Outcome {
        let Action::Check { file } = &self.action;
        let given = file.clone().or_else(|| session.global().config.clone());
        let path = given.or_else(config_file::nearest).ok_or_else(none_found)?;
        let file = config_file::read(&path)?;
        for (name, config) in &file.config.workspaces {
            check(session, name, config)?;
        }
        Ok(report(&path, &file))
    }
}

/// Checks one workspace; the error says which.
fn check(session: &Session, name: &str, config: &WorkspaceConfig) -> Result<()> {
    let place = |error: Error| {
        let message = format!("in workspaces.{name}: {}", error.message());
        Error::new(error.kind(), message).hint(error.hint_text().to_owned())
    };
    session.garret().check(config).map_err(place)
}

fn report(path: &Path, file: &ConfigFile) -> Report {
    let name = path
        .file_name()
        .map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let names: Vec<&String> = file.config.workspaces.keys().collect();
    let text = match names.len() {
        0 => format!("{name} is right, and names no workspace"),
        _ => format!(
            "{name} is right: {}",
            names.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(", ")
        ),
    };
    Report::done(text, json!({"file": name, "workspaces": names}))
}

fn none_found() -> Error {
    Error::new(
        ErrorKind::NotFound,
        "there is no garret.toml in this directory or above it",
    )
    .hint("name the file: `garret config check FILE`")
}
