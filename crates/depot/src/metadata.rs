//! The metadata of the depot, which is everything but large content: workspaces, changes, entries, snapshots, small
//! content.
//!
//! Its only interface is [`MetadataSession`]: the queries and updates of one transaction, in the terms of the depot. No SQL
//! stands outside this module. The database is SQLite; another database would need another set of these methods. A
//! session for reading comes from [`MetadataDatabase::read`] and sees one unchanging state; the session for writing belongs to
//! the writer.

mod change_id;
mod changes;
mod checkpoint;
mod connection;
mod contents;
mod entries;
mod listed_paths;
mod merges;
mod outside_files;
mod repair;
mod retention;
mod retry;
mod rollback;
mod schema;
mod snapshots;
mod workspaces;

use garret_core::{Result, Timestamp};
use rusqlite::{Connection, Params, Row};

use crate::error;
use changes::ChangeTable;
use contents::ContentTable;
use entries::EntryTable;
use merges::MergeTable;
use outside_files::OutsideFileTable;
pub(crate) use outside_files::SeenEntry;
use repair::RepairQueries;
use retention::RetentionQueries;
use rollback::RollbackQueries;
use snapshots::SnapshotTable;
use workspaces::WorkspaceTable;

pub(crate) use change_id::encode_change_id;
pub use changes::ChangeRow;
pub(crate) use changes::UndoCandidates;
pub(crate) use connection::{MetadataDatabase, WriteConnection, WriteTransaction};
pub(crate) use contents::{ContentRow, PieceRow, StoredPiece};
pub use entries::EntryNode;
pub(crate) use entries::{EntryRow, LevelEntry, NearestEntry};
pub(crate) use listed_paths::ListedPaths;
pub(crate) use merges::MoveRow;
pub(crate) use retention::{EndedRow, JournalStart};
pub(crate) use retry::retry_while_busy;
pub(crate) use schema::ExpectedDatabase;
pub(crate) use snapshots::SnapshotRow;
pub(crate) use workspaces::{LineageLevel, WorkspaceRow, check_older};

/// The point after every change: an entry that is valid there is part of the newest state.
pub(crate) const HEAD: i64 = i64::MAX - 1;

/// One transaction's access to the metadata.
#[derive(Clone, Copy)]
pub(crate) struct MetadataSession<'c> {
    connection: &'c Connection,
}

impl<'c> MetadataSession<'c> {
    fn for_reading(connection: &'c Connection) -> Self {
        Self { connection }
    }

    pub(crate) fn entries(self) -> EntryTable<'c> {
        EntryTable { session: self }
    }

    pub(crate) fn changes(self) -> ChangeTable<'c> {
        ChangeTable { session: self }
    }

    pub(crate) fn contents(self) -> ContentTable<'c> {
        ContentTable { session: self }
    }

    pub(crate) fn snapshots(self) -> SnapshotTable<'c> {
        SnapshotTable { session: self }
    }

    pub(crate) fn merges(self) -> MergeTable<'c> {
        MergeTable { session: self }
    }

    pub(crate) fn outside_files(self) -> OutsideFileTable<'c> {
        OutsideFileTable { session: self }
    }

    pub(crate) fn workspaces(self) -> WorkspaceTable<'c> {
        WorkspaceTable { session: self }
    }

    pub(crate) fn retention(self) -> RetentionQueries<'c> {
        RetentionQueries { session: self }
    }

    pub(crate) fn repair(self) -> RepairQueries<'c> {
        RepairQueries { session: self }
    }

    pub(crate) fn rollback(self) -> RollbackQueries<'c> {
        RollbackQueries { session: self }
    }

    /// Runs the integrity check of the database; returns its complaints, none if the file is sound.
    pub(crate) fn integrity_problems(self) -> Result<Vec<String>> {
        let lines = self.query_all("PRAGMA integrity_check", [], |row| row.get::<_, String>(0))?;
        Ok(lines.into_iter().filter(|line| line != "ok").collect())
    }

    /// Runs `work` under a savepoint. If it fails, its writes are rolled back, and the transaction continues.
    pub(crate) fn with_savepoint<T>(self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        self.execute("SAVEPOINT attempt", [])?;
        let done = work();
        if let Err(failed) = &done {
            let taken_back = self.execute("ROLLBACK TO attempt", []);
            taken_back.map_err(|error| error::rollback_failed(Some(failed), error))?;
        }
        self.execute("RELEASE attempt", [])?;
        done
    }

    /// Runs `work` under a savepoint, returns its result, and takes back its writes in any case.
    pub(crate) fn with_draft<T>(self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        self.execute("SAVEPOINT draft", [])?;
        let done = work();
        let taken_back = self
            .execute("ROLLBACK TO draft", [])
            .and_then(|_| self.execute("RELEASE draft", []));
        taken_back.map_err(|error| error::rollback_failed(done.as_ref().err(), error))?;
        done
    }

    /// Ends the transaction as SQLite does when the disk fails in the middle of a statement.
    #[cfg(test)]
    pub(crate) fn end_as_a_failing_disk_does(self) {
        self.execute("ROLLBACK", []).expect("a transaction is open");
    }

    fn execute(self, sql: &str, params: impl Params) -> Result<usize> {
        let mut statement = self.connection.prepare_cached(sql).map_err(error::from_database)?;
        statement.execute(params).map_err(error::from_database)
    }

    fn query_first<T>(
        self,
        sql: &str,
        params: impl Params,
        map: fn(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Option<T>> {
        let mut statement = self.connection.prepare_cached(sql).map_err(error::from_database)?;
        let mut rows = statement.query(params).map_err(error::from_database)?;
        let row = rows.next().map_err(error::from_database)?;
        row.map(map).transpose().map_err(error::from_database)
    }

    fn query_all<T>(self, sql: &str, params: impl Params, map: fn(&Row<'_>) -> rusqlite::Result<T>) -> Result<Vec<T>> {
        let mut statement = self.connection.prepare_cached(sql).map_err(error::from_database)?;
        let rows = statement.query_map(params, map).map_err(error::from_database)?;
        rows.collect::<rusqlite::Result<_>>().map_err(error::from_database)
    }
}

/// Converts a time to the unit of the database: microseconds since 1970.
pub(crate) fn stored_time(time: Timestamp) -> i64 {
    time.as_microsecond()
}

/// Converts a time from the unit of the database.
pub(crate) fn time_of(stored: i64) -> Timestamp {
    Timestamp::from_microsecond(stored).unwrap_or(Timestamp::UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use garret_core::{Error, ErrorKind};

    use super::*;

    #[test]
    fn what_a_failing_disk_ends_is_told_as_what_it_met() {
        let home = tempfile::tempdir().unwrap();
        let (database, connection) =
            MetadataDatabase::open(&home.path().join("database"), ExpectedDatabase::DepotOrNothing).unwrap();
        let look = |session: MetadataSession<'_>| {
            session.end_as_a_failing_disk_does();
            Err::<(), _>(Error::new(ErrorKind::Unavailable, "the disk fails"))
        };
        assert_eq!(database.read(look).unwrap_err().message(), "the disk fails");
        assert!(
            database
                .read(|session| session.workspaces().list_workspaces())
                .unwrap()
                .is_empty(),
            "others go on"
        );
        connection.with_connection(|writing| {
            writing.begin().unwrap();
            let session = writing.session();
            let failed = session.with_savepoint(|| look(session));
            assert_eq!(failed.unwrap_err().message(), "the disk fails");
        });
    }
}
