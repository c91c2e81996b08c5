//! `garret config`

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use garret::path::{escape_unprintable, quote};
use garret::{Error, ErrorKind, Result, WideningSetting};
use serde_json::json;

use crate::config_file::{self, ConfigFile};
use crate::output::{CliOutcome, CliReport};
use crate::session::Session;

#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    action: ConfigAction,
}

#[derive(Debug, Subcommand)]
enum ConfigAction {
    /// Check a configuration file: its syntax, every key and value, the options of each storage, and that the directory of a
    /// `local` storage exists; no server is contacted
    Check {
        /// The file: TOML, or JSON by its name [default: --config, or the nearest garret.toml]
        file: Option<PathBuf>,
    },
    /// Print the JSON schema of a configuration file, with which editors complete and check it
    Schema,
}

impl ConfigArgs {
    pub(crate) async fn run(&self, session: &Session) -> CliOutcome {
        match &self.action {
            ConfigAction::Check { file } => check_file(file.as_deref(), session).await,
            ConfigAction::Schema => Ok(schema_report()),
        }
    }
}

fn schema_report() -> CliReport {
    let schema = garret::config_schema();
    CliReport::success(format!("{schema:#}"), schema)
}

async fn check_file(file: Option<&Path>, session: &Session) -> CliOutcome {
    let given = file.or(session.global().config.as_deref());
    let file = config_file::load_given_or_found(given)?.ok_or_else(no_file_error)?;
    let garret = session.garret().clone().relative_to(&file.directory);
    for (name, config) in &file.config.workspaces {
        let checked = garret.check_with_storage(config).await;
        checked.map_err(|error| file.locate_error(name, error))?;
    }
    let need = TrustNeed::of_file(&file, session)?;
    Ok(config_report(&file, &need))
}

/// The reason why a found file needs the trust of its user, if it does.
#[derive(Debug, PartialEq, Eq)]
enum TrustNeed {
    /// The file was given, is trusted, or only narrows.
    None,
    /// The file has settings that only a trusted file may have.
    Widens(Vec<WideningSetting>),
    /// The file changed since its user trusted it.
    Changed,
}

impl TrustNeed {
    fn of_file(file: &ConfigFile, session: &Session) -> Result<Self> {
        if !file.is_found {
            return Ok(Self::None);
        }
        let record = match session.trust_store() {
            Some(store) => store.record_of(&file.path)?,
            None => None,
        };
        let settings = file.config.widening_settings(&file.directory);
        Ok(match record {
            Some(record) if record.matches_file(file) => Self::None,
            Some(_) => Self::Changed,
            None if settings.is_empty() => Self::None,
            None => Self::Widens(settings),
        })
    }

    /// Returns the keys that need trust.
    fn keys(&self) -> Vec<&str> {
        match self {
            Self::Widens(settings) => settings.iter().map(|setting| setting.key.as_str()).collect(),
            Self::None | Self::Changed => Vec::new(),
        }
    }

    /// Returns a line for a person; empty if the file needs no trust.
    fn trust_note(&self, name: &str) -> String {
        match self {
            Self::None => String::new(),
            Self::Changed => {
                format!(
                    "\nnote: {name} changed since it was trusted; `garret trust` shows the difference and asks again"
                )
            }
            Self::Widens(_) => {
                let keys: Vec<_> = self.keys().into_iter().map(quote).collect();
                format!(
                    "\nnote: {name} is not trusted; these settings are refused until you run `garret trust`: {}",
                    keys.join(", ")
                )
            }
        }
    }
}

fn config_report(file: &ConfigFile, need: &TrustNeed) -> CliReport {
    let name = file.name();
    let names: Vec<&String> = file.config.workspaces.keys().collect();
    let text = match names.len() {
        0 => format!("{name} is valid (no workspaces)"),
        _ => format!(
            "{name} is valid (workspaces: {})",
            names
                .iter()
                .map(|name| escape_unprintable(name))
                .collect::<Vec<_>>()
                .join(", ")
        ),
    };
    let text = text + &need.trust_note(&name);
    let needs_trust = *need != TrustNeed::None;
    let data = json!({"file": name, "workspaces": names, "needs_trust": needs_trust, "untrusted_keys": need.keys()});
    CliReport::success(text, data)
}

fn no_file_error() -> Error {
    Error::new(
        ErrorKind::NotFound,
        "there is no garret.toml in this directory or above it",
    )
    .hint("name the file: `garret config check FILE`")
}
