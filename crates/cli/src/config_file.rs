//! Finding and reading `garret.toml`.

#![allow(
    clippy::disallowed_methods,
    reason = "the command line reads its configuration file and the current directory"
)]

use std::path::{Path, PathBuf};

use garret::{Config, Error, ErrorKind, Result};

const FILE_NAME: &str = "garret.toml";

/// A configuration and the directory that its relative paths start from.
#[derive(Debug)]
pub(crate) struct ConfigFile {
    pub(crate) config: Config,
    pub(crate) directory: PathBuf,
    path: PathBuf,
}

impl ConfigFile {
    /// The glob that matches this file within the workspace on `directory`; `None` where it lies elsewhere.
    pub(crate) fn glob_within(&self, directory: &Path) -> Option<String> {
        let (file, directory) = (self.path.canonicalize().ok()?, directory.canonicalize().ok()?);
        let below = file.strip_prefix(directory).ok()?.to_str()?;
        Some(glob_of(below))
    }
}

/// The glob that matches exactly `path`.
pub(crate) fn glob_of(path: &str) -> String {
    let special = |c: char| "*?[]{}\\!".contains(c);
    path.chars()
        .flat_map(|c| special(c).then_some('\\').into_iter().chain([c]))
        .collect()
}

/// The configuration: the file given, or the nearest `garret.toml` in the current directory or above it, where there is one.
pub(crate) fn load(given: Option<&Path>) -> Result<Option<ConfigFile>> {
    match given.map(Path::to_owned).or_else(nearest) {
        Some(path) => read(&path).map(Some),
        None => Ok(None),
    }
}

/// The nearest `garret.toml` in the current directory or above it.
pub(crate) fn nearest() -> Option<PathBuf> {
    let start = std::env::current_dir().ok()?;
    start
        .ancestors()
        .map(|directory| directory.join(FILE_NAME))
        .find(|file| file.is_file())
}

/// Reads a configuration file: JSON where its name says so, TOML otherwise.
pub(crate) fn read(path: &Path) -> Result<ConfigFile> {
    let name = path
        .file_name()
        .map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let text = std::fs::read_to_string(path).map_err(|error| unreadable(&name, &error))?;
    let is_json = path.extension().is_some_and(|extension| extension == "json");
    let parsed = if is_json {
        Config::from_json(&text)
    } else {
        Config::from_toml(&text)
    };
    let config = parsed.map_err(|error| error.at_text(name))?;
    let directory = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    Ok(ConfigFile {
        config,
        directory: directory.to_owned(),
        path: path.to_owned(),
    })
}

fn unreadable(name: &str, error: &std::io::Error) -> Error {
    let shown = garret::path::quote(name);
    match error.kind() {
        std::io::ErrorKind::NotFound => {
            Error::new(ErrorKind::NotFound, format!("there is no configuration file {shown}"))
                .hint("check the path given with --config")
        }
        _ => Error::new(
            ErrorKind::Denied,
            format!("the configuration file {shown} cannot be read"),
        )
        .hint("check that it is a text file and that you may read it"),
    }
}
