//! Moving the log into the database: beside the writer, on a thread of its own, so that no change waits for it.
//!
//! The log begins anew only when all of it was moved and nothing came after, which under steady work is never the case beside the
//! writer. So a log that has grown long is finished by the writer itself; by then little of it is left to move.

use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use garret_core::Result;
use rusqlite::hooks::Wal;
use rusqlite::{Connection, OpenFlags};

use crate::error;

/// Pages of the log after which they are moved into the database, in 4 KiB: each time costs two syncs, and a page that changed often is
/// moved once.
const STRETCH: i32 = 4096;
/// A log this long is finished by the writer, once so much of it is left that it pays.
const LONG: i32 = 3 * STRETCH;
const REST: i32 = 512;

/// What a commit makes of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// It grows on.
    Leave,
    /// What is there is moved while the work goes on.
    Beside,
    /// What is left is moved at once.
    Finish,
}

/// How far the log was moved.
#[derive(Debug, Default)]
struct Progress {
    /// Pages that the log had when the newest move began.
    covered: i32,
}

impl Progress {
    /// What to do with a log of `pages`.
    fn step(&mut self, pages: i32) -> Step {
        if pages < self.covered {
            // It began anew.
            self.covered = 0;
        }
        let step = match pages - self.covered {
            REST.. if pages > LONG => Step::Finish,
            STRETCH.. => Step::Beside,
            _ => Step::Leave,
        };
        if step != Step::Leave {
            self.covered = pages;
        }
        step
    }
}

/// The moves of one writer's log.
#[derive(Debug)]
pub(super) struct Checkpoints {
    path: PathBuf,
    progress: Progress,
    beside: Option<JoinHandle<()>>,
}

impl Checkpoints {
    /// Has the connection that writes to the database at `path` look after the log.
    pub(super) fn attend(connection: &mut Connection, path: &Path) -> Result<()> {
        let mut checkpoints = Self {
            path: path.to_owned(),
            progress: Progress::default(),
            beside: None,
        };
        let after_commit = move |log: &mut Wal, pages: i32| {
            checkpoints.after_commit(log, pages);
            Ok(())
        };
        connection.wal_hook(Some(after_commit)).map_err(error::database)
    }

    /// Ends that, when what is being moved is.
    pub(super) fn dismiss(connection: &mut Connection) -> Result<()> {
        let none: Option<fn(&mut Wal, i32) -> rusqlite::Result<()>> = None;
        connection.wal_hook(none).map_err(error::database)
    }

    /// What cannot be moved stays in the log, where it is as safe, until the next time.
    fn after_commit(&mut self, log: &mut Wal, pages: i32) {
        if self.beside.as_ref().is_some_and(|moving| !moving.is_finished()) {
            return;
        }
        match self.progress.step(pages) {
            Step::Leave => {}
            Step::Beside => self.beside = self.move_beside(),
            Step::Finish => drop(log.checkpoint()),
        }
    }

    fn move_beside(&self) -> Option<JoinHandle<()>> {
        let path = self.path.clone();
        let moving = move || drop(move_log(&path));
        let thread = std::thread::Builder::new().name("garret-depot-log".into());
        thread.spawn(moving).ok()
    }
}

impl Drop for Checkpoints {
    fn drop(&mut self) {
        if let Some(moving) = self.beside.take() {
            let _ = moving.join();
        }
    }
}

fn move_log(path: &Path) -> rusqlite::Result<()> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    super::connection::leave_log(&connection)?;
    connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_moved_stretch_by_stretch_and_finished_when_it_is_long() {
        let mut progress = Progress::default();
        assert_eq!(progress.step(STRETCH - 1), Step::Leave);
        assert_eq!(progress.step(STRETCH + 5), Step::Beside);
        assert_eq!(progress.step(STRETCH + 6), Step::Leave);
        assert_eq!(progress.step(2 * STRETCH + 5), Step::Beside);
        assert_eq!(progress.step(LONG + 1), Step::Finish);
        assert_eq!(progress.step(LONG + REST), Step::Leave, "not for every page, where a reader holds it");
        assert_eq!(progress.step(LONG + REST + 1), Step::Finish);
    }

    #[test]
    fn a_log_that_began_anew_is_counted_from_its_beginning() {
        let mut progress = Progress::default();
        assert_eq!(progress.step(LONG + 1), Step::Finish);
        assert_eq!(progress.step(7), Step::Leave);
        assert_eq!(progress.step(STRETCH + 7), Step::Beside);
    }
}
