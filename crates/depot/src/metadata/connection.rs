//! The connections: one that writes, and for reading a pool that never waits for it.
//!
//! A short log stays when the last of them is closed, as after a crash: the next one to open the database reads it.
//!
//! In memory there is one connection behind a lock, since SQLite gives a private memory database no second one; a reader then waits
//! for a group commit, which without a disk is short.

#![allow(clippy::disallowed_methods, reason = "the size of the database's own log")]

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use garret_core::Result;
use rusqlite::config::DbConfig;
use rusqlite::Connection;

use super::Session;
use super::checkpoint::Checkpoints;
use super::group::Group;
use super::patience::{patiently, wait};
use super::schema::{self, Expected};
use crate::error;

/// Statements that a connection keeps prepared.
const STATEMENTS: usize = 64;
/// Bytes of the log that the last one to close the database leaves in place. To move them would cost every short program three syncs;
/// whoever opens the database next has to read them.
const LEFT_LOG_BYTES: u64 = 256 * 1024;
/// KiB of pages that a connection keeps. Whenever a page was split, SQLite looks through all of them at the commit.
const CACHE_KIB: i64 = 8 * 1024;
/// Readers kept open when nobody reads.
const IDLE_READERS: usize = 16;

/// Where the metadata is.
#[derive(Debug)]
pub(crate) enum Database {
    File {
        path: PathBuf,
        idle: Mutex<Vec<Connection>>,
    },
    Memory(Arc<Mutex<Connection>>),
}

/// The connection that the writer owns.
pub(crate) struct WriteConnection {
    used: Used,
    /// Whether commits are synced now, where that is known: SQLite prepares the statement that says so anew each time, which costs a
    /// small change a good part of its time.
    is_durable: Cell<Option<bool>>,
    group: Group,
}

enum Used {
    Own(Connection),
    Shared(Arc<Mutex<Connection>>),
}

impl WriteConnection {
    fn new(used: Used) -> Self {
        Self {
            used,
            is_durable: Cell::new(None),
            group: Group::default(),
        }
    }
}

impl Database {
    /// Opens the database in the file `path`, migrating it, or making it where none is expected.
    pub(crate) fn open(path: &Path, expected: Expected) -> Result<(Self, WriteConnection)> {
        // As a whole: of two that make the same database, one is refused in its middle, however long it would wait, since the other
        // may be waiting for it.
        let mut connection = patiently(|| {
            let connection = connect(path)?;
            connection
                .pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))
                .map_err(error::database)?;
            schema::migrate(&connection, expected)?;
            Ok(connection)
        })?;
        Checkpoints::attend(&mut connection, path)?;
        let path = path.to_owned();
        let idle = Mutex::new(Vec::new());
        let used = Used::Own(connection);
        Ok((Self::File { path, idle }, WriteConnection::new(used)))
    }

    /// An empty database that lives as long as this value.
    pub(crate) fn in_memory() -> Result<(Self, WriteConnection)> {
        let connection = prepared(Connection::open_in_memory().map_err(error::database)?)?;
        schema::migrate(&connection, Expected::Either)?;
        let shared = Arc::new(Mutex::new(connection));
        let used = Used::Shared(shared.clone());
        Ok((Self::Memory(shared), WriteConnection::new(used)))
    }

    /// Whether the metadata outlives the process.
    pub(crate) fn is_durable(&self) -> bool {
        matches!(self, Self::File { .. })
    }

    /// Empties the log, so that nothing is in it any more which was removed from the database; where others are at work on it, as far as
    /// they let it.
    pub(crate) fn empty_log(&self) -> Result<()> {
        match self {
            Self::Memory(_) => Ok(()),
            Self::File { .. } => self.with_reader(|connection| empty_log(connection).map(Ok)),
        }
    }

    /// Runs `look` on one unchanging state of the metadata.
    pub(crate) fn read<T>(&self, look: impl FnOnce(Session<'_>) -> Result<T>) -> Result<T> {
        self.with_reader(|connection| match self {
            Self::Memory(_) => Ok(look(Session::reading(connection))),
            Self::File { .. } => in_transaction(connection, look),
        })
    }

    /// Runs `look`, which is one statement and so needs no transaction around it.
    pub(crate) fn read_once<T>(&self, look: impl FnOnce(Session<'_>) -> Result<T>) -> Result<T> {
        self.with_reader(|connection| look(Session::reading(connection)).map(Ok))
    }

    /// The outer error of `look` is the connection's, which is then not used again.
    fn with_reader<T>(&self, look: impl FnOnce(&Connection) -> Result<Result<T>>) -> Result<T> {
        match self {
            Self::Memory(shared) => look(&shared.lock().expect("no holder panics"))?,
            Self::File { path, idle } => {
                let kept = idle.lock().expect("no holder panics").pop();
                let connection = kept.map_or_else(|| connect_reader(path), Ok)?;
                let outcome = look(&connection)?;
                let mut idle = idle.lock().expect("no holder panics");
                if idle.len() < IDLE_READERS {
                    idle.push(connection);
                }
                outcome
            }
        }
    }
}

impl WriteConnection {
    /// Runs `work` with the connection; in memory, readers wait meanwhile.
    pub(crate) fn with<T>(&self, work: impl FnOnce(Writing<'_>) -> T) -> T {
        let writing = |connection| Writing {
            connection,
            is_durable: &self.is_durable,
            group: &self.group,
        };
        match &self.used {
            Used::Own(connection) => work(writing(connection)),
            Used::Shared(shared) => work(writing(&shared.lock().expect("no holder panics"))),
        }
    }
}

impl Drop for WriteConnection {
    fn drop(&mut self) {
        let Used::Own(connection) = &mut self.used else {
            return;
        };
        // Waits for what is being moved beside it, which would be in the way.
        let _ = Checkpoints::dismiss(connection);
        if log_bytes(connection) > LEFT_LOG_BYTES {
            // What stays in the log is as safe there.
            let _ = empty_log(connection);
        }
    }
}

fn log_bytes(connection: &Connection) -> u64 {
    let log = connection.path().map(|path| format!("{path}-wal"));
    let found = log.and_then(|log| std::fs::metadata(log).ok());
    found.map_or(0, |found| found.len())
}

fn empty_log(connection: &Connection) -> Result<()> {
    connection
        .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
        .map_err(error::database)
}

/// The steps of a transaction that writes.
#[derive(Clone, Copy)]
pub(crate) struct Writing<'c> {
    connection: &'c Connection,
    is_durable: &'c Cell<Option<bool>>,
    group: &'c Group,
}

impl<'c> Writing<'c> {
    /// Chooses, between transactions, whether the next commit is synced.
    pub(crate) fn set_durable(self, is_durable: bool) -> Result<()> {
        if self.is_durable.get() == Some(is_durable) {
            return Ok(());
        }
        let level = if is_durable {
            "PRAGMA synchronous = FULL"
        } else {
            "PRAGMA synchronous = NORMAL"
        };
        self.is_durable.set(None);
        self.run(level)?;
        self.is_durable.set(Some(is_durable));
        Ok(())
    }

    /// Begins, as the only one who writes; busy where another does.
    pub(crate) fn begin(self) -> Result<()> {
        self.group.forget();
        self.run("BEGIN IMMEDIATE")
    }

    /// Begins a part that can be taken back alone.
    pub(crate) fn begin_job(self) -> Result<()> {
        self.group.forget();
        self.run("SAVEPOINT job")
    }

    /// Keeps the part, or takes it back.
    pub(crate) fn end_job(self, is_kept: bool) -> Result<()> {
        self.group.forget();
        if !is_kept {
            self.run("ROLLBACK TO job")?;
        }
        self.run("RELEASE job")
    }

    /// Ends the transaction: keeps it where `outcome` is good; else, or where it cannot be kept, nothing of it stays.
    pub(crate) fn end(self, outcome: Result<()>) -> Result<()> {
        let ended = outcome.and_then(|()| self.run("COMMIT"));
        if ended.is_err() && self.is_open() {
            self.run("ROLLBACK")?;
        }
        ended
    }

    /// Ends the transaction; nothing of it stays.
    pub(crate) fn take_back(self) -> Result<()> {
        self.run("ROLLBACK")
    }

    /// Whether the transaction is still open: a failing disk may have ended it.
    pub(crate) fn is_open(self) -> bool {
        !self.connection.is_autocommit()
    }

    /// How many rows were put down since the connection was made.
    pub(crate) fn rows_put(self) -> u64 {
        self.connection.total_changes()
    }

    /// What the open transaction may look up and put down.
    pub(crate) fn session(self) -> Session<'c> {
        Session {
            connection: self.connection,
            group: Some(self.group),
        }
    }

    fn run(self, sql: &str) -> Result<()> {
        let ran = self
            .connection
            .prepare_cached(sql)
            .and_then(|mut statement| statement.execute([]));
        ran.map(|_| ()).map_err(error::database)
    }
}

/// The outer error is the connection's, which is then not used again.
fn in_transaction<T>(connection: &Connection, look: impl FnOnce(Session<'_>) -> Result<T>) -> Result<Result<T>> {
    let session = Session::reading(connection);
    session.execute("BEGIN", [])?;
    let outcome = look(session);
    match (session.execute("COMMIT", []), outcome) {
        // A disk that fails has ended the transaction. Why is what the look met, and not that there is none.
        (Err(_), Err(failed)) => Err(failed),
        (ended, outcome) => ended.map(|_| outcome),
    }
}

/// A connection whose statements wait for what others have locked.
fn connect_reader(path: &Path) -> Result<Connection> {
    let mut connection = patiently(|| connect(path))?;
    let waiting = |tries: i32| wait(tries.unsigned_abs());
    connection.busy_handler(Some(waiting)).map_err(error::database)?;
    Ok(connection)
}

/// A connection that waits for nobody: that is left to whoever uses it.
fn connect(path: &Path) -> Result<Connection> {
    let connection = Connection::open(path);
    prepared(connection.map_err(error::database)?)
}

fn prepared(connection: Connection) -> Result<Connection> {
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    connection.busy_timeout(Duration::ZERO).map_err(error::database)?;
    // Otherwise a statement whose plan might depend on its values is prepared again each time it gets other ones, at many times the cost
    // of running it.
    connection
        .set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)
        .and_then(|_| leave_log(&connection))
        .map_err(error::database)?;
    for (pragma, value) in [("synchronous", "FULL"), ("temp_store", "MEMORY")] {
        connection.pragma_update(None, pragma, value).map_err(error::database)?;
    }
    connection
        .pragma_update(None, "cache_size", -CACHE_KIB)
        .map_err(error::database)?;
    Ok(connection)
}

/// Has the log stay as it is when the connection is closed.
pub(super) fn leave_log(connection: &Connection) -> rusqlite::Result<()> {
    let setting = DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
    connection.set_db_config(setting, true).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whether_commits_are_synced_can_be_changed_again_and_again() {
        let home = tempfile::tempdir().unwrap();
        let (_database, connection) = Database::open(&home.path().join("database"), Expected::Either).unwrap();
        connection.with(|writing| {
            for is_durable in [false, true, true, false, true, false, false, true] {
                writing.set_durable(is_durable).unwrap();
                let level = writing
                    .connection
                    .pragma_query_value(None, "synchronous", |row| row.get(0));
                assert_eq!(level, Ok(if is_durable { 2 } else { 1 }));
                writing.begin().unwrap();
                writing.end(Ok(())).unwrap();
            }
        });
    }
}
