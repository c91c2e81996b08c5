//! Reads the directories of the user in which toolchains are installed.

#![allow(
    clippy::disallowed_methods,
    reason = "this file looks at the directories of the user on the host"
)]

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::Access;

/// The most bytes of a file that names a version.
const VERSION_FILE_BYTES: u64 = 64 * 1024;
/// The most links in one path.
const MOST_LINKS: usize = 40;

/// The directories and variables of the user.
#[derive(Debug, Clone, Copy)]
pub(super) struct UserDisk<'a> {
    pub(super) home: Option<&'a Path>,
    pub(super) environment: &'a BTreeMap<String, String>,
    pub(super) opt: &'a Path,
}

impl UserDisk<'_> {
    /// Returns the absolute path in a variable.
    pub(super) fn variable(&self, name: &str) -> Option<PathBuf> {
        let value = Path::new(self.environment.get(name)?);
        value.is_absolute().then(|| value.to_owned())
    }

    /// Returns a path below the home directory.
    pub(super) fn below_home(&self, path: &str) -> Option<PathBuf> {
        Some(self.home?.join(path))
    }

    /// Returns the path in the variable, else the one below the home directory.
    pub(super) fn place(&self, variable: &str, path: &str) -> Option<PathBuf> {
        self.variable(variable).or_else(|| self.below_home(path))
    }

    /// Returns a path below the directory of the user's data.
    pub(super) fn data(&self, path: &str) -> Option<PathBuf> {
        Some(self.place("XDG_DATA_HOME", ".local/share")?.join(path))
    }
}

/// Returns whether something is at the path.
pub(super) fn is_present(path: &Path) -> bool {
    path.exists()
}

/// Returns the directories in `directory`, in the order of their names.
pub(super) fn child_directories(directory: &Path) -> Vec<PathBuf> {
    let mut children = child_entries(directory);
    children.retain(|child| child.is_dir());
    children
}

/// Returns the directories in `directory` that are no links, in the order of their names.
pub(super) fn own_directories(directory: &Path) -> Vec<PathBuf> {
    let mut children = child_directories(directory);
    children.retain(|child| !child.is_symlink());
    children
}

/// Returns the entries of `directory` in the order of their names; none if it cannot be read.
pub(super) fn child_entries(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

/// Returns the names of the programs in `directory`, in order.
pub(super) fn program_names(directory: &Path) -> Vec<String> {
    let is_program =
        |path: &PathBuf| fs::metadata(path).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0);
    let programs = child_entries(directory).into_iter().filter(is_program);
    programs
        .filter_map(|path| path.file_name()?.to_str().map(str::to_owned))
        .collect()
}

/// Returns the directory in `directory` with the highest version in its name.
pub(super) fn newest_version(directory: &Path) -> Option<PathBuf> {
    newest_directory(own_directories(directory).into_iter())
}

/// Returns the directory with the highest version in its name.
pub(super) fn newest_directory(directories: impl Iterator<Item = PathBuf>) -> Option<PathBuf> {
    directories.max_by_key(|path| version_of(path.file_name()))
}

/// Returns the numbers in a name, such as 20, 1 and 0 for `v20.1.0`.
fn version_of(name: Option<&OsStr>) -> Vec<u64> {
    let name = name.unwrap_or_default().to_string_lossy();
    let numbers = name.split(|sign: char| !sign.is_ascii_digit());
    numbers.filter_map(|number| number.parse().ok()).collect()
}

/// Returns the path of each symbolic link on the way to `path`, and at last the path without links.
pub fn follow_links(path: &Path) -> io::Result<Vec<PathBuf>> {
    let parts = |path: &Path| -> Vec<OsString> {
        let names = path.components().rev().filter(|part| *part != Component::RootDir);
        names.map(|part| part.as_os_str().to_owned()).collect()
    };
    let (mut way, mut real) = (Vec::new(), PathBuf::from("/"));
    let mut ahead = parts(path);
    while let Some(part) = ahead.pop() {
        if part == ".." {
            real.pop();
            continue;
        }
        let next = real.join(&part);
        if !fs::symlink_metadata(&next)?.is_symlink() {
            real = next;
            continue;
        }
        let target = fs::read_link(&next)?;
        way.push(next);
        if way.len() > MOST_LINKS {
            return Err(io::ErrorKind::NotFound.into());
        }
        if target.is_absolute() {
            real = PathBuf::from("/");
        }
        ahead.extend(parts(&target));
    }
    way.push(real);
    Ok(way)
}

/// Returns the path without links; `None` if nothing is there or it cannot be reached.
pub(super) fn resolve_links(path: &Path) -> Option<PathBuf> {
    fs::canonicalize(path).ok()
}

/// Returns the text of a small file.
pub(super) fn read_text(path: &Path) -> Option<String> {
    let is_small = fs::metadata(path).is_ok_and(|file| file.is_file() && file.len() <= VERSION_FILE_BYTES);
    is_small.then(|| fs::read_to_string(path).ok()).flatten()
}

/// Returns whether the user of the commands may read the file, or list and enter the directory. With `by_everybody`,
/// that is another user than the one of this process.
pub(super) fn is_readable(path: &Path, by_everybody: bool) -> bool {
    let Ok(metadata) = fs::metadata(path) else {
        return false;
    };
    if by_everybody {
        let wanted = if metadata.is_dir() { 0o005 } else { 0o004 };
        return metadata.permissions().mode() & wanted == wanted;
    }
    let wanted = if metadata.is_dir() {
        Access::READ_OK | Access::EXEC_OK
    } else {
        Access::READ_OK
    };
    rustix::fs::access(path, wanted).is_ok()
}
