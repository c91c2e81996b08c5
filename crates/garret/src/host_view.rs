//! The parts of the host that the commands of a workspace see, and their home directories.
//!
//! What a user sees by himself, commands of a workspace that he opens see as well: his toolchains, the directory of the
//! workspace at its own path, the author of his commits. A program that serves workspaces to others names no user, and
//! then commands see only what the policy names.

#![allow(
    clippy::disallowed_methods,
    reason = "this file compares directories of the host, and makes a temporary home"
)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use garret_core::{
    Error, HomeUsage, HostView, Result, SandboxMount, ShellPolicy, ToolchainChoice, VisibleParts, check_mount_target,
};
use garret_sandbox::command_home::CommandHomes;
use garret_sandbox::toolchains::{self, CommandPrograms, FoundToolchains, ToolchainSearch, find_toolchains};
use tempfile::TempDir;

use crate::host_user::HostUser;
use crate::mount_rules::{MountSurroundings, check_mounts, check_places};

/// The parts of the host that the commands of one workspace see.
#[derive(Debug)]
pub(crate) struct WorkspaceHostView {
    pub(crate) user: Option<HostUser>,
    pub(crate) environment: BTreeMap<String, String>,
    pub(crate) policy: ShellPolicy,
    /// The directories of the workspace on the host: without links, and as it was given.
    pub(crate) workspace: Vec<PathBuf>,
    /// The directories of Garret itself.
    pub(crate) own: Vec<PathBuf>,
    /// Where commands write or must not look: the workspace, the directories of Garret, and the sources of mounts with
    /// `write`.
    pub(crate) private: Vec<PathBuf>,
    pub(crate) homes: CommandHomeDirectory,
}

/// The directory of the homes of commands.
#[derive(Debug)]
pub(crate) struct CommandHomeDirectory {
    /// The directory in the home of Garret; without one, a temporary directory is made.
    pub(crate) directory_in_home: Option<PathBuf>,
    pub(crate) limit: Option<u64>,
    pub(crate) temporary: Mutex<Option<TempDir>>,
}

impl CommandHomeDirectory {
    fn open_homes(&self) -> Result<CommandHomes> {
        let directory = match &self.directory_in_home {
            Some(kept) => kept.clone(),
            None => {
                let mut temporary = self.temporary.lock().unwrap_or_else(PoisonError::into_inner);
                if temporary.is_none() {
                    let made = tempfile::Builder::new().prefix("garret-home-").tempdir();
                    *temporary = Some(made.map_err(|_| temporary_home_error())?);
                }
                temporary.as_ref().expect("it was made above").path().to_owned()
            }
        };
        Ok(CommandHomes::new(directory, self.limit))
    }
}

impl HostView for WorkspaceHostView {
    fn visible_parts(&self) -> Result<VisibleParts> {
        let host_paths = self.host_paths()?;
        let mut mounts = check_mounts(&self.policy.mounts, &self.mount_surroundings(&host_paths))?;
        let found = find_toolchains(&self.toolchain_search(&host_paths), &self.toolchain_choice())?;
        let is_free = |mount: &SandboxMount| {
            let target = mount.target_path();
            !mounts.iter().any(|other| target.starts_with(other.target_path()))
        };
        let of_toolchains: Vec<_> = found.mounts.iter().filter(|mount| is_free(mount)).cloned().collect();
        check_places(&mounts, &of_toolchains)?;
        mounts.extend(of_toolchains);
        Ok(VisibleParts {
            environment: environment_of(found),
            mounts,
            host_paths,
            git_author: self.policy.git_author.clone().or_else(|| {
                let settings = self.environment.get("XDG_CONFIG_HOME").map(Path::new);
                let settings = settings.filter(|directory| directory.is_absolute());
                self.user.as_ref()?.git_author(settings)
            }),
        })
    }

    fn home_directory(&self, scope: &str) -> Result<Option<PathBuf>> {
        self.homes.open_homes()?.home_within_limit(&home_name(scope)).map(Some)
    }

    fn home_usage(&self, scope: &str) -> Result<Option<HomeUsage>> {
        Ok(Some(HomeUsage {
            bytes: self.homes.open_homes()?.measure_home(&home_name(scope))?,
            limit_bytes: self.homes.limit,
            is_kept: self.homes.directory_in_home.is_some(),
        }))
    }

    fn clear_homes(&self) -> Result<()> {
        self.homes.open_homes()?.clear_homes()
    }
}

impl WorkspaceHostView {
    /// Lists the programs that commands find, and those of the user that they do not.
    pub(crate) fn list_programs(&self) -> Result<CommandPrograms> {
        let host_paths = self.host_paths()?;
        let found = find_toolchains(&self.toolchain_search(&host_paths), &self.toolchain_choice())?;
        let path = self.environment.get("PATH").map_or("", String::as_str);
        let home = self.user.as_ref().and_then(|user| user.home.as_deref());
        Ok(toolchains::list_programs(&found, path, home))
    }

    fn toolchain_choice(&self) -> ToolchainChoice {
        let of_user = || match self.user {
            Some(_) => ToolchainChoice::Auto,
            None => ToolchainChoice::None,
        };
        self.policy.toolchains.clone().unwrap_or_else(of_user)
    }

    fn toolchain_search<'a>(&'a self, host_paths: &'a [PathBuf]) -> ToolchainSearch<'a> {
        let opt = Path::new("/opt");
        ToolchainSearch {
            home: self.user.as_ref().and_then(|user| user.home.as_deref()),
            environment: &self.environment,
            opt: self.user.as_ref().map_or(opt, |user| &user.opt),
            private: &self.private,
            shown: host_paths,
            is_root: toolchains::has_user_for_commands(),
        }
    }

    fn mount_surroundings<'a>(&'a self, host_paths: &'a [PathBuf]) -> MountSurroundings<'a> {
        MountSurroundings {
            user_home: self.user.as_ref().and_then(|user| user.home.as_deref()),
            workspace: &self.workspace,
            shown: host_paths,
            own: &self.own,
        }
    }

    /// Returns the paths of the host at which commands see the workspace; they start at the first.
    fn host_paths(&self) -> Result<Vec<PathBuf>> {
        match (self.policy.same_path, self.workspace.is_empty()) {
            (Some(false), _) | (None, true) => return Ok(Vec::new()),
            (Some(true), true) => return Err(no_path_error()),
            (None, false) if self.user.is_none() => return Ok(Vec::new()),
            _ => {}
        }
        let mut paths: Vec<PathBuf> = Vec::new();
        for path in self.familiar_paths() {
            if check_mount_target(&path).is_ok() && !paths.contains(&path) {
                paths.push(path);
            }
        }
        // A directory such as `/srv` cannot be refused because of a default.
        if paths.is_empty() && self.policy.same_path == Some(true) {
            return Err(reserved_path_error());
        }
        // The kernel would mount one in the other.
        let is_apart = |path: &PathBuf| !paths.iter().any(|other| path != other && path.starts_with(other));
        Ok(paths.iter().filter(|path| is_apart(path)).cloned().collect())
    }

    /// Returns the paths of the workspace on the host, first those that the user and his tools would write: through the
    /// link that his home directory or his current directory lies behind.
    fn familiar_paths(&self) -> Vec<PathBuf> {
        let Some(real) = self.workspace.first() else {
            return Vec::new();
        };
        let home = self.user.as_ref().and_then(|user| user.home.clone());
        let current = self.environment.get("PWD").map(PathBuf::from);
        let through = |written: PathBuf| {
            let below = real.strip_prefix(written.canonicalize().ok()?).ok()?.to_owned();
            let path = if below.as_os_str().is_empty() {
                written
            } else {
                written.join(below)
            };
            path.is_absolute().then_some(path)
        };
        let written = current.into_iter().chain(home).filter_map(through);
        written.chain(self.workspace.iter().rev().cloned()).collect()
    }
}

fn environment_of(found: FoundToolchains) -> BTreeMap<String, String> {
    let search: Vec<_> = found.search_path.iter().filter_map(|path| path.to_str()).collect();
    let mut environment = found.variables;
    if !search.is_empty() {
        environment.insert("PATH".to_owned(), search.join(":"));
    }
    environment
}

/// Returns the name of the home of a scope. The text of a scope has paths and rules, and is no name of a directory.
fn home_name(scope: &str) -> String {
    if scope.is_empty() {
        "workspace".to_owned()
    } else {
        format!("scope-{}", &blake3::hash(scope.as_bytes()).to_hex()[..32])
    }
}

fn no_path_error() -> Error {
    Error::invalid("`same_path` is set, and the files of this workspace are in no directory of this machine")
        .hint("remove `same_path`, or use the storage `local`")
}

fn reserved_path_error() -> Error {
    Error::invalid("`same_path` is set, and the directory of the workspace is one that the sandbox uses itself")
        .hint("remove `same_path`, or move the workspace to another directory")
}

fn temporary_home_error() -> Error {
    Error::new(
        garret_core::ErrorKind::Unavailable,
        "the home directory of commands cannot be made",
    )
    .hint("check that the directory for temporary files can be written and has free space")
}
