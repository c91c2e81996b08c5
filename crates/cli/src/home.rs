//! The directory of the home: the option, the environment and the defaults that name it, in the order in which they
//! count.

#![allow(
    clippy::disallowed_methods,
    reason = "the command line reads the environment and looks whether the home was made"
)]

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use garret::Error;

use crate::config_file;

/// The home of this run: the directory of named workspaces, their history and their content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HomeChoice {
    /// The directory.
    pub(crate) directory: PathBuf,
    /// The directory as its user wrote or would write it.
    pub(crate) written: String,
}

impl HomeChoice {
    /// Returns the home that the option names, else the environment; `None` if no directory for it is known.
    pub(crate) fn find_home(option: Option<&Path>) -> Option<Self> {
        find_home_with(option, |name| std::env::var_os(name))
    }

    /// Returns the glob that matches the home within the workspace on `directory`; `None` if the home lies elsewhere.
    pub(crate) fn glob_within(&self, directory: &Path) -> Option<String> {
        config_file::glob_within(&resolve_existing(&self.directory)?, &directory.canonicalize().ok()?)
    }

    /// Whether the home exists. A command that only looks for a name does not make it.
    pub(crate) fn is_made(&self) -> bool {
        self.directory.is_dir()
    }
}

/// Finds the home: `--home`, else `GARRET_HOME`, else `garret` in the data folder of the XDG convention.
fn find_home_with(option: Option<&Path>, variable: impl Fn(&str) -> Option<OsString>) -> Option<HomeChoice> {
    let set = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let as_written = |directory: PathBuf| HomeChoice {
        written: directory.display().to_string(),
        directory,
    };
    let below = |base: PathBuf, rest: &str, written: &str| HomeChoice {
        directory: base.join(rest),
        written: written.to_owned(),
    };
    // The XDG convention tells programs to ignore a relative path.
    let data = || {
        let base = set("XDG_DATA_HOME").filter(|base| base.is_absolute())?;
        Some(below(base, "garret", "$XDG_DATA_HOME/garret"))
    };
    let user = || {
        let base = set("HOME").filter(|base| base.is_absolute())?;
        Some(below(base, ".local/share/garret", "~/.local/share/garret"))
    };
    let given = option.map(Path::to_owned).or_else(|| set("GARRET_HOME"));
    given.map(as_written).or_else(data).or_else(user)
}

/// Returns the path without links, as far as it exists.
fn resolve_existing(path: &Path) -> Option<PathBuf> {
    // The home may not exist yet; then the nearest directory above it is resolved.
    let path = std::path::absolute(path).ok()?;
    let found = path
        .ancestors()
        .find_map(|above| Some((above, above.canonicalize().ok()?)));
    let (above, real) = found?;
    Some(real.join(path.strip_prefix(above).ok()?))
}

/// Makes the error for the history of a workspace that contains the home: the history would record itself.
pub(crate) fn home_inside_error() -> Error {
    Error::invalid("the home lies inside this workspace, so no history of it can be kept")
        .hint("choose a home elsewhere with --home or GARRET_HOME, or a directory further down as the workspace")
}

/// Makes the error for trust without a home, in which trusted files are recorded.
pub(crate) fn missing_for_trust() -> Error {
    Error::invalid("trusted files are recorded in the home, and no directory for the home is known")
        .hint("name a directory with --home or GARRET_HOME, or give the file with --config FILE each time")
}

/// Makes the error for a change that cannot be undone, because there is no home.
pub(crate) fn missing_for_undo() -> Error {
    Error::invalid("there is no home, so this change cannot be undone later").hint("set GARRET_HOME")
}

/// Makes the error for a snapshot without a home, in which snapshots are kept.
pub(crate) fn missing_for_snapshot() -> Error {
    Error::invalid("a snapshot is kept in the home, and there is no place for one")
        .hint("name a directory with --home or GARRET_HOME")
}

/// Makes the error for a command that needs a home, if there is none.
pub(crate) fn missing_home_error() -> Error {
    Error::invalid("named workspaces need a home, and no directory for the home is known")
        .hint("name a directory with --home or GARRET_HOME")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(option: Option<&str>, variables: &[(&str, &str)]) -> Option<(String, String)> {
        let variable = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| OsString::from(value))
        };
        let home = find_home_with(option.map(Path::new), variable)?;
        Some((home.directory.to_str().unwrap().to_owned(), home.written))
    }

    #[test]
    fn the_nearest_word_about_the_home_counts() {
        let all = [("GARRET_HOME", "g"), ("XDG_DATA_HOME", "/x"), ("HOME", "/h")];
        let is = |directory: &str, written: &str| Some((directory.to_owned(), written.to_owned()));
        assert_eq!(directory(Some("o"), &all), is("o", "o"));
        assert_eq!(directory(None, &all), is("g", "g"));
        assert_eq!(directory(None, &all[1..]), is("/x/garret", "$XDG_DATA_HOME/garret"));
        assert_eq!(
            directory(None, &all[2..]),
            is("/h/.local/share/garret", "~/.local/share/garret")
        );
        assert_eq!(directory(None, &[]), None);
    }

    #[test]
    fn what_is_empty_or_relative_where_it_must_not_be_does_not_count() {
        let variables = [("GARRET_HOME", ""), ("XDG_DATA_HOME", "x"), ("HOME", "/h")];
        assert_eq!(directory(None, &variables).unwrap().1, "~/.local/share/garret");
    }
}
