//! The schema, and the migration of a database of an older version.
//!
//! The version is SQLite's `user_version`, changed in the same transaction as the tables. A step, once released, is
//! never edited: a change of the schema is a new step at the end.

use garret_core::{Error, ErrorKind, Result};
use rusqlite::Connection;

use crate::error;

/// The application id that marks the file as a depot (`GRRT`), so that the database of another program is not taken for
/// one.
const APPLICATION: i64 = 0x4752_5254;

/// The migration steps. Each takes a database from the version that is its index to the next version.
const STEPS: [&str; 1] = [include_str!("schema/1.sql")];

/// The expected state of a database file, judged by the other files of the home.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExpectedDatabase {
    /// A depot, or no database yet.
    DepotOrNothing,
    /// A depot: the other files of the home show that there was one.
    Depot,
}

/// Migrates the database to the version of this program. A database of a newer program is refused unchanged, and so is
/// an empty one if a depot is expected.
pub(crate) fn migrate_schema(connection: &Connection, expected: ExpectedDatabase) -> Result<()> {
    // A database that is up to date is opened without the write lock.
    if schema_version(connection)? == STEPS.len() {
        return check_application_id(connection);
    }
    connection
        .execute_batch("BEGIN IMMEDIATE")
        .map_err(error::from_database)?;
    let done = run_steps(connection, expected);
    let end = if done.is_ok() { "COMMIT" } else { "ROLLBACK" };
    let ended = connection.execute_batch(end).map_err(error::from_database);
    done.and(ended)
}

/// Runs the missing steps inside the transaction.
fn run_steps(connection: &Connection, expected: ExpectedDatabase) -> Result<()> {
    // Read again inside the transaction: if two programs open a new home together, one of them finds the steps done.
    let version = schema_version(connection)?;
    if version == 0 && expected == ExpectedDatabase::Depot {
        return Err(error::lost_database());
    }
    if version > STEPS.len() {
        return Err(newer_schema_error(version));
    }
    if version > 0 {
        check_application_id(connection)?;
    }
    for step in &STEPS[version..] {
        connection.execute_batch(step).map_err(error::from_database)?;
    }
    set_pragma(connection, "application_id", APPLICATION)?;
    set_pragma(connection, "user_version", STEPS.len() as i64)
}

fn schema_version(connection: &Connection) -> Result<usize> {
    let version = read_pragma(connection, "user_version")?;
    usize::try_from(version).map_err(|_| not_a_depot())
}

fn check_application_id(connection: &Connection) -> Result<()> {
    match read_pragma(connection, "application_id")? {
        APPLICATION => Ok(()),
        _ => Err(not_a_depot()),
    }
}

fn read_pragma(connection: &Connection, name: &str) -> Result<i64> {
    connection
        .pragma_query_value(None, name, |row| row.get(0))
        .map_err(error::from_database)
}

fn set_pragma(connection: &Connection, name: &str, value: i64) -> Result<()> {
    connection
        .pragma_update(None, name, value)
        .map_err(error::from_database)
}

fn newer_schema_error(version: usize) -> Error {
    let message = format!(
        "this home was written by a newer Garret: its schema is {version}, this program knows {}",
        STEPS.len()
    );
    Error::new(ErrorKind::Unsupported, message).hint("use the newer Garret, or another home")
}

fn not_a_depot() -> Error {
    Error::new(ErrorKind::Corrupt, "the database in this home is not a depot of Garret").hint("choose another home")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fresh_database_gets_the_tables_and_a_second_opening_changes_nothing() {
        let connection = Connection::open_in_memory().unwrap();
        migrate_schema(&connection, ExpectedDatabase::DepotOrNothing).unwrap();
        migrate_schema(&connection, ExpectedDatabase::DepotOrNothing).unwrap();
        assert_eq!(schema_version(&connection).unwrap(), STEPS.len());
        connection.execute_batch("SELECT * FROM entry").unwrap();
    }

    #[test]
    fn a_newer_database_is_refused_with_both_versions() {
        let connection = Connection::open_in_memory().unwrap();
        migrate_schema(&connection, ExpectedDatabase::DepotOrNothing).unwrap();
        set_pragma(&connection, "user_version", 99).unwrap();
        let error = migrate_schema(&connection, ExpectedDatabase::DepotOrNothing).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.message().contains("its schema is 99"), "{error}");
        assert_eq!(
            schema_version(&connection).unwrap(),
            99,
            "a refused database is left alone"
        );
    }

    #[test]
    fn a_database_of_another_program_is_refused() {
        let connection = Connection::open_in_memory().unwrap();
        set_pragma(&connection, "user_version", 1).unwrap();
        assert_eq!(
            migrate_schema(&connection, ExpectedDatabase::DepotOrNothing)
                .unwrap_err()
                .kind(),
            ErrorKind::Corrupt
        );
    }
}
