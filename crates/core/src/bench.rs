//! The contract of a bench: the directory in which a workspace's files lie while commands work on them.

use std::fmt;
use std::path::PathBuf;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::{Effect, EntryPath, Result, Timestamp};

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

    /// Tries to take the turn between processes: one command in the foreground at a time on the same files. `command` names the command
    /// without secrets, `now` is when it asks; both are shown to other processes that wait. A bench that one process alone can use
    /// always gives the turn.
    fn try_turn(&self, command: &str, now: Timestamp) -> Result<TurnAttempt> {
        let _ = (command, now);
        Ok(TurnAttempt::Taken(TurnGuard::default()))
    }

    /// A time of the clock by which its file system dates entries: whatever was changed there before this call is dated earlier, and
    /// whatever is changed from now on is not. `None` for a bench that nobody else changes.
    async fn file_time(&self) -> Result<Option<Timestamp>> {
        Ok(None)
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

/// The command that has the turn on a workspace, as other processes are told of it.
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
        let seconds = now.as_second().saturating_sub(self.since.as_second()).max(0);
        let command = crate::path::printable(&self.command);
        format!("`{command}` (process {}, started {seconds} s ago)", self.process)
    }
}

/// What became of an attempt to take the turn.
#[derive(Debug)]
pub enum TurnAttempt {
    /// The turn was free and is taken now.
    Taken(TurnGuard),
    /// Another process has it; `None` where that process has not said yet what it runs.
    HeldBy(Option<TurnHolder>),
}

/// The turn between processes. Dropping it lets the next process go on.
#[derive(Default)]
pub struct TurnGuard {
    lock: Option<Box<dyn Send + Sync>>,
}

impl TurnGuard {
    /// A turn that lasts as long as `lock` is held.
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
