//! The contract of a bench: the directory in which a workspace's files lie while commands work on them.

use std::fmt;
use std::path::PathBuf;

use async_trait::async_trait;

use crate::{Effect, EntryPath, Result};

/// A directory with the files of a workspace, kept up to date.
///
/// For files that live in a directory it is that directory; for all others a checkout that follows the journal. Nothing writes to it while
/// a layer lies over it, except what the layer covers.
#[async_trait]
pub trait Bench: Send + Sync + fmt::Debug {
    /// Brings it up to the newest change. Costs what changed since the last time; a bench that is damaged is made anew.
    async fn ready(&self) -> Result<BenchState>;

    /// Has the journal meet what others did to files that it cannot see by itself, so that whoever works on the bench already can be shown it.
    async fn look(&self) -> Result<()> {
        Ok(())
    }

    /// Its private directory, [`BenchState::scratch`], whether it was made yet or not.
    fn scratch(&self) -> PathBuf;

    /// Takes over what became the change of this number, and what is kept out of history, as a layer left it: with the times that build
    /// tools compare, and without fetching it again.
    async fn take(&self, taken: Taken<'_>) -> Result<()>;
}

/// Where a bench is, and what it holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BenchState {
    /// The directory.
    pub root: PathBuf,
    /// A private directory on the same file system.
    pub scratch: PathBuf,
    /// The number of the newest change that is in it.
    pub head: u64,
    /// What is the same as long as nothing in it changes; `None` where others may change it at any time.
    pub stands: Option<String>,
    /// Files of the workspace that it lacks, because their stored content is damaged. That they are not there is nobody's work.
    pub corrupt: Vec<EntryPath>,
}

/// What a bench takes over from a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Taken<'a> {
    /// What became part of a change.
    pub committed: &'a [Effect],
    /// What is kept out of history and lives in the bench only.
    pub excluded: &'a [Effect],
    /// The number of the change; that of [`BenchState::head`] where nothing became one.
    pub head: u64,
}
