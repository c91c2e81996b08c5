//! `garret config`

use std::path::PathBuf;

use clap::{Args, Subcommand};
use garret::path::printable;
use garret::{Error, ErrorKind};
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
    /// Check a configuration file: its syntax, every key and value, the options of each storage, and that the directory of a
    /// `local` one is there; no server is asked
    Check {
        /// The file: TOML, or JSON by its name [default: --config, or the nearest garret.toml]
        file: Option<PathBuf>,
    },
}

impl Config {
    pub(crate) async fn run(&self, session: &Session) -> Outcome {
        let Action::Check { file } = &self.action;
        let given = file.as_deref().or(session.global().config.as_deref());
        let file = config_file::load(given)?.ok_or_else(none_found)?;
        let garret = session.garret().clone().relative_to(&file.directory);
        for (name, config) in &file.config.workspaces {
            let checked = garret.check_with_storage(config).await;
            checked.map_err(|error| file.blame(name, error))?;
        }
        Ok(report(&file))
    }
}

fn report(file: &ConfigFile) -> Report {
    let name = file.name();
    let names: Vec<&String> = file.config.workspaces.keys().collect();
    let text = match names.len() {
        0 => format!("{name} is valid (no workspaces)"),
        _ => format!(
            "{name} is valid (workspaces: {})",
            names.iter().map(|name| printable(name)).collect::<Vec<_>>().join(", ")
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
