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
pub(crate) enum Expected {
    /// A depot, or no database yet.
    Either,
    /// A depot: the other files of the home show that there was one.
    Depot,
}

/// Migrates the database to the version of this program. A database of a newer program is refused unchanged, and so is
/// an empty one if a depot is expected.
pub(crate) fn migrate(connection: &Connection, expected: Expected) -> Result<()> {
    // A database that is up to date is opened without the write lock.
    if version_of(connection)? == STEPS.len() {
        return check_owner(connection);
    }
    connection.execute_batch("BEGIN IMMEDIATE").map_err(error::database)?;
    let done = run_steps(connection, expected);
    let end = if done.is_ok() { "COMMIT" } else { "ROLLBACK" };
    let ended = connection.execute_batch(end).map_err(error::database);
    done.and(ended)
}

/// Runs the missing steps inside the transaction.
fn run_steps(connection: &Connection, expected: Expected) -> Result<()> {
    // Read again inside the transaction: if two programs open a new home together, one of them finds the steps done.
    let version = version_of(connection)?;
    if version == 0 && expected == Expected::Depot {
        return Err(error::lost_database());
    }
    if version > STEPS.len() {
        return Err(newer(version));
    }
    if version > 0 {
        check_owner(connection)?;
    }
    for step in &STEPS[version..] {
        connection.execute_batch(step).map_err(error::database)?;
    }
    set_pragma(connection, "application_id", APPLICATION)?;
    set_pragma(connection, "user_version", STEPS.len() as i64)
}

fn version_of(connection: &Connection) -> Result<usize> {
    let version = pragma(connection, "user_version")?;
    usize::try_from(version).map_err(|_| not_a_depot())
}

fn check_owner(connection: &Connection) -> Result<()> {
    match pragma(connection, "application_id")? {
        APPLICATION => Ok(()),
        _ => Err(not_a_depot()),
    }
}

fn pragma(connection: &Connection, name: &str) -> Result<i64> {
    connection
        .pragma_query_value(None, name, |row| row.get(0))
        .map_err(error::database)
}

fn set_pragma(connection: &Connection, name: &str, value: i64) -> Result<()> {
    connection.pragma_update(None, name, value).map_err(error::database)
}

fn newer(version: usize) -> Error {
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
        migrate(&connection, Expected::Either).unwrap();
        migrate(&connection, Expected::Either).unwrap();
        assert_eq!(version_of(&connection).unwrap(), STEPS.len());
        connection.execute_batch("SELECT * FROM entry").unwrap();
    }

    #[test]
    fn a_newer_database_is_refused_with_both_versions() {
        let connection = Connection::open_in_memory().unwrap();
        migrate(&connection, Expected::Either).unwrap();
        set_pragma(&connection, "user_version", 99).unwrap();
        let error = migrate(&connection, Expected::Either).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.message().contains("its schema is 99"), "{error}");
        assert_eq!(version_of(&connection).unwrap(), 99, "a refused database is left alone");
    }

    #[test]
    fn a_database_of_another_program_is_refused() {
        let connection = Connection::open_in_memory().unwrap();
        set_pragma(&connection, "user_version", 1).unwrap();
        assert_eq!(
            migrate(&connection, Expected::Either).unwrap_err().kind(),
            ErrorKind::Corrupt
        );
    }
}
