//! The contract of a bench: the directory in which a workspace's files lie while commands work on them.

use std::fmt;
use std::path::PathBuf;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::{Effect, EntryPath, Result, Timestamp};

/// A directory with the files of a workspace, kept up to date.
///
/// A bench over files that live in a directory is that directory; a bench over all other files is a checkout that
/// follows the journal. While a layer lies over the bench, nothing writes to it, except to the paths that the layer
/// covers.
#[async_trait]
pub trait Bench: Send + Sync + fmt::Debug {
    /// Brings the bench up to the newest change. The cost grows with the changes since the last call; a damaged bench
    /// is made anew.
    async fn bring_up_to_date(&self) -> Result<BenchState>;

    /// Records in the journal the changes that other programs made to the files and that the journal cannot see by
    /// itself, so that commands already running on the bench can be shown them.
    async fn record_outside_changes(&self) -> Result<()> {
        Ok(())
    }

    /// Tries to take the turn between processes: one command in the foreground at a time on the same files. `command`
    /// names the command without secrets, and `now` is the time of the request; both are shown to other processes that
    /// wait. A bench that only one process can use always gives the turn.
    fn try_turn(&self, command: &str, now: Timestamp) -> Result<TurnAttempt> {
        let _ = (command, now);
        // Only one process can use such a bench, so there is nothing to lock.
        Ok(TurnAttempt::Taken(TurnGuard::default()))
    }

    /// Returns a time of the clock by which the file system of the bench dates entries: entries changed before this
    /// call are dated earlier, and entries changed afterwards are not. `None` for a bench that nobody else changes.
    async fn file_time(&self) -> Result<Option<Timestamp>> {
        Ok(None)
    }

    /// Returns the private directory, [`BenchState::scratch`], whether or not it exists yet.
    fn scratch_directory(&self) -> PathBuf;

    /// Takes over the effects of a layer that became a change, and those that are excluded from history: with the times
    /// that build tools compare, and without fetching the content again.
    async fn take_effects(&self, taken: LayerOutcome<'_>) -> Result<()>;
}

/// The location of a bench and the state of its files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BenchState {
    /// The directory.
    pub root: PathBuf,
    /// A private directory on the same file system.
    pub scratch: PathBuf,
    /// The number of the newest change that is in it.
    pub head: u64,
    /// The generation of the bench; it changes whenever a file in the bench does. `None` for a bench that others may
    /// change at any time.
    pub generation: Option<String>,
    /// Files of the workspace that the bench lacks, because their stored content is damaged. No command removed them.
    pub corrupt: Vec<EntryPath>,
}

/// The effects of a layer that a bench takes over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LayerOutcome<'a> {
    /// The effects that became part of a change.
    pub committed: &'a [Effect],
    /// The effects that are excluded from history and exist in the bench only.
    pub excluded: &'a [Effect],
    /// The number of the change; the number in [`BenchState::head`] if no effect became part of a change.
    pub head: u64,
}

/// The command that has the turn on a workspace, as it is shown to other processes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnHolder {
    /// The id of the process that runs it.
    pub process: u32,
    /// The command, without secrets.
    pub command: String,
    /// When it took the turn.
    pub since: Timestamp,
}

impl TurnHolder {
    /// Names the holder in words: ``cargo build` (process 4711, started 12 s ago)`.
    pub fn describe(&self, now: Timestamp) -> String {
        // The clock may have been put back since the command started.
        let seconds = now.as_second().saturating_sub(self.since.as_second()).max(0);
        let command = crate::path::escape_unprintable(&self.command);
        format!("`{command}` (process {}, started {seconds} s ago)", self.process)
    }
}

/// The result of an attempt to take the turn.
#[derive(Debug)]
pub enum TurnAttempt {
    /// The turn was free and is taken now.
    Taken(TurnGuard),
    /// Another process has the turn; `None` if that process has not yet written which command it runs.
    HeldBy(Option<TurnHolder>),
}

/// The turn between processes. Dropping it lets the next process go on.
#[derive(Default)]
pub struct TurnGuard {
    lock: Option<Box<dyn Send + Sync>>,
}

impl TurnGuard {
    /// Returns a turn that lasts as long as `lock` is held.
    pub fn new(lock: impl Send + Sync + 'static) -> Self {
        Self {
            lock: Some(Box::new(lock)),
        }
    }
}

impl fmt::Debug for TurnGuard {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_locked = self.lock.is_some();
        formatter
            .debug_struct("TurnGuard")
            .field("is_locked", &is_locked)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_holder_of_a_turn_is_named_by_command_process_and_age() {
        let since: Timestamp = "2026-11-16T05:00:00Z".parse().unwrap();
        let holder = TurnHolder {
            process: 4711,
            command: "cargo build\u{1b}[2J".into(),
            since,
        };
        let now: Timestamp = "2026-11-16T05:00:12Z".parse().unwrap();
        let text = holder.describe(now);
        assert!(
            text.starts_with("`cargo build") && text.ends_with("(process 4711, started 12 s ago)"),
            "{text}"
        );
        assert!(!text.contains('\u{1b}'), "{text}");
        let before: Timestamp = "2026-11-16T04:00:00Z".parse().unwrap();
        assert!(
            holder.describe(before).contains("started 0 s ago"),
            "a clock that was put back"
        );
    }
}
