//! The other workspaces of the same home, as far as a merge needs them.

use std::fmt;

use async_trait::async_trait;
use garret_core::Result;

/// Reaches the files of other workspaces of the same home.
///
/// A history knows the files of its own workspace; where those of another live in a directory, only whoever puts workspaces together
/// can get there.
#[async_trait]
pub trait Neighbours: Send + Sync + fmt::Debug {
    /// Has the history of the workspace with this id know what other programs did to its files; gives whether they are where other
    /// programs reach them at all.
    async fn look_at(&self, id: &str) -> Result<bool>;
}
