//! `garret trust`

use std::path::{Path, PathBuf};

use clap::Args;
use garret::path::escape_unprintable;
use garret::{Error, ErrorKind, WideningSetting};
use serde_json::{Value, json};

use crate::config_file::{self, ConfigFile};
use crate::output::{CliFailure, CliOutcome, CliReport};
use crate::session::Session;
use crate::trust::{TrustRecord, TrustStore};
use crate::{approval, home};

pub(crate) const DETAILS: &str = "\
A garret.toml that Garret finds by itself (not given with --config) can only restrict, until you
trust it: before that, it cannot set another sandbox, network, variables, references to secrets,
servers, storages outside its directory or higher limits. You trust the file at its path with its
current content. After the file changes, it is refused until you trust it again; `garret trust`
shows the difference.
Examples:
  garret trust                         show what the nearest garret.toml sets, and ask
  garret trust --yes site/garret.toml  for scripts
  garret trust --list
  garret trust --remove garret.toml";

#[derive(Debug, Args)]
pub(crate) struct TrustArgs {
    /// The garret.toml [default: the nearest one, in the current directory or above it]
    file: Option<PathBuf>,
    /// Trust it without asking
    #[arg(long, conflicts_with_all = ["list", "remove"])]
    yes: bool,
    /// List the files that are trusted
    #[arg(long, conflicts_with_all = ["file", "remove"])]
    list: bool,
    /// Stop trusting the file
    #[arg(long, requires = "file")]
    remove: bool,
}

impl TrustArgs {
    pub(crate) async fn run(&self, session: &Session) -> CliOutcome {
        let Some(store) = session.trust_store() else {
            return Err(CliFailure::wrong_usage(home::missing_for_trust()));
        };
        match &self.file {
            _ if self.list => list_trusted(&store),
            Some(file) if self.remove => remove_trust(&store, file),
            _ => self.trust_file(session, &store).await,
        }
    }

    async fn trust_file(&self, session: &Session, store: &TrustStore) -> CliOutcome {
        let given = self.file.as_deref().or(session.global().config.as_deref());
        let file = match given {
            Some(path) => Some(config_file::load_as_found(path)),
            None => config_file::load_found().transpose(),
        };
        let file = file
            .unwrap_or_else(|| Err(no_file_error()))
            .map_err(CliFailure::wrong_usage)?;
        // Made before the question, so that the record has the content that the person reviews.
        let (record, before) = (TrustRecord::of_file(&file)?, store.record_of(&file.path)?);
        let review = TrustReview::new(&file, before.as_ref());
        let was_trusted = before.is_some();
        if before.is_some_and(|before| before.matches_file(&file)) {
            return Ok(CliReport::success(
                format!("{} is trusted already", escape_unprintable(&record.path)),
                review.data,
            ));
        }
        let is_meant = self.yes || {
            let question = format!(
                "{}trust {}? [y]es, [N]o: ",
                review.text,
                escape_unprintable(&record.path)
            );
            let Some(answer) = approval::confirm(&question) else {
                return Ok(CliReport::refusal(review.text, review.data, no_terminal_error()));
            };
            answer
        };
        if !is_meant {
            return Ok(CliReport::refusal("", review.data, not_trusted_error(was_trusted)));
        }
        // Opening the depot makes a missing home with its own modes, before the store of trust makes its folder there.
        session.open_depot().await?;
        store.save_record(&record)?;
        let shown = if self.yes { review.text } else { String::new() };
        let text = format!("{shown}trusted {}", escape_unprintable(&record.path));
        Ok(CliReport::success(text, review.data))
    }
}

/// The text and the data that a person reviews before trusting a file.
struct TrustReview {
    text: String,
    data: Value,
}

impl TrustReview {
    fn new(file: &ConfigFile, before: Option<&TrustRecord>) -> Self {
        let mut settings = file.config.widening_settings(&file.directory);
        settings.extend(directories_outside(file, &settings));
        let difference = before.map(|before| diff_text(&before.content, &file.text));
        let mut text = settings_text(&settings);
        if let Some(difference) = &difference {
            text += "It changed since it was trusted:\n";
            difference
                .lines()
                .for_each(|line| text += &format!("  {}\n", escape_unprintable(line)));
        }
        let data = json!({"file": file.path, "widening": settings, "difference": difference});
        Self { text, data }
    }
}

/// Returns the storages whose directory lies outside that of the file by way of a link. Those that lie outside by their
/// text are in `settings` already.
fn directories_outside(file: &ConfigFile, settings: &[WideningSetting]) -> Vec<WideningSetting> {
    let workspaces = file.config.workspaces.iter();
    let outside = workspaces.filter(|(_, config)| config_file::is_outside(config, &file.directory));
    let settings_of = outside.map(|(name, config)| WideningSetting {
        key: format!("workspaces.{name}.storage"),
        value: json!(config.storage).to_string(),
        reason: "a link leads to a directory outside that of the file",
    });
    settings_of
        .filter(|one| settings.iter().all(|other| other.key != one.key))
        .collect()
}

/// Formats one line for each setting. No character of the file reaches the terminal unescaped.
fn settings_text(settings: &[WideningSetting]) -> String {
    if settings.is_empty() {
        return format!(
            "`{}` sets nothing beyond the defaults; it works without trust.\n",
            config_file::FILE_NAME
        );
    }
    let line = |setting: &WideningSetting| {
        let (key, value) = (escape_unprintable(&setting.key), escape_unprintable(&setting.value));
        format!("  {key} = {value}  ({})\n", setting.reason)
    };
    let lines: String = settings.iter().map(line).collect();
    format!("It sets beyond the defaults:\n{lines}")
}

fn diff_text(before: &str, after: &str) -> String {
    let unified = garret::text::diff::unified_diff(config_file::FILE_NAME, before.as_bytes(), after.as_bytes());
    unified.unwrap_or_else(|| "the change is too large to show line by line".to_owned())
}

fn list_trusted(store: &TrustStore) -> CliOutcome {
    let records = store.records()?;
    let row = |record: &TrustRecord| {
        let state = state_of(record);
        let line = format!(
            "{}{}",
            escape_unprintable(&record.path),
            if state == "same" { "" } else { state_note(state) }
        );
        (line, json!({"file": record.path, "hash": record.hash, "state": state}))
    };
    let (lines, rows): (Vec<_>, Vec<_>) = records.iter().map(row).unzip();
    Ok(CliReport::success(lines.join("\n"), json!({"files": rows})))
}

/// Returns the state of a trusted file: `same`, `gone` or `changed`.
fn state_of(record: &TrustRecord) -> &'static str {
    match config_file::load_as_found(Path::new(&record.path)) {
        Ok(file) if record.matches_file(&file) => "same",
        Err(error) if error.kind() == ErrorKind::NotFound => "gone",
        // A file that cannot be read is not the one that was trusted.
        _ => "changed",
    }
}

fn state_note(state: &str) -> &'static str {
    match state {
        "gone" => "  (gone)",
        _ => "  (changed since)",
    }
}

fn remove_trust(store: &TrustStore, file: &Path) -> CliOutcome {
    // The file may be gone, and its directory with it; then its path cannot be resolved.
    let path = config_file::real_path(file).unwrap_or_else(|_| file.to_owned());
    let shown = path.display().to_string();
    if store.remove_record(&path)? {
        Ok(CliReport::success(
            format!("{} is no longer trusted", escape_unprintable(&shown)),
            json!({"file": shown}),
        ))
    } else {
        Err(Error::new(
            ErrorKind::NotFound,
            format!("{} is not trusted", garret::path::quote(&shown)),
        )
        .hint("`garret trust --list` shows the trusted files")
        .into())
    }
}

fn no_file_error() -> Error {
    Error::new(
        ErrorKind::NotFound,
        "there is no garret.toml in this directory or above it",
    )
    .hint("name the file: `garret trust FILE`")
}

fn no_terminal_error() -> Error {
    Error::new(ErrorKind::Denied, "there is no terminal to ask on").hint("read the file, then use `garret trust --yes`")
}

fn not_trusted_error(was_trusted: bool) -> Error {
    Error::new(ErrorKind::Denied, "the file is not trusted").hint(if was_trusted {
        "until you trust it again, its workspaces cannot be opened"
    } else {
        "nothing was recorded; the file can still only restrict"
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_character_of_a_file_reaches_the_terminal_unescaped() -> garret::Result<()> {
        let config = garret::Config::from_toml("[workspaces.\"a\\u001b[2J\"]\nstorage = \"filestore:\\u001b[2J\"\n")?;
        let text = settings_text(&config.widening_settings(Path::new("/x")));
        assert!(!text.contains('\u{1b}') && text.contains("\\u"), "{text}");
        Ok(())
    }

    #[test]
    fn a_file_that_only_narrows_says_so() {
        assert_eq!(
            settings_text(&[]),
            "`garret.toml` sets nothing beyond the defaults; it works without trust.\n"
        );
    }
}
