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
    /// The file as seen from where its user is.
    shown: String,
}

impl ConfigFile {
    /// The name of the file.
    pub(crate) fn name(&self) -> String {
        file_name(&self.path)
    }

    /// An error in what the file says of the workspace `name`, with its place.
    pub(crate) fn blame(&self, name: &str, error: Error) -> Error {
        placed(&self.shown, &format!("{}, workspaces.{name}", self.shown), error)
    }

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
    let found = match given {
        Some(path) => Some((path.to_owned(), file_name(path))),
        None => nearest().map(check_file).transpose()?,
    };
    found.map(|(path, shown)| read(&path, shown)).transpose()
}

/// The nearest `garret.toml` in the current directory or above it, and how it is seen from here: `../../garret.toml`.
fn nearest() -> Option<(PathBuf, String)> {
    let start = std::env::current_dir().ok()?;
    let mut files = start.ancestors().map(|directory| directory.join(FILE_NAME)).enumerate();
    // Whatever has the name: rules that cannot be read must not be taken for none.
    let (above, path) = files.find(|(_, file)| file.symlink_metadata().is_ok())?;
    Some((path, format!("{}{FILE_NAME}", "../".repeat(above))))
}

fn file_name(path: &Path) -> String {
    path.file_name()
        .map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}

/// An error about `file`, with the place in it.
fn placed(file: &str, place: &str, error: Error) -> Error {
    let message = format!("in {}: {}", garret::path::printable(place), error.message());
    Error::new(error.kind(), message)
        .hint(error.hint_text().to_owned())
        .at_text(file)
}

/// Reads a configuration file: JSON where its name says so, TOML otherwise. Errors call it `shown`.
fn read(path: &Path, shown: String) -> Result<ConfigFile> {
    let text = std::fs::read_to_string(path).map_err(|error| unreadable(&shown, &error))?;
    let is_json = path.extension().is_some_and(|extension| extension == "json");
    let parsed = if is_json {
        Config::from_json(&text)
    } else {
        Config::from_toml(&text)
    };
    let config = parsed.map_err(|error| placed(&shown, &shown, error))?;
    let directory = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    Ok(ConfigFile {
        config,
        directory: directory.to_owned(),
        path: path.to_owned(),
        shown,
    })
}

/// Refuses what has the name of the configuration and is no file: nobody chose to read it, and a fifo may never end.
fn check_file((path, shown): (PathBuf, String)) -> Result<(PathBuf, String)> {
    match std::fs::metadata(&path) {
        Ok(found) if found.is_file() => Ok((path, shown)),
        Ok(_) => Err(unreadable(&shown, &std::io::ErrorKind::InvalidData.into())),
        Err(error) => Err(unreadable(&shown, &error)),
    }
}

fn unreadable(name: &str, error: &std::io::Error) -> Error {
    let shown = garret::path::quote(name);
    match error.kind() {
        std::io::ErrorKind::InvalidData => Error::invalid(format!("the configuration file {shown} is not a text file"))
            .hint("write it as TOML in UTF-8"),
        std::io::ErrorKind::NotFound => {
            Error::new(ErrorKind::NotFound, format!("there is no configuration file {shown}"))
                .hint("check the path given with --config, or the link of that name")
        }
        _ => Error::new(
            ErrorKind::Denied,
            format!("the configuration file {shown} cannot be read"),
        )
        .hint("check that it is a text file and that you may read it"),
    }
}
