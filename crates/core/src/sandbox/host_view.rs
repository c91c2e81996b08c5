//! The parts of the host that belong to the commands of a workspace.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use serde::Serialize;

use super::{GitAuthor, SandboxMount};
use crate::Result;

/// Finds the parts of the host that the commands of a workspace see, and keeps their home directories.
///
/// The program that opens the workspace supplies it. Nothing is looked up before a command needs it.
pub trait HostView: Send + Sync + fmt::Debug {
    /// Returns the parts of the host that commands see. One that was requested and cannot be shown is an error that
    /// names it.
    fn visible_parts(&self) -> Result<VisibleParts>;

    /// Returns the home directory for the commands of a scope; an empty text is the workspace itself. A home that holds
    /// more than its limit is `quota_exceeded`.
    fn home_directory(&self, scope: &str) -> Result<Option<PathBuf>>;

    /// Returns the use of the home directory for the commands of a scope; `None` if there is none.
    fn home_usage(&self, scope: &str) -> Result<Option<HomeUsage>>;

    /// Empties the home directories of the workspace and of its scopes.
    fn clear_homes(&self) -> Result<()>;
}

/// The use of a home directory of commands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct HomeUsage {
    /// The bytes that its files take on the disk.
    pub bytes: u64,
    /// The most bytes that it may hold; absent without a limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_bytes: Option<u64>,
    /// Whether it outlives this process.
    pub is_kept: bool,
}

/// The parts of the host that commands see.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VisibleParts {
    /// Files and directories.
    pub mounts: Vec<SandboxMount>,
    /// More absolute paths at which commands see the workspace.
    pub host_paths: Vec<PathBuf>,
    /// Variables of every command; the directories in `PATH` go before those of the system.
    pub environment: BTreeMap<String, String>,
    /// The author of commits of Git.
    pub git_author: Option<GitAuthor>,
}

/// A view of nothing: commands see the system and an empty home.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoHostView;

impl HostView for NoHostView {
    fn visible_parts(&self) -> Result<VisibleParts> {
        Ok(VisibleParts::default())
    }

    fn home_directory(&self, _scope: &str) -> Result<Option<PathBuf>> {
        Ok(None)
    }

    fn home_usage(&self, _scope: &str) -> Result<Option<HomeUsage>> {
        Ok(None)
    }

    fn clear_homes(&self) -> Result<()> {
        Ok(())
    }
}
