//! The bench of files that live in a directory: the directory itself.

use std::fmt;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use garret_core::{Bench, BenchState, Error, ErrorKind, History, Result, Taken};
use rustix::fs::{Mode, OFlags};

use super::filling::stopped;
use super::placing::{Placing, PlacingOptions};

/// Where the files are.
#[derive(Debug, Clone)]
pub struct DirectoryOptions {
    /// The directory of the workspace.
    pub root: PathBuf,
    /// A private directory for layers.
    pub scratch: PathBuf,
    /// The journal, where there is one.
    pub history: Option<Arc<dyn History>>,
}

/// The directory of a workspace as its bench. What became a change was written there by the journal; only what is kept out of history is
/// taken over here.
pub struct DirectoryBench {
    options: DirectoryOptions,
}

impl fmt::Debug for DirectoryBench {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("DirectoryBench").finish_non_exhaustive()
    }
}

impl DirectoryBench {
    /// A bench in the directory.
    pub fn new(options: DirectoryOptions) -> Self {
        Self { options }
    }
}

#[async_trait]
impl Bench for DirectoryBench {
    async fn ready(&self) -> Result<BenchState> {
        let head = match &self.options.history {
            Some(history) => history.head().await?,
            None => 0,
        };
        Ok(BenchState {
            root: self.options.root.clone(),
            scratch: self.scratch(),
            head,
            stands: None,
            corrupt: Vec::new(),
        })
    }

    fn scratch(&self) -> PathBuf {
        self.options.scratch.clone()
    }

    async fn take(&self, taken: Taken<'_>) -> Result<()> {
        if taken.excluded.is_empty() {
            return Ok(());
        }
        let (root, effects) = (self.options.root.clone(), taken.excluded.to_vec());
        let placed = tokio::task::spawn_blocking(move || {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let top = rustix::fs::open(&root, flags, Mode::empty()).map_err(|_| gone())?;
            let mut placing = Placing::new(top.as_fd(), PlacingOptions { takes_locks: true });
            effects.iter().try_for_each(|effect| placing.effect(effect))?;
            placing.finish().map(drop)
        });
        placed.await.map_err(|_| stopped())?
    }
}

fn gone() -> Error {
    Error::new(
        ErrorKind::Unavailable,
        "the directory of this workspace cannot be opened",
    )
}
