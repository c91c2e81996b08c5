//! The connections to the database: one that writes, and a pool of readers that never wait for it.
//!
//! When the last connection is closed, a short log stays in place, as after a crash: the next process that opens the
//! database reads it.
//!
//! In memory there is one connection behind a lock, since a private memory database of SQLite allows no second one. A
//! reader then waits for a group commit, which is short without a disk.

#![allow(clippy::disallowed_methods, reason = "the size of the database's own log")]

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use garret_core::Result;
use rusqlite::Connection;
use rusqlite::config::DbConfig;

use super::MetadataSession;
use super::checkpoint::LogCheckpoints;
use super::retry::{retry_while_busy, wait_for_retry};
use super::schema::{self, ExpectedDatabase};
use crate::error;

/// The number of prepared statements that a connection caches.
const STATEMENTS: usize = 64;
/// The maximum number of bytes of the log that stay in place when the writer is closed. Moving them would cost every
/// short-lived program three syncs; leaving them costs the next process that opens the database a read.
const LEFT_LOG_BYTES: u64 = 256 * 1024;
/// The page cache of a connection, in KiB. Not larger: after a page was split, SQLite scans the whole cache at the
/// commit.
const CACHE_KIB: i64 = 8 * 1024;
/// The maximum number of idle readers that stay open.
const IDLE_READERS: usize = 16;

/// The database of the metadata, in a file or in memory.
#[derive(Debug)]
pub(crate) enum MetadataDatabase {
    File {
        path: PathBuf,
        idle: Mutex<Vec<Connection>>,
    },
    Memory(Arc<Mutex<Connection>>),
}

/// The connection that the writer owns.
pub(crate) struct WriteConnection {
    used: WriterHandle,
    /// Whether commits are synced now, if that is known. Kept here because SQLite prepares the pragma that sets it
    /// again each time, which takes a good part of the time of a small change.
    is_durable: Cell<Option<bool>>,
}

enum WriterHandle {
    Own(Connection),
    Shared(Arc<Mutex<Connection>>),
}

impl WriteConnection {
    fn new(used: WriterHandle) -> Self {
        Self {
            used,
            is_durable: Cell::new(None),
        }
    }
}

impl MetadataDatabase {
    /// Opens the database in the file `path` and migrates it, or creates it if `expected` allows that.
    pub(crate) fn open(path: &Path, expected: ExpectedDatabase) -> Result<(Self, WriteConnection)> {
        // All of it is retried together: of two processes that create the same database, SQLite fails one in the
        // middle, however long it would wait, since the other may be waiting for it.
        let mut connection = retry_while_busy(|| {
            let connection = open_connection(path)?;
            connection
                .pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))
                .map_err(error::from_database)?;
            schema::migrate_schema(&connection, expected)?;
            Ok(connection)
        })?;
        LogCheckpoints::install_on(&mut connection, path)?;
        let path = path.to_owned();
        let idle = Mutex::new(Vec::new());
        let used = WriterHandle::Own(connection);
        Ok((Self::File { path, idle }, WriteConnection::new(used)))
    }

    /// Creates an empty database that lives as long as this value.
    pub(crate) fn in_memory() -> Result<(Self, WriteConnection)> {
        let connection = configure_connection(Connection::open_in_memory().map_err(error::from_database)?)?;
        schema::migrate_schema(&connection, ExpectedDatabase::DepotOrNothing)?;
        let shared = Arc::new(Mutex::new(connection));
        let used = WriterHandle::Shared(shared.clone());
        Ok((Self::Memory(shared), WriteConnection::new(used)))
    }

    /// Returns whether the metadata outlives the process.
    pub(crate) fn is_durable(&self) -> bool {
        matches!(self, Self::File { .. })
    }

    /// Empties the log, so that it no longer holds data that was removed from the database. While others use the log,
    /// it is emptied only as far as they allow.
    pub(crate) fn empty_log(&self) -> Result<()> {
        match self {
            Self::Memory(_) => Ok(()),
            Self::File { .. } => self.with_reader(|connection| empty_log(connection).map(Ok)),
        }
    }

    /// Runs `look` on one unchanging state of the metadata.
    pub(crate) fn read<T>(&self, look: impl FnOnce(MetadataSession<'_>) -> Result<T>) -> Result<T> {
        self.with_reader(|connection| match self {
            Self::Memory(_) => Ok(look(MetadataSession::for_reading(connection))),
            Self::File { .. } => read_in_transaction(connection, look),
        })
    }

    /// Runs `look` without a transaction around it; it must be a single statement.
    pub(crate) fn read_once<T>(&self, look: impl FnOnce(MetadataSession<'_>) -> Result<T>) -> Result<T> {
        self.with_reader(|connection| look(MetadataSession::for_reading(connection)).map(Ok))
    }

    /// Runs `look` with a connection of the pool. The outer error of `look` is a failure of the connection, which is
    /// then closed.
    fn with_reader<T>(&self, look: impl FnOnce(&Connection) -> Result<Result<T>>) -> Result<T> {
        match self {
            Self::Memory(shared) => look(&shared.lock().expect("no holder panics"))?,
            Self::File { path, idle } => {
                // The pool is not locked while `look` runs, so that readers do not wait for each other.
                let kept = idle.lock().expect("no holder panics").pop();
                let connection = kept.map_or_else(|| open_reader(path), Ok)?;
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
    /// Runs `work` with the connection. In memory, readers wait meanwhile.
    pub(crate) fn with_connection<T>(&self, work: impl FnOnce(WriteTransaction<'_>) -> T) -> T {
        let writing = |connection| WriteTransaction {
            connection,
            is_durable: &self.is_durable,
        };
        match &self.used {
            WriterHandle::Own(connection) => work(writing(connection)),
            WriterHandle::Shared(shared) => work(writing(&shared.lock().expect("no holder panics"))),
        }
    }
}

impl Drop for WriteConnection {
    fn drop(&mut self) {
        let WriterHandle::Own(connection) = &mut self.used else {
            return;
        };
        // Waits for a checkpoint that is under way: it would keep the log from being emptied.
        let _ = LogCheckpoints::remove_from(connection);
        if log_bytes(connection) > LEFT_LOG_BYTES {
            // On failure, the data in the log stays as safe there.
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
        .map_err(error::from_database)
}

/// The operations on a transaction that writes.
#[derive(Clone, Copy)]
pub(crate) struct WriteTransaction<'c> {
    connection: &'c Connection,
    is_durable: &'c Cell<Option<bool>>,
}

impl<'c> WriteTransaction<'c> {
    /// Sets whether the next commit is synced. Must be called between transactions.
    pub(crate) fn set_durable(self, is_durable: bool) -> Result<()> {
        if self.is_durable.get() == Some(is_durable) {
            return Ok(());
        }
        let level = if is_durable {
            "PRAGMA synchronous = FULL"
        } else {
            "PRAGMA synchronous = NORMAL"
        };
        // Unknown while the statement runs: if it fails, the next call must not trust the old value.
        self.is_durable.set(None);
        self.run_statement(level)?;
        self.is_durable.set(Some(is_durable));
        Ok(())
    }

    /// Begins a transaction as the only writer; the error is `busy` if another process writes.
    pub(crate) fn begin(self) -> Result<()> {
        self.run_statement("BEGIN IMMEDIATE")
    }

    /// Begins a savepoint, so that one job can be rolled back alone.
    pub(crate) fn begin_job(self) -> Result<()> {
        self.run_statement("SAVEPOINT job")
    }

    /// Ends the savepoint: keeps the writes of the job, or rolls them back.
    pub(crate) fn end_job(self, is_kept: bool) -> Result<()> {
        if !is_kept {
            self.run_statement("ROLLBACK TO job")?;
        }
        self.run_statement("RELEASE job")
    }

    /// Commits the transaction if `outcome` is `Ok`. If it is not, or if the commit fails, the transaction is rolled
    /// back.
    pub(crate) fn commit_or_roll_back(self, outcome: Result<()>) -> Result<()> {
        let ended = outcome.and_then(|()| self.run_statement("COMMIT"));
        // SQLite may have ended the transaction itself when the disk failed; another rollback would hide the reason.
        if ended.is_err() && self.is_open() {
            self.run_statement("ROLLBACK")?;
        }
        ended
    }

    /// Rolls the transaction back.
    pub(crate) fn roll_back(self) -> Result<()> {
        self.run_statement("ROLLBACK")
    }

    /// Returns whether the transaction is still open; a failing disk may have ended it.
    pub(crate) fn is_open(self) -> bool {
        !self.connection.is_autocommit()
    }

    /// Returns the number of rows that were changed since the connection was opened.
    pub(crate) fn changed_rows(self) -> u64 {
        self.connection.total_changes()
    }

    /// Returns a session of the open transaction.
    pub(crate) fn session(self) -> MetadataSession<'c> {
        MetadataSession {
            connection: self.connection,
        }
    }

    fn run_statement(self, sql: &str) -> Result<()> {
        let ran = self
            .connection
            .prepare_cached(sql)
            .and_then(|mut statement| statement.execute([]));
        ran.map(|_| ()).map_err(error::from_database)
    }
}

/// Runs `look` in a read transaction. The outer error is a failure of the connection, which is then closed.
fn read_in_transaction<T>(
    connection: &Connection,
    look: impl FnOnce(MetadataSession<'_>) -> Result<T>,
) -> Result<Result<T>> {
    let session = MetadataSession::for_reading(connection);
    session.execute("BEGIN", [])?;
    let outcome = look(session);
    match (session.execute("COMMIT", []), outcome) {
        // A failing disk has ended the transaction. The error of `look` tells the reason; that of the commit only that
        // there is none.
        (Err(_), Err(failed)) => Err(failed),
        (ended, outcome) => ended.map(|_| outcome),
    }
}

/// Opens a connection whose statements wait for locks of others.
fn open_reader(path: &Path) -> Result<Connection> {
    let mut connection = retry_while_busy(|| open_connection(path))?;
    let waiting = |tries: i32| wait_for_retry(tries.unsigned_abs());
    connection.busy_handler(Some(waiting)).map_err(error::from_database)?;
    Ok(connection)
}

/// Opens a connection that does not wait for locks; its callers retry instead.
fn open_connection(path: &Path) -> Result<Connection> {
    let connection = Connection::open(path);
    configure_connection(connection.map_err(error::from_database)?)
}

fn configure_connection(connection: Connection) -> Result<Connection> {
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    // Waiting is left to the callers: their pauses differ between processes, so that each gets its turn.
    connection.busy_timeout(Duration::ZERO).map_err(error::from_database)?;
    // Without this, SQLite prepares a statement whose plan might depend on its parameters again for each new value, at
    // many times the cost of running it.
    connection
        .set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)
        .and_then(|_| keep_log_on_close(&connection))
        .map_err(error::from_database)?;
    for (pragma, value) in [("synchronous", "FULL"), ("temp_store", "MEMORY")] {
        connection
            .pragma_update(None, pragma, value)
            .map_err(error::from_database)?;
    }
    connection
        .pragma_update(None, "cache_size", -CACHE_KIB)
        .map_err(error::from_database)?;
    Ok(connection)
}

/// Makes the log stay in place when the connection is closed.
pub(super) fn keep_log_on_close(connection: &Connection) -> rusqlite::Result<()> {
    let setting = DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
    connection.set_db_config(setting, true).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whether_commits_are_synced_can_be_changed_again_and_again() {
        let home = tempfile::tempdir().unwrap();
        let (_database, connection) =
            MetadataDatabase::open(&home.path().join("database"), ExpectedDatabase::DepotOrNothing).unwrap();
        connection.with_connection(|writing| {
            for is_durable in [false, true, true, false, true, false, false, true] {
                writing.set_durable(is_durable).unwrap();
                let level = writing
                    .connection
                    .pragma_query_value(None, "synchronous", |row| row.get(0));
                assert_eq!(level, Ok(if is_durable { 2 } else { 1 }));
                writing.begin().unwrap();
                writing.commit_or_roll_back(Ok(())).unwrap();
            }
        });
    }
}
