//! The other workspaces of the same home, as far as a merge needs them.

use std::fmt;

use async_trait::async_trait;
use garret_core::Result;

/// Reaches the files of other workspaces of the same home.
///
/// A history knows the files of its own workspace. The files of another workspace may be in a directory that only the
/// program which assembles workspaces can open.
#[async_trait]
pub trait NeighbourWorkspaces: Send + Sync + fmt::Debug {
    /// Lets the history of the workspace with this id record the changes that other programs made to its files. Returns
    /// whether other programs can reach these files at all.
    async fn record_outside_changes(&self, id: &str) -> Result<bool>;
}
