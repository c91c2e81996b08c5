//! Maps the errors of SQLite, of the blob store and of the file system to errors of Garret. No message here shows a
//! path of the host.

use std::borrow::Borrow;

use garret_core::{Error, ErrorKind};

/// Maps an error of SQLite to a kind that tells the caller how to react.
pub(crate) fn from_database(error: rusqlite::Error) -> Error {
    use rusqlite::ErrorCode::{
        CannotOpen, DatabaseBusy, DatabaseCorrupt, DatabaseLocked, DiskFull, FileLockingProtocolFailed, NotADatabase,
        SystemIoFailure, TypeMismatch,
    };
    match error.sqlite_error_code() {
        // `FileLockingProtocolFailed` comes from a reader that found the log locked in a hundred attempts.
        Some(DatabaseBusy | DatabaseLocked | FileLockingProtocolFailed) => home_is_busy(),
        Some(DiskFull) => disk_full(),
        Some(SystemIoFailure) => disk_failure(FAILING),
        Some(CannotOpen) => cannot_open_database(),
        Some(DatabaseCorrupt | NotADatabase) => corrupt_database(),
        Some(TypeMismatch) => invalid_value("a column holds a number of the wrong type"),
        Some(_) if lacks_a_savepoint(&error) => disk_failure(FAILING),
        Some(_) if lacks_a_part(&error) => tables_missing(),
        Some(code) => Error::new(
            ErrorKind::Internal,
            format!("the database of the home reports {code:?}"),
        ),
        None => match describe_invalid_value(&error) {
            Some(what) => invalid_value(&what),
            None => Error::new(
                ErrorKind::Internal,
                "a statement does not match the database of the home",
            ),
        },
    }
}

const BUSY: &str = "the home is busy";
const FAILING: &str = "the disk of the home reports an error";

/// Returns the error for a lock that another process holds for too long.
pub(crate) fn home_is_busy() -> Error {
    Error::new(ErrorKind::Unavailable, BUSY)
}

/// Returns whether the error means that another process holds a lock, so that a retry may succeed.
pub(crate) fn is_busy(error: &Error) -> bool {
    error.kind() == ErrorKind::Unavailable && error.message() == BUSY
}

fn cannot_open_database() -> Error {
    // SQLite does not tell the reason. Missing permissions were excluded before the database was opened.
    Error::new(ErrorKind::Unavailable, "the database of the home cannot be opened")
        .hint("check that you can read and write `depot.db` in the home and that its disk works, then retry")
}

fn corrupt_database() -> Error {
    // SQLite has one code for a damaged page and for a page that the disk cannot read.
    let message = "the database of the home is damaged, or its disk cannot be read";
    Error::new(ErrorKind::Corrupt, message)
        .hint("check the disk of the home; if the disk works, restore the home from another copy")
}

/// Returns whether the error says that a savepoint does not exist. Each savepoint is ended once, so only a failing
/// disk, which ends the whole transaction, can have removed it.
fn lacks_a_savepoint(error: &rusqlite::Error) -> bool {
    matches!(error, rusqlite::Error::SqliteFailure(_, Some(msg)) if msg.starts_with("no such savepoint"))
}

/// Returns whether a statement refers to a table, a column or an index that is missing. The statements are fixed and
/// match the schema version that was checked when the database was opened, so the database is damaged.
fn lacks_a_part(error: &rusqlite::Error) -> bool {
    match error {
        rusqlite::Error::SqlInputError { msg, .. } | rusqlite::Error::SqliteFailure(_, Some(msg)) => {
            msg.starts_with("no such ") || msg.contains("has no column")
        }
        _ => false,
    }
}

fn tables_missing() -> Error {
    Error::new(ErrorKind::Corrupt, "tables are missing from the database of the home")
        .hint("restore the home from another copy")
}

/// Returns the error for a home that was in use and whose database is missing or empty.
pub(crate) fn lost_database() -> Error {
    Error::new(ErrorKind::Corrupt, "the database of this home is missing or empty")
        .hint("put `depot.db` back from another copy of the home, or choose another home")
}

/// Returns the error for a row with a value that Garret never writes.
fn invalid_value(what: &str) -> Error {
    Error::new(
        ErrorKind::Corrupt,
        format!("the database of the home is damaged: {what}"),
    )
    .hint("run `garret fsck`; restore the home from another copy")
}

/// Describes an invalid value of a row by its column and type, never by the value itself; `None` if the statement is at
/// fault.
fn describe_invalid_value(error: &rusqlite::Error) -> Option<String> {
    match error {
        rusqlite::Error::InvalidColumnType(_, column, found) => Some(format!("the column {column} holds {found}")),
        rusqlite::Error::FromSqlConversionFailure(column, found, _) => Some(format!("column {column} holds {found}")),
        rusqlite::Error::IntegralValueOutOfRange(column, _) => {
            Some(format!("column {column} holds a number that is out of range"))
        }
        rusqlite::Error::Utf8Error(..) => Some("a text is not UTF-8".to_owned()),
        rusqlite::Error::QueryReturnedNoRows => Some("a row is missing".to_owned()),
        _ => None,
    }
}

/// Maps an error of the blob store while content is written.
pub(crate) fn blob_not_written(error: object_store::Error) -> Error {
    if is_disk_full(&error) {
        disk_full()
    } else {
        disk_failure("the content of the home cannot be written")
    }
}

/// Maps an error of the blob store while content is read.
pub(crate) fn blob_not_read(error: object_store::Error) -> Error {
    blob_lost(matches!(error, object_store::Error::NotFound { .. }))
}

/// Maps an error of the file system while the file of a blob is read.
pub(crate) fn blob_file_not_read(error: &std::io::Error) -> Error {
    blob_lost(error.kind() == std::io::ErrorKind::NotFound)
}

const UNREADABLE: &str = "the content of the home cannot be read";

fn blob_lost(is_gone: bool) -> Error {
    if is_gone {
        damaged_content("the content is missing from the home")
    } else {
        disk_failure(UNREADABLE)
    }
}

/// Returns whether the error concerns one piece of content that cannot be read, and not the whole home.
pub(crate) fn is_content_unreadable(error: &Error) -> bool {
    error.kind() == ErrorKind::Unavailable && error.message() == UNREADABLE
}

/// Returns whether the disk fails or is full, as opposed to a refused request: the request may be valid, and a retry
/// may succeed.
pub fn is_disk_failure(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::QuotaExceeded)
}

/// Returns the error to report when a rollback failed with `error`. If the work before it failed because of the disk
/// (`met`), that error is more specific.
pub(crate) fn rollback_failed(met: Option<&Error>, error: Error) -> Error {
    met.filter(|met| is_disk_failure(met)).cloned().unwrap_or(error)
}

fn disk_full() -> Error {
    Error::new(ErrorKind::QuotaExceeded, "the disk of the home is full").hint(
        "nothing was changed; free some space on the disk of the home, then retry: remove other files, or run `garret gc`, \
             with `--grace 0s` if no other program uses the home",
    )
}

fn disk_failure(message: &str) -> Error {
    // A failed write may still have reached the disk, so the hint does not say that nothing was changed.
    Error::new(ErrorKind::Unavailable, message).hint("check the disk of the home, then retry")
}

/// Returns the error for stored content that is damaged or lost.
pub(crate) fn damaged_content(how: &str) -> Error {
    Error::new(ErrorKind::Corrupt, format!("stored content is damaged: {how}"))
        .hint("restore an older version of the file, or the home from another copy")
}

/// Returns the error for a lineage with a cycle, or with a parent that is not older than its branch.
pub(crate) fn circular_lineage() -> Error {
    Error::new(
        ErrorKind::Corrupt,
        "the lineage of a workspace is damaged: its parent is not an older workspace",
    )
    .hint("run `garret fsck` to see which workspace it is; restore the home from another copy")
}

/// Returns the error for a home directory that cannot be used.
pub fn home_not_usable(error: impl Borrow<std::io::Error>) -> Error {
    use std::io::ErrorKind::{AlreadyExists, NotADirectory, PermissionDenied, ReadOnlyFilesystem, StorageFull};
    match error.borrow().kind() {
        PermissionDenied | ReadOnlyFilesystem => {
            Error::new(ErrorKind::Denied, "the home cannot be written").hint("choose a home that you can write to")
        }
        StorageFull => disk_full(),
        // Creating directories recursively fails with `AlreadyExists` only if the existing entry is no directory.
        AlreadyExists | NotADirectory => Error::new(ErrorKind::NotADirectory, "the home is not a directory")
            .hint("choose a directory as the home, or a path that does not exist yet"),
        kind => Error::new(ErrorKind::Unavailable, format!("the home cannot be opened: {kind}"))
            .hint("check that the home is a directory on a working disk"),
    }
}

/// Returns the error for a home directory that cannot be used. If `owner` is known and access was denied, the message
/// tells `user` why.
pub(crate) fn home_not_usable_by(owner: Option<u32>, user: u32, error: &std::io::Error) -> Error {
    let refused = |why: &str| {
        let message = format!("this home cannot be read and written: {why}");
        Error::new(ErrorKind::Denied, message)
    };
    match (owner, error.kind()) {
        (Some(owner), std::io::ErrorKind::PermissionDenied) if owner == user => refused(
            "you own it, but its permissions do not allow access",
        )
        .hint("give yourself the right to read and write it with everything in it, or choose a home that you may use"),
        (Some(owner), std::io::ErrorKind::PermissionDenied) => {
            refused(&format!("it belongs to the user with the id {owner}"))
                .hint("choose a home of your own, or work as the user whose home it is")
        }
        _ => home_not_usable(error),
    }
}

/// Returns the error for a home that was removed while it was open; writes into its deleted files would be lost.
pub(crate) fn home_is_gone() -> Error {
    Error::new(ErrorKind::Unavailable, "the home was removed while it was open")
        .hint("put the home back from another copy, or open the workspace again to begin a new one")
}

fn is_disk_full(error: &object_store::Error) -> bool {
    // The blob store wraps the error of the file system, at a depth that depends on the operation.
    let mut cause: Option<&dyn std::error::Error> = Some(error);
    while let Some(error) = cause {
        if let Some(found) = error.downcast_ref::<std::io::Error>() {
            return found.kind() == std::io::ErrorKind::StorageFull;
        }
        cause = error.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_home_that_may_not_be_used_says_whose_it_is_unless_it_is_ones_own() {
        let denied = std::io::Error::from(std::io::ErrorKind::PermissionDenied);
        let others = home_not_usable_by(Some(7), 8, &denied);
        assert_eq!(
            others.message(),
            "this home cannot be read and written: it belongs to the user with the id 7"
        );
        let own = home_not_usable_by(Some(7), 7, &denied);
        assert_eq!(
            own.message(),
            "this home cannot be read and written: you own it, but its permissions do not allow access"
        );
        for error in [others, own] {
            assert_eq!(error.kind(), ErrorKind::Denied);
            let hint = error.hint_text();
            assert!(!hint.contains("--home") && !hint.contains("GARRET_HOME"), "{hint}");
        }
    }
}
