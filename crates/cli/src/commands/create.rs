//! `garret create`

use clap::{Args, ValueEnum};
use garret::{
    Capabilities, Error, HistoryMode, LocalFactory, Result, S3Factory, StorageConfig, StorageFactory, WorkspaceConfig,
};
use serde_json::{Map, Value};

use crate::commands::{configure, list};
use crate::output::{CliFailure, CliOutcome, CliReport};
use crate::session::Session;

pub(crate) const EXAMPLES: &str = "\
Examples:
  garret create notes
  garret create site --storage local:path/to/site --capability fs
  garret create cloud --storage \\
    's3://bucket/team?endpoint=http://127.0.0.1:9000&force_path_style=true'
  garret create scratch --durability relaxed
  garret create box --capability fs,shell,code --exclude target/,node_modules/
  garret create box --capability fs,shell --set shell.limits.timeout_s=600
Then: garret -w notes write a.txt hello";

#[derive(Debug, Args)]
pub(crate) struct CreateArgs {
    /// The name: up to 100 letters, digits, `-`, `_` and `.`; may be given with -w instead
    name: Option<String>,
    /// Where its files are stored: `filestore` (in the home), `local:DIR` (a directory that exists) or `s3://BUCKET/PREFIX?endpoint=URL`
    #[arg(long, default_value = "filestore", value_name = "STORAGE")]
    storage: String,
    /// Its capabilities: `fs` (files and their history), `snapshot` (snapshots, branches, merges), `shell` (commands),
    /// `code` (Python, JavaScript and Bash, each piece by itself; contexts that keep their state need `--set code.is_stateful=true`)
    /// [default: fs,snapshot]
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    capability: Vec<String>,
    /// Paths that history leaves out and only commands write, as in a .gitignore: `target/,node_modules/`
    #[arg(long, value_delimiter = ',', value_name = "PATTERNS")]
    exclude: Vec<String>,
    /// Set an option, as `garret configure` does; may be given several times: `--set shell.network=full`
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// What a completed write survives [default: full]
    #[arg(long, value_enum)]
    durability: Option<DurabilityChoice>,
    /// How long its history is kept [default: durable]
    #[arg(long, value_enum)]
    history: Option<HistoryChoice>,
}

/// The failures that a completed write survives.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum DurabilityChoice {
    /// The end of the program and a power failure
    Full,
    /// The end of the program; a power failure may lose the newest changes
    Relaxed,
}

/// How long history is kept.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum HistoryChoice {
    /// From one run to the next
    Durable,
    /// As long as a program has the workspace open
    Session,
    /// Not at all
    Off,
}

impl CreateArgs {
    pub(crate) async fn run(&self, session: &Session) -> CliOutcome {
        let name = session.workspace_name(self.name.as_deref())?;
        let config = self.workspace_config().map_err(CliFailure::wrong_usage)?;
        let garret = session.garret_with_home()?;
        session.check_unconfigured(&name)?;
        let made = garret.create(&name, &config).await?;
        let text = format!("created workspace {} on {}", list::shown_name(&made), made.storage);
        Ok(CliReport::success(text, made))
    }

    fn workspace_config(&self) -> Result<WorkspaceConfig> {
        let capabilities = if self.capability.is_empty() {
            Capabilities::default()
        } else {
            Capabilities::from_names(self.capability.iter().map(String::as_str))?
        };
        let config = WorkspaceConfig {
            capabilities,
            history: self.history.map(Into::into),
            exclude: self.exclude.clone(),
            ..WorkspaceConfig::with_storage(self.storage_config()?)
        };
        config.edit_options(&configure::parse_edits(&self.set, &[])?)
    }

    fn storage_config(&self) -> Result<StorageConfig> {
        let mut storage = parse_storage_config(&self.storage)?;
        if let (Some(durability), StorageConfig::Table { options, .. }) = (self.durability, &mut storage) {
            options.insert("durability".into(), durability.word());
        }
        Ok(storage)
    }
}

/// Reads the storage of a named workspace: `filestore`, `local:DIR` or `s3://BUCKET/PREFIX`.
pub(crate) fn parse_storage_config(text: &str) -> Result<StorageConfig> {
    let (kind, options) = match text.split_once(':') {
        Some(("local", rest)) => ("local", LocalFactory.parse_url(rest)?),
        Some(("s3", rest)) => ("s3", S3Factory.parse_url(rest)?),
        None if text == "filestore" => ("filestore", Map::new()),
        _ => return Err(unknown_storage_error(text)),
    };
    Ok(StorageConfig::Table {
        kind: kind.to_owned(),
        options,
    })
}

impl DurabilityChoice {
    fn word(self) -> Value {
        match self {
            Self::Full => "full".into(),
            Self::Relaxed => "relaxed".into(),
        }
    }
}

impl From<HistoryChoice> for HistoryMode {
    fn from(choice: HistoryChoice) -> Self {
        match choice {
            HistoryChoice::Durable => Self::Durable,
            HistoryChoice::Session => Self::Session,
            HistoryChoice::Off => Self::Off,
        }
    }
}

fn unknown_storage_error(text: &str) -> Error {
    Error::invalid(format!(
        "a named workspace cannot live on {}",
        garret::path::quote(text)
    ))
    .hint("use `filestore`, `local:DIR` for a directory, or `s3://BUCKET/PREFIX`")
}
