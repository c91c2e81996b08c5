//! Finding and reading `garret.toml`.
//!
//! A file given by `--config` is the user's word. A file that is merely found may be anybody's: it must belong to the
//! user or to root, and `trust` says how far it counts.

#![allow(
    clippy::disallowed_methods,
    reason = "the command line reads its configuration file and the current directory"
)]

use std::collections::VecDeque;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};

use garret::path::quote;
use garret::{Config, Error, ErrorKind, Result, StorageConfig, WorkspaceConfig};
use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::workspace_choice;

pub(crate) const FILE_NAME: &str = "garret.toml";

/// The most bytes of a file that is found: many times more than anybody writes.
const MAX_BYTES: u64 = 1 << 20;
/// The most links that the way to a file may pass, as for the kernel.
const MAX_LINKS: usize = 40;

/// A configuration and the directory that its relative paths start from.
#[derive(Debug)]
pub(crate) struct ConfigFile {
    pub(crate) config: Config,
    pub(crate) directory: PathBuf,
    pub(crate) path: PathBuf,
    /// The text of the file.
    pub(crate) text: String,
    /// Whether the file was found, and not named by the user.
    pub(crate) is_found: bool,
    /// Whether the file may grant more than the defaults do.
    pub(crate) is_trusted: bool,
    /// The file as messages name it.
    pub(crate) shown: String,
}

impl ConfigFile {
    /// Returns the name of the file without its directory.
    pub(crate) fn name(&self) -> String {
        file_name(&self.path)
    }

    /// Adds the place in the file to an error in the settings of its workspace `name`.
    pub(crate) fn locate_error(&self, name: &str, error: Error) -> Error {
        error_at_place(&self.shown, &format!("{}, workspaces.{name}", self.shown), error)
    }

    /// Whether its workspace `name` is the one of that name in the home, and not another.
    pub(crate) fn is_of_home(&self, name: &str) -> bool {
        let named = match &self.config.workspaces[name].storage {
            StorageConfig::Url(url) => url.strip_prefix("filestore:"),
            StorageConfig::Table { kind, options } if kind == "filestore" => {
                options.get("workspace").and_then(|value| value.as_str())
            }
            StorageConfig::Table { .. } => None,
        };
        named == Some(name)
    }
}

/// Returns the globs that match the file at `path`, and each link that leads to it, within the workspace on
/// `directory`.
pub(crate) fn globs_within(path: &Path, directory: &Path) -> Vec<String> {
    let Ok(directory) = directory.canonicalize() else {
        return Vec::new();
    };
    let places = resolve_links(path);
    places
        .iter()
        .filter_map(|place| glob_within(place, &directory))
        .collect()
}

/// Returns the glob that matches `place` within `directory`, both without links; `None` if `place` lies elsewhere.
pub(crate) fn glob_within(place: &Path, directory: &Path) -> Option<String> {
    let below = place.strip_prefix(directory).ok()?;
    // No glob can spell a name that is not UTF-8, so the glob matches the directory above such a name.
    let names: Vec<&str> = below.iter().map_while(|name| name.to_str()).collect();
    if names.is_empty() {
        Some("**".to_owned())
    } else {
        Some(escape_glob(&names.join("/")))
    }
}

/// Returns the glob that matches exactly `path`.
fn escape_glob(path: &str) -> String {
    let special = |c: char| "*?[]{}\\!".contains(c);
    path.chars()
        .flat_map(|c| special(c).then_some('\\').into_iter().chain([c]))
        .collect()
}

/// Returns the links on the way to `path` and the file at its end, each by a path without links. A change to any of
/// them changes the file that `path` leads to.
fn resolve_links(path: &Path) -> Vec<PathBuf> {
    let Ok(path) = std::path::absolute(path) else {
        return Vec::new();
    };
    let owned =
        |path: &Path| -> Vec<PathBuf> { path.components().map(|part| PathBuf::from(part.as_os_str())).collect() };
    // Resolved by hand: the kernel names only the file at the end, and not the links on the way.
    let mut ahead: VecDeque<PathBuf> = owned(&path).into();
    let (mut at, mut places) = (PathBuf::from("/"), Vec::new());
    while let Some(part) = ahead.pop_front() {
        let next = at.join(&part);
        match part.components().next() {
            Some(Component::ParentDir) => {
                at.pop();
            }
            Some(Component::Normal(_)) => match std::fs::read_link(&next) {
                Ok(target) if places.len() < MAX_LINKS => {
                    places.push(next);
                    owned(&target).into_iter().rev().for_each(|part| ahead.push_front(part));
                }
                _ => at = next,
            },
            _ => at = next,
        }
    }
    places.push(at);
    places
}

/// Loads the given configuration file, or the nearest `garret.toml` in the current directory or above it, if there is
/// one.
pub(crate) fn load_given_or_found(given: Option<&Path>) -> Result<Option<ConfigFile>> {
    match given {
        Some(path) => load_given(path).map(Some),
        None => load_found(),
    }
}

/// Reads the file that the user named: JSON by its name, TOML otherwise. It is trusted.
pub(crate) fn load_given(path: &Path) -> Result<ConfigFile> {
    let shown = file_name(path);
    let text = std::fs::read_to_string(path).map_err(|error| unreadable_error(&shown, &error))?;
    Ok(ConfigFile {
        is_found: false,
        is_trusted: true,
        ..parse_config(path, shown, text)?
    })
}

/// Reads the nearest `garret.toml` in the current directory or above it, if there is one. It is not trusted yet.
pub(crate) fn load_found() -> Result<Option<ConfigFile>> {
    let files = candidate_paths().into_iter().enumerate();
    // Anything of that name counts, also a broken link: rules that cannot be read must not be taken for no rules.
    let nearest = files.into_iter().find(|(_, file)| file.symlink_metadata().is_ok());
    let read = |(above, path): (usize, PathBuf)| read_found(&path, format!("{}{FILE_NAME}", "../".repeat(above)));
    nearest.map(read).transpose()
}

/// Reads the `garret.toml` at `path` as if it were found.
pub(crate) fn load_as_found(path: &Path) -> Result<ConfigFile> {
    let shown = path.display().to_string();
    if file_name(path) != FILE_NAME {
        let message = format!("{} is not called {FILE_NAME}, so it is never found", quote(&shown));
        return Err(Error::invalid(message).hint("give it with --config FILE, which trusts it"));
    }
    let real = real_path(path).map_err(|error| unreadable_error(&shown, &error))?;
    read_found(&real, shown)
}

/// Returns the path of a file with the links in its directory resolved; a link at the file itself stays.
pub(crate) fn real_path(path: &Path) -> io::Result<PathBuf> {
    let path = std::path::absolute(path)?;
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => Ok(parent.canonicalize()?.join(name)),
        _ => Ok(path),
    }
}

/// Returns the paths at which a `garret.toml` is searched, nearest first.
pub(crate) fn candidate_paths() -> Vec<PathBuf> {
    let start = std::env::current_dir().unwrap_or_default();
    start.ancestors().map(|directory| directory.join(FILE_NAME)).collect()
}

fn read_found(path: &Path, shown: String) -> Result<ConfigFile> {
    // Relative directories start at the found file, so a link would apply the rules of its target to another directory.
    let (file, metadata) = open_unfollowed(path).map_err(|error| {
        if is_link(&error) {
            linked_error(&shown)
        } else {
            unreadable_error(&shown, &error)
        }
    })?;
    if !metadata.is_file() {
        return Err(unreadable_error(&shown, &io::ErrorKind::InvalidData.into()));
    }
    let user = rustix::process::geteuid().as_raw();
    if let Some(problem) = owner_problem(metadata.uid(), metadata.mode(), user) {
        return Err(foreign_owner_error(&shown, problem));
    }
    let mut text = String::new();
    // One byte more than allowed tells a file that is too large from one that just fits.
    let read = file.take(MAX_BYTES + 1).read_to_string(&mut text);
    read.map_err(|error| unreadable_error(&shown, &error))?;
    if text.len() as u64 > MAX_BYTES {
        let message = format!(
            "the configuration file {} has more than {MAX_BYTES} bytes",
            quote(&shown)
        );
        return Err(Error::new(ErrorKind::TooLarge, message).hint("give it with --config FILE"));
    }
    parse_config(path, shown, text)
}

/// Opens a file without following a link at its name, and without waiting for the other end of a fifo. Returns it with
/// the metadata of the open file.
pub(crate) fn open_unfollowed(path: &Path) -> io::Result<(File, Metadata)> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits();
    let file = File::options().read(true).custom_flags(flags as i32).open(path)?;
    // Asked of the handle: at the name, another file could have been put in between.
    let metadata = file.metadata()?;
    Ok((file, metadata))
}

fn is_link(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::LOOP.raw_os_error())
}

/// Returns the reason why a file of `owner` with `mode` must not count for `user`; `None` if it may count.
fn owner_problem(owner: u32, mode: u32, user: u32) -> Option<&'static str> {
    const WORLD_WRITABLE: u32 = 0o002;
    if owner != user && owner != 0 {
        return Some("belongs to another user");
    }
    // A group may be able to write the file: many systems make files so by default, and settings that grant more than
    // the defaults count only with the content that the user trusted.
    (mode & WORLD_WRITABLE != 0).then_some("can be written by every user")
}

fn parse_config(path: &Path, shown: String, text: String) -> Result<ConfigFile> {
    let is_json = path.extension().is_some_and(|extension| extension == "json");
    let parsed = if is_json {
        Config::from_json(&text)
    } else {
        Config::from_toml(&text)
    };
    let checked = parsed.and_then(|config| {
        config
            .workspaces
            .keys()
            .try_for_each(|name| workspace_choice::check_name(name))?;
        Ok(config)
    });
    let config = checked.map_err(|error| error_at_place(&shown, &shown, error))?;
    let directory = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    Ok(ConfigFile {
        config,
        directory: directory.to_owned(),
        path: path.to_owned(),
        text,
        is_found: true,
        is_trusted: false,
        shown,
    })
}

fn file_name(path: &Path) -> String {
    path.file_name()
        .map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}

/// Adds a place in `file` to an error.
fn error_at_place(file: &str, place: &str, error: Error) -> Error {
    let message = format!("in {}: {}", garret::path::escape_unprintable(place), error.message());
    Error::new(error.kind(), message)
        .hint(error.hint_text().to_owned())
        .at_path_text(file)
}

fn linked_error(shown: &str) -> Error {
    let message = format!("the configuration file {} is a symbolic link", quote(shown));
    Error::new(ErrorKind::Denied, message).hint("give the target of the link with --config FILE")
}

fn foreign_owner_error(shown: &str, problem: &str) -> Error {
    let message = format!("the configuration file {} {problem}", quote(shown));
    Error::new(ErrorKind::Denied, message)
        .hint("to use that file, give it with --config FILE; ./NAME opens a directory without it")
}

fn unreadable_error(name: &str, error: &io::Error) -> Error {
    let shown = quote(name);
    match error.kind() {
        io::ErrorKind::InvalidData => Error::invalid(format!("the configuration file {shown} is not a text file"))
            .hint("write it as TOML in UTF-8"),
        io::ErrorKind::NotFound => Error::new(ErrorKind::NotFound, format!("there is no configuration file {shown}"))
            .hint("check the path of the file"),
        _ => Error::new(
            ErrorKind::Denied,
            format!("the configuration file {shown} cannot be read"),
        )
        .hint("check that it is a text file and that you can read it"),
    }
}

/// Returns the directory of a workspace on `local`; a relative one starts at `base`.
pub(crate) fn local_directory(config: &WorkspaceConfig, base: &Path) -> Option<PathBuf> {
    let written = match &config.storage {
        StorageConfig::Url(url) => url.strip_prefix("local:")?,
        StorageConfig::Table { kind, options } if kind == "local" => options.get("dir")?.as_str()?,
        StorageConfig::Table { .. } => return None,
    };
    Some(base.join(written))
}

/// Whether the directory of a workspace lies outside of `base`, with all links followed.
pub(crate) fn is_outside(config: &WorkspaceConfig, base: &Path) -> bool {
    // Opening checks the handle again, because a link may be swapped in between. This check comes before that, so that
    // the error names the file and nothing outside is touched.
    let own = local_directory(config, base).and_then(|directory| directory.canonicalize().ok());
    match (own, base.canonicalize()) {
        (Some(own), Ok(base)) => !own.starts_with(base),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_file_of_the_user_or_of_root_that_not_everybody_can_write_is_read() {
        for (owner, mode, user) in [(7, 0o644, 7), (7, 0o664, 7), (0, 0o644, 7), (0, 0o600, 0)] {
            assert_eq!(owner_problem(owner, mode, user), None, "{owner} {mode:o} {user}");
        }
        assert_eq!(owner_problem(8, 0o644, 7), Some("belongs to another user"));
        assert_eq!(
            owner_problem(7, 0o644, 0),
            Some("belongs to another user"),
            "root is no exception"
        );
        for mode in [0o666, 0o602, 0o100_777] {
            assert_eq!(
                owner_problem(7, mode, 7),
                Some("can be written by every user"),
                "{mode:o}"
            );
        }
    }

    #[test]
    fn the_way_to_a_file_names_each_link_and_the_file() {
        let room = tempfile::tempdir().unwrap();
        let root = room.path().canonicalize().unwrap();
        std::fs::create_dir(root.join("real")).unwrap();
        std::fs::write(root.join("real/garret.toml"), "").unwrap();
        std::os::unix::fs::symlink("real", root.join("directory")).unwrap();
        std::os::unix::fs::symlink("directory/../directory/garret.toml", root.join("file")).unwrap();
        let way = resolve_links(&root.join("real/../file"));
        let expected = ["file", "directory", "directory", "real/garret.toml"].map(|name| root.join(name));
        assert_eq!(way, expected);
    }

    #[test]
    fn a_name_that_is_not_utf_8_is_covered_by_the_directory_above_it() {
        use std::os::unix::ffi::OsStrExt;
        let odd = Path::new("/w/a")
            .join(std::ffi::OsStr::from_bytes(b"\xff"))
            .join("garret.toml");
        assert_eq!(glob_within(&odd, Path::new("/w")).as_deref(), Some("a"));
        assert_eq!(glob_within(&odd, Path::new("/w/a")).as_deref(), Some("**"));
        assert_eq!(
            glob_within(Path::new("/w/a[1]/b"), Path::new("/w")).as_deref(),
            Some("a\\[1\\]/b")
        );
        assert_eq!(glob_within(Path::new("/w/a"), Path::new("/x")), None);
    }
}
