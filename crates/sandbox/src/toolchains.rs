//! Finds the toolchains of the user, and the directories of them that commands may see.
//!
//! The search reads the disk and nothing else: it starts no program. Only directories with programs and libraries are
//! found, by their names, so that a file with a credential beside them is never among them.

#![cfg(target_os = "linux")]

mod families;
mod opt;
mod programs;
mod user_disk;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use garret_core::path::quote;
use garret_core::{Error, ErrorKind, Result, SandboxMount, ToolchainChoice, ToolchainName, check_mount_target};

use self::families::ToolchainParts;
pub use self::programs::{CommandPrograms, ProgramDirectory, list_programs};
use self::user_disk::UserDisk;
pub use self::user_disk::follow_links;

/// Variables of the user that name a directory. A command gets them if it sees that directory.
const DIRECTORY_VARIABLES: [&str; 4] = ["JAVA_HOME", "GOROOT", "CONDA_PREFIX", "VIRTUAL_ENV"];

/// The directories and variables that a search for toolchains starts from.
#[derive(Debug, Clone)]
pub struct ToolchainSearch<'a> {
    /// The home directory of the user.
    pub home: Option<&'a Path>,
    /// The environment of the user.
    pub environment: &'a BTreeMap<String, String>,
    /// The directory of additional software: `/opt`.
    pub opt: &'a Path,
    /// Directories that no toolchain may hold or lie in: that of the workspace, and Garret's own.
    pub private: &'a [PathBuf],
    /// Directories that commands see at their own paths anyway: that of the workspace.
    pub shown: &'a [PathBuf],
    /// Whether commands run as another user than Garret, so that they read only files that everybody may read.
    pub is_root: bool,
}

/// The toolchains that commands see.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FoundToolchains {
    /// Their directories.
    pub mounts: Vec<SandboxMount>,
    /// The directories in which programs are searched, in order. Those of the system are among them if the user's own
    /// search path has them.
    pub search_path: Vec<PathBuf>,
    /// The variables that the toolchains need.
    pub variables: BTreeMap<String, String>,
    /// The directories that are left out.
    pub left_out: Vec<LeftOutDirectory>,
}

/// A directory of a toolchain that commands do not see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOutDirectory {
    /// The family of the toolchain.
    pub toolchain: ToolchainName,
    /// The directory.
    pub path: PathBuf,
    /// Why commands do not see it.
    pub reason: LeftOutReason,
}

/// Why commands do not see a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeftOutReason {
    /// The user of the commands may not read it.
    Unreadable,
    /// It holds the workspace, Garret's own files or a mount that commands write, or lies in one.
    Private,
    /// Its path is one that the sandbox uses itself.
    Reserved,
}

impl LeftOutReason {
    /// Returns the reason as a part of a sentence.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unreadable => "the user of the commands may not read it",
            Self::Private => "it holds the workspace, Garret's own files or a mount with `write`, or lies in one",
            Self::Reserved => "its path is one of the sandbox itself",
        }
    }

    const fn remedy(self) -> &'static str {
        match self {
            Self::Unreadable => "let everybody read it (`chmod -R o+rX`)",
            Self::Private | Self::Reserved => "install it in another directory",
        }
    }
}

/// Finds the chosen toolchains. A toolchain that is chosen by name and cannot be shown is an error that names it.
pub fn find_toolchains(search: &ToolchainSearch<'_>, choice: &ToolchainChoice) -> Result<FoundToolchains> {
    let disk = UserDisk {
        home: search.home,
        environment: search.environment,
        opt: search.opt,
    };
    let names = match choice {
        ToolchainChoice::None => return Ok(FoundToolchains::default()),
        ToolchainChoice::Auto => &ToolchainName::ALL[..],
        ToolchainChoice::Named(names) => names,
    };
    let mut found = ToolchainGathering::default();
    let mut toolchains = Vec::new();
    for name in names {
        let toolchain = families::find_family(*name, &disk);
        let is_named = *choice != ToolchainChoice::Auto;
        if is_named && toolchain.parts.is_empty() {
            return Err(missing_toolchain_error(*name, &toolchain, search.home));
        }
        let before = found.left_out.len();
        toolchain
            .parts
            .iter()
            .for_each(|part| found.add_part(*name, part, search));
        if let Some(left_out) = found.left_out.get(before).filter(|_| is_named) {
            return Err(left_out_error(left_out, search.home));
        }
        toolchains.push(toolchain);
    }
    Ok(found.finish(&toolchains, search))
}

/// The toolchains that were found so far.
#[derive(Debug, Default)]
struct ToolchainGathering {
    mounts: Vec<SandboxMount>,
    /// The paths at which commands see something.
    targets: BTreeSet<PathBuf>,
    left_out: Vec<LeftOutDirectory>,
}

impl ToolchainGathering {
    /// Adds a directory or file at its own path, and at its path without links, which its own files may name.
    fn add_part(&mut self, toolchain: ToolchainName, part: &Path, search: &ToolchainSearch<'_>) {
        let Some(resolved) = user_disk::resolve_links(part) else {
            return;
        };
        if let Some(reason) = reason_to_leave_out(part, &resolved, search) {
            let path = part.to_owned();
            self.left_out.push(LeftOutDirectory {
                toolchain,
                path,
                reason,
            });
            return;
        }
        for target in [part, &resolved] {
            let is_shown = self.is_visible(target) || is_in_system(target);
            if !is_shown && check_mount_target(target).is_ok() {
                self.targets.insert(target.to_owned());
                self.mounts.push(SandboxMount {
                    target: Some(target.to_owned()),
                    ..SandboxMount::readable(&resolved)
                });
            }
        }
    }

    fn is_visible(&self, path: &Path) -> bool {
        path.ancestors().any(|above| self.targets.contains(above))
    }

    /// Returns the found parts with the search path and the variables.
    fn finish(self, toolchains: &[ToolchainParts], search: &ToolchainSearch<'_>) -> FoundToolchains {
        let is_shown = |path: &Path| search.shown.iter().any(|shown| path.starts_with(shown));
        let is_seen = |path: &Path| self.is_visible(path) || is_in_system(path) || is_shown(path);
        let seen = |path: &Path| match path {
            path if is_seen(path) => Some(path.to_owned()),
            path => user_disk::resolve_links(path).filter(|resolved| is_seen(resolved)),
        };
        let own = search.environment.get("PATH").map_or("", String::as_str);
        let mut search_path = Vec::new();
        let programs = toolchains.iter().flat_map(|toolchain| &toolchain.programs);
        for directory in own.split(':').map(Path::new).chain(programs.map(PathBuf::as_path)) {
            if let Some(directory) = seen(directory).filter(|one| one.is_absolute() && !search_path.contains(one)) {
                search_path.push(directory);
            }
        }
        let text_of = |path: PathBuf| path.to_str().map(str::to_owned);
        let of_user = DIRECTORY_VARIABLES.iter().filter_map(|name| {
            let value = seen(Path::new(search.environment.get(*name)?))?;
            Some(((*name).to_owned(), text_of(value)?))
        });
        let of_toolchains = toolchains
            .iter()
            .flat_map(|toolchain| &toolchain.variables)
            .filter_map(|(name, path)| Some(((*name).to_owned(), text_of(path.clone())?)));
        FoundToolchains {
            variables: of_toolchains.chain(of_user).collect(),
            search_path,
            mounts: self.mounts,
            left_out: self.left_out,
        }
    }
}

fn reason_to_leave_out(part: &Path, resolved: &Path, search: &ToolchainSearch<'_>) -> Option<LeftOutReason> {
    // Each link on the way counts: one that a command can replace could lead anywhere.
    let way = user_disk::follow_links(part).unwrap_or_else(|_| vec![resolved.to_owned()]);
    let is_private =
        |private: &PathBuf| private.starts_with(resolved) || way.iter().any(|step| step.starts_with(private));
    if search.private.iter().any(is_private) {
        Some(LeftOutReason::Private)
    } else if !user_disk::is_readable(resolved, search.is_root) {
        Some(LeftOutReason::Unreadable)
    } else if check_mount_target(part).is_err() && !is_in_system(part) {
        Some(LeftOutReason::Reserved)
    } else {
        None
    }
}

/// Returns whether every command sees the path, as a part of the system.
fn is_in_system(path: &Path) -> bool {
    ["/usr", "/bin", "/sbin"].iter().any(|system| path.starts_with(system))
}

fn missing_toolchain_error(name: ToolchainName, toolchain: &ToolchainParts, home: Option<&Path>) -> Error {
    let word = name.as_str();
    let looked: Vec<_> = toolchain
        .roots
        .iter()
        .map(|root| quote(&path_from_home(root, home)))
        .collect();
    let message = if looked.is_empty() {
        format!("the toolchain `{word}` is requested, and the home directory of the user is not known")
    } else {
        format!(
            "the toolchain `{word}` is requested, and no programs of it are in {}",
            looked.join(" or ")
        )
    };
    Error::new(ErrorKind::NotFound, message).hint(format!(
        "install it, or remove `{word}` from `toolchains` of the shell capability"
    ))
}

fn left_out_error(left_out: &LeftOutDirectory, home: Option<&Path>) -> Error {
    let path = quote(&path_from_home(&left_out.path, home));
    let (word, reason) = (left_out.toolchain.as_str(), left_out.reason.as_str());
    let message = format!("the toolchain `{word}` is requested, and {path} cannot be shown to commands: {reason}");
    Error::new(ErrorKind::Denied, message).hint(format!(
        "{}, or remove `{word}` from `toolchains` of the shell capability",
        left_out.reason.remedy()
    ))
}

/// Returns whether the sandbox of this process runs commands as a user of their own.
pub fn has_user_for_commands() -> bool {
    rustix::process::geteuid().is_root()
}

/// Returns the path with `~` for the home directory.
pub fn path_from_home(path: &Path, home: Option<&Path>) -> String {
    match home.and_then(|home| path.strip_prefix(home).ok()) {
        Some(below) => Path::new("~").join(below).display().to_string(),
        None => path.display().to_string(),
    }
}

#[cfg(test)]
mod tests;
