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
/// A log this long is finished by the writer, as soon as little of it is left.
const LONG: i32 = 3 * STRETCH;
/// How much is little.
const REST: i32 = 512;
/// A log this long is finished whatever is left.
const LONGEST: i32 = 2 * LONG;

/// What a commit makes of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Step {
    /// It grows on.
    #[default]
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
    /// That move.
    newest: Step,
}

impl Progress {
    /// What to do with a log of `pages`, where nothing is being moved.
    fn step(&mut self, pages: i32) -> Step {
        if pages < self.covered {
            // It began anew.
            *self = Self::default();
        }
        // Once after each move beside the writer: where a reader keeps the log from beginning anew, each commit would else be synced.
        let may_finish = pages > LONG && self.newest == Step::Beside;
        let step = match pages - self.covered {
            ..=REST if may_finish => Step::Finish,
            _ if may_finish && pages > LONGEST => Step::Finish,
            _ if may_finish => Step::Beside,
            STRETCH.. => Step::Beside,
            _ => Step::Leave,
        };
        if step != Step::Leave {
            *self = Self {
                covered: pages,
                newest: step,
            };
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
        assert_eq!(progress.step(3 * STRETCH + 5), Step::Beside);
        assert_eq!(progress.step(3 * STRETCH + 2_000), Step::Beside, "much is left");
        assert_eq!(progress.step(3 * STRETCH + 2_300), Step::Finish);
    }

    #[test]
    fn a_log_that_a_reader_holds_is_not_finished_at_every_commit() {
        let mut progress = Progress::default();
        assert_eq!(progress.step(LONG + 1), Step::Beside);
        assert_eq!(progress.step(LONG + 2), Step::Finish);
        assert_eq!(progress.step(LONG + 3), Step::Leave);
        assert_eq!(progress.step(LONG + 2 + STRETCH), Step::Beside);
        assert_eq!(progress.step(LONG + 3 + STRETCH), Step::Finish);
    }

    #[test]
    fn a_log_that_grows_faster_than_it_is_moved_is_finished_at_last() {
        let mut progress = Progress::default();
        let steps = (1..=8).map(|time| progress.step(time * STRETCH)).collect::<Vec<_>>();
        assert_eq!(steps[..6], [Step::Beside; 6]);
        assert_eq!(steps[6..], [Step::Finish, Step::Beside]);
    }

    #[test]
    fn a_log_that_began_anew_is_counted_from_its_beginning() {
        let mut progress = Progress::default();
        assert_eq!(progress.step(LONG + 1), Step::Beside);
        assert_eq!(progress.step(7), Step::Leave);
        assert_eq!(progress.step(STRETCH + 7), Step::Beside);
    }
}
