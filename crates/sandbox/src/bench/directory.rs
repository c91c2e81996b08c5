//! The bench of files that live in a directory: the directory itself.

use std::fmt;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use garret_core::{Bench, BenchState, Error, ErrorKind, History, LayerOutcome, Result, Timestamp};
use garret_handles::run_blocking;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::bench_placer::BenchPlacer;
use crate::effects::entry_status::EntryStatus;

/// The directories of the bench.
#[derive(Debug, Clone)]
pub struct DirectoryOptions {
    /// The directory of the workspace.
    pub root: PathBuf,
    /// A private directory for layers.
    pub scratch: PathBuf,
    /// The journal, if there is one.
    pub history: Option<Arc<dyn History>>,
}

/// The directory of a workspace as its bench. The journal has written all committed changes there; only excluded files
/// are taken over here.
pub struct DirectoryBench {
    options: DirectoryOptions,
}

impl fmt::Debug for DirectoryBench {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("DirectoryBench").finish_non_exhaustive()
    }
}

impl DirectoryBench {
    /// Returns a bench in the directory.
    pub fn new(options: DirectoryOptions) -> Self {
        Self { options }
    }
}

#[async_trait]
impl Bench for DirectoryBench {
    async fn bring_up_to_date(&self) -> Result<BenchState> {
        let head = match &self.options.history {
            Some(history) => history.head().await?,
            None => 0,
        };
        Ok(BenchState {
            root: self.options.root.clone(),
            scratch: self.scratch_directory(),
            head,
            generation: None,
            corrupt: Vec::new(),
        })
    }

    async fn file_time(&self) -> Result<Option<Timestamp>> {
        let (root, scratch) = (self.options.root.clone(), self.scratch_directory());
        run_blocking(move || {
            let device = |place: &PathBuf| rustix::fs::stat(place).map(|stat| stat.st_dev).ok();
            // In the directory itself, programs that watch it would see a file come and go.
            let places = if device(&root) == device(&scratch) {
                [scratch, root]
            } else {
                [root, scratch]
            };
            Ok(places.iter().find_map(|place| file_time(place).ok().flatten()))
        })
        .await
    }

    fn scratch_directory(&self) -> PathBuf {
        self.options.scratch.clone()
    }

    async fn take_effects(&self, taken: LayerOutcome<'_>) -> Result<()> {
        if taken.excluded.is_empty() {
            return Ok(());
        }
        let (root, effects) = (self.options.root.clone(), taken.excluded.to_vec());
        run_blocking(move || {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let top = rustix::fs::open(&root, flags, Mode::empty()).map_err(|_| missing_directory())?;
            let mut placing = BenchPlacer::with_locks(top.as_fd());
            effects.iter().try_for_each(|effect| placing.place_effect(effect))?;
            placing.finish().map(drop)
        })
        .await
    }
}

/// Waits for the next tick of a file system's clock, and returns the time then. A clock with long ticks is not waited
/// for: files that changed in the tick before the call then count as changed after it.
fn file_time(place: &Path) -> Result<Option<Timestamp>, Errno> {
    const LOOKS: usize = 25;
    const PAUSE: Duration = Duration::from_millis(1);
    // An unnamed file gets its time from the file system's clock and is gone when it is closed.
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let file = rustix::fs::open(place, flags, Mode::RUSR | Mode::WUSR)?;
    let changed = || rustix::fs::fstat(&file).map(|stat| EntryStatus::from_stat(&stat).changed);
    let first = changed()?;
    let mut last = first;
    for look in 0..LOOKS {
        if look > 1 {
            std::thread::sleep(PAUSE);
        }
        rustix::fs::fchmod(&file, Mode::RUSR | Mode::WUSR)?;
        last = changed()?;
        if last > first {
            break;
        }
    }
    Ok(Timestamp::new(last.0, i32::try_from(last.1).unwrap_or_default()).ok())
}

fn missing_directory() -> Error {
    Error::new(
        ErrorKind::Unavailable,
        "the directory of this workspace cannot be opened",
    )
}
