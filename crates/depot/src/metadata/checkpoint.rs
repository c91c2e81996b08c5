//! Checkpoints: move the log into the database on a thread beside the writer, so that no change waits for it.
//!
//! SQLite restarts the log at its beginning only when all of it was moved and nothing was added since. Under steady
//! work that never happens beside the writer, so the writer itself finishes a log that has grown long; by then little
//! of it is left to move.

use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use garret_core::Result;
use rusqlite::hooks::Wal;
use rusqlite::{Connection, OpenFlags};

use crate::error;

/// The number of new log pages, of 4 KiB, after which a checkpoint begins: each checkpoint costs two syncs, and a page
/// that changed often is moved once.
const STRETCH: i32 = 4096;
/// The length from which on the writer finishes the log, as soon as at most [`REST`] pages are left to move.
const LONG: i32 = 3 * STRETCH;
/// The number of pages that the writer may move itself.
const REST: i32 = 512;
/// The length from which on the writer finishes the log, however many pages are left.
const LONGEST: i32 = 2 * LONG;

/// The action on the log after a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum CheckpointStep {
    /// The log keeps growing.
    #[default]
    Leave,
    /// A thread moves the pages of the log while the writer continues.
    Background,
    /// The writer moves the remaining pages before its next transaction.
    Finish,
}

/// The progress of the checkpoints.
#[derive(Debug, Default)]
struct CheckpointProgress {
    /// The length of the log when the newest checkpoint began, in pages.
    covered: i32,
    /// The kind of the newest checkpoint.
    newest: CheckpointStep,
}

impl CheckpointProgress {
    /// Chooses the action for a log of `pages`, when no checkpoint is under way.
    fn next_step(&mut self, pages: i32) -> CheckpointStep {
        if pages < self.covered {
            // The log was restarted.
            *self = Self::default();
        }
        // Only once after each checkpoint beside the writer: while a reader keeps the log from being restarted, each
        // commit would else pay for a checkpoint with its syncs.
        let may_finish = pages > LONG && self.newest == CheckpointStep::Background;
        let step = match pages - self.covered {
            ..=REST if may_finish => CheckpointStep::Finish,
            _ if may_finish && pages > LONGEST => CheckpointStep::Finish,
            _ if may_finish => CheckpointStep::Background,
            STRETCH.. => CheckpointStep::Background,
            _ => CheckpointStep::Leave,
        };
        if step != CheckpointStep::Leave {
            *self = Self {
                covered: pages,
                newest: step,
            };
        }
        step
    }
}

/// The checkpoints of one writer's log.
#[derive(Debug)]
pub(super) struct LogCheckpoints {
    path: PathBuf,
    progress: CheckpointProgress,
    beside: Option<JoinHandle<()>>,
}

impl LogCheckpoints {
    /// Installs the checkpoints on the connection that writes to the database at `path`.
    pub(super) fn install_on(connection: &mut Connection, path: &Path) -> Result<()> {
        let mut checkpoints = Self {
            path: path.to_owned(),
            progress: CheckpointProgress::default(),
            beside: None,
        };
        let after_commit = move |log: &mut Wal, pages: i32| {
            checkpoints.after_commit(log, pages);
            Ok(())
        };
        connection.wal_hook(Some(after_commit)).map_err(error::from_database)
    }

    /// Removes the checkpoints from the connection, and waits for one that is under way.
    pub(super) fn remove_from(connection: &mut Connection) -> Result<()> {
        let none: Option<fn(&mut Wal, i32) -> rusqlite::Result<()>> = None;
        connection.wal_hook(none).map_err(error::from_database)
    }

    fn after_commit(&mut self, log: &mut Wal, pages: i32) {
        // Failures are ignored below: pages that were not moved are as safe in the log, until the next checkpoint.
        if self.beside.as_ref().is_some_and(|moving| !moving.is_finished()) {
            return;
        }
        match self.progress.next_step(pages) {
            CheckpointStep::Leave => {}
            CheckpointStep::Background => self.beside = self.start_background(),
            CheckpointStep::Finish => drop(log.checkpoint()),
        }
    }

    fn start_background(&self) -> Option<JoinHandle<()>> {
        let path = self.path.clone();
        let moving = move || drop(move_log(&path));
        let thread = std::thread::Builder::new().name("garret-depot-log".into());
        thread.spawn(moving).ok()
    }
}

impl Drop for LogCheckpoints {
    fn drop(&mut self) {
        if let Some(moving) = self.beside.take() {
            let _ = moving.join();
        }
    }
}

fn move_log(path: &Path) -> rusqlite::Result<()> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    // Without this, closing the connection would be another checkpoint, which may delete the log.
    super::connection::keep_log_on_close(&connection)?;
    // A passive checkpoint neither waits for the writer nor makes it wait.
    connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_moved_stretch_by_stretch_and_finished_when_it_is_long() {
        let mut progress = CheckpointProgress::default();
        assert_eq!(progress.next_step(STRETCH - 1), CheckpointStep::Leave);
        assert_eq!(progress.next_step(STRETCH + 5), CheckpointStep::Background);
        assert_eq!(progress.next_step(STRETCH + 6), CheckpointStep::Leave);
        assert_eq!(progress.next_step(2 * STRETCH + 5), CheckpointStep::Background);
        assert_eq!(progress.next_step(3 * STRETCH + 5), CheckpointStep::Background);
        assert_eq!(
            progress.next_step(3 * STRETCH + 2_000),
            CheckpointStep::Background,
            "much is left"
        );
        assert_eq!(progress.next_step(3 * STRETCH + 2_300), CheckpointStep::Finish);
    }

    #[test]
    fn a_log_that_a_reader_holds_is_not_finished_at_every_commit() {
        let mut progress = CheckpointProgress::default();
        assert_eq!(progress.next_step(LONG + 1), CheckpointStep::Background);
        assert_eq!(progress.next_step(LONG + 2), CheckpointStep::Finish);
        assert_eq!(progress.next_step(LONG + 3), CheckpointStep::Leave);
        assert_eq!(progress.next_step(LONG + 2 + STRETCH), CheckpointStep::Background);
        assert_eq!(progress.next_step(LONG + 3 + STRETCH), CheckpointStep::Finish);
    }

    #[test]
    fn a_log_that_grows_faster_than_it_is_moved_is_finished_at_last() {
        let mut progress = CheckpointProgress::default();
        let steps = (1..=8)
            .map(|time| progress.next_step(time * STRETCH))
            .collect::<Vec<_>>();
        assert_eq!(steps[..6], [CheckpointStep::Background; 6]);
        assert_eq!(steps[6..], [CheckpointStep::Finish, CheckpointStep::Background]);
    }

    #[test]
    fn a_log_that_began_anew_is_counted_from_its_beginning() {
        let mut progress = CheckpointProgress::default();
        assert_eq!(progress.next_step(LONG + 1), CheckpointStep::Background);
        assert_eq!(progress.next_step(7), CheckpointStep::Leave);
        assert_eq!(progress.next_step(STRETCH + 7), CheckpointStep::Background);
    }
}
