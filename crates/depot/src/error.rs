//! One mapping from what the layers below say to the errors of Garret. No message here shows a path of the host.

use garret_core::{Error, ErrorKind};

/// What the database says, by what the caller does next.
pub(crate) fn database(error: rusqlite::Error) -> Error {
    use rusqlite::ErrorCode::{
        CannotOpen, DatabaseBusy, DatabaseCorrupt, DatabaseLocked, DiskFull, FileLockingProtocolFailed, NotADatabase,
        SystemIoFailure, TypeMismatch,
    };
    match error.sqlite_error_code() {
        // The last is what a reader says who found the log in another's hands a hundred times.
        Some(DatabaseBusy | DatabaseLocked | FileLockingProtocolFailed) => busy(),
        Some(DiskFull) => disk_full(),
        Some(SystemIoFailure) => disk_fails(FAILING),
        Some(CannotOpen) => cannot_open_database(),
        Some(DatabaseCorrupt | NotADatabase) => corrupt_database(),
        Some(TypeMismatch) => misread_database("a column holds a number of the wrong type"),
        Some(_) if lacks_a_savepoint(&error) => disk_fails(FAILING),
        Some(_) if lacks_a_part(&error) => lacking_database(),
        Some(code) => Error::new(
            ErrorKind::Internal,
            format!("the database of the home reports {code:?}"),
        ),
        None => match misread(&error) {
            Some(what) => misread_database(&what),
            None => Error::new(
                ErrorKind::Internal,
                "a statement does not match the database of the home",
            ),
        },
    }
}

const BUSY: &str = "the home is busy";
const FAILING: &str = "the disk of the home reports an error";

/// Another process has what is needed, and keeps it.
pub(crate) fn busy() -> Error {
    Error::new(ErrorKind::Unavailable, BUSY)
}

/// Whether waiting helps.
pub(crate) fn is_busy(error: &Error) -> bool {
    error.kind() == ErrorKind::Unavailable && error.message() == BUSY
}

/// SQLite does not tell why; a home that may not be used is found out before it is asked.
fn cannot_open_database() -> Error {
    Error::new(ErrorKind::Unavailable, "the database of the home cannot be opened")
        .hint("check that you can read and write `depot.db` in the home and that its disk works, then retry")
}

/// SQLite has one word for a page that makes no sense and for one that the disk does not give.
fn corrupt_database() -> Error {
    let message = "the database of the home is damaged, or its disk cannot be read";
    Error::new(ErrorKind::Corrupt, message)
        .hint("check the disk of the home; if the disk works, restore the home from another copy")
}

/// Whether a savepoint is gone. Each is ended once, so what took it was a failing disk, and it took the transaction along.
fn lacks_a_savepoint(error: &rusqlite::Error) -> bool {
    matches!(error, rusqlite::Error::SqliteFailure(_, Some(msg)) if msg.starts_with("no such savepoint"))
}

/// Whether a statement names a table, a column or an index that is not there. The statements are fixed, and fit every database of the
/// version that was looked at when it was opened.
fn lacks_a_part(error: &rusqlite::Error) -> bool {
    match error {
        rusqlite::Error::SqlInputError { msg, .. } | rusqlite::Error::SqliteFailure(_, Some(msg)) => {
            msg.starts_with("no such ") || msg.contains("has no column")
        }
        _ => false,
    }
}

fn lacking_database() -> Error {
    Error::new(ErrorKind::Corrupt, "tables are missing from the database of the home")
        .hint("restore the home from another copy")
}

/// The home has been used, and its database is not there or is empty.
pub(crate) fn lost_database() -> Error {
    Error::new(ErrorKind::Corrupt, "the database of this home is missing or empty")
        .hint("put `depot.db` back from another copy of the home, or choose another home")
}

/// A row holds what nobody put there.
fn misread_database(what: &str) -> Error {
    Error::new(
        ErrorKind::Corrupt,
        format!("the database of the home is damaged: {what}"),
    )
    .hint("run `garret fsck`; restore the home from another copy")
}

/// What a row holds that it cannot hold, by columns and types, never values; `None` where it is the statement that is wrong.
fn misread(error: &rusqlite::Error) -> Option<String> {
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

/// What the blob store says when content cannot be put into it.
pub(crate) fn blob_not_written(error: object_store::Error) -> Error {
    match is_disk_full(&error) {
        true => disk_full(),
        false => disk_fails("the content of the home cannot be written"),
    }
}

/// What the blob store says when content cannot be taken from it.
pub(crate) fn blob_not_read(error: object_store::Error) -> Error {
    blob_lost(matches!(error, object_store::Error::NotFound { .. }))
}

/// The same of a blob that is a file.
pub(crate) fn blob_file_not_read(error: &std::io::Error) -> Error {
    blob_lost(error.kind() == std::io::ErrorKind::NotFound)
}

const UNREADABLE: &str = "the content of the home cannot be read";

fn blob_lost(is_gone: bool) -> Error {
    match is_gone {
        true => damaged("the content is missing from the home"),
        false => disk_fails(UNREADABLE),
    }
}

/// Whether it is one piece of content that cannot be read, and not the home.
pub(crate) fn is_unreadable(error: &Error) -> bool {
    error.kind() == ErrorKind::Unavailable && error.message() == UNREADABLE
}

/// Whether the disk fails or is full, and nothing is refused: what was asked may be right, and it may work when it is tried again.
pub(crate) fn is_failure(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::QuotaExceeded)
}

/// Why work could not be taken back, which says `error`. Where the work itself met the failing disk, what it met tells more.
pub(crate) fn not_taken_back(met: Option<&Error>, error: Error) -> Error {
    met.filter(|met| is_failure(met)).cloned().unwrap_or(error)
}

fn disk_full() -> Error {
    Error::new(ErrorKind::QuotaExceeded, "the disk of the home is full").hint(
        "nothing was changed; free some space on the disk of the home, then retry: remove other files, or run `garret gc`, \
             with `--grace 0s` if no other program uses the home",
    )
}

/// A write that failed may have happened all the same, so no word of that here.
fn disk_fails(message: &str) -> Error {
    Error::new(ErrorKind::Unavailable, message).hint("check the disk of the home, then retry")
}

/// A file that is made outside the depot cannot be written.
pub(crate) fn unwritten(error: &std::io::Error) -> Error {
    let (kind, message) = match error.kind() {
        std::io::ErrorKind::StorageFull => (ErrorKind::QuotaExceeded, "the disk of the export is full"),
        _ => (ErrorKind::Unavailable, "the export cannot be written"),
    };
    Error::new(kind, message).hint("free some space, or choose another place, then retry")
}

/// Stored content that is not what was stored.
pub(crate) fn damaged(how: &str) -> Error {
    Error::new(ErrorKind::Corrupt, format!("stored content is damaged: {how}"))
        .hint("restore an older version of the file, or the home from another copy")
}

/// A workspace that was branched off itself, over however many others, or off one that cannot have been there.
pub(crate) fn circular() -> Error {
    Error::new(
        ErrorKind::Corrupt,
        "the lineage of a workspace is damaged: its parent is not an older workspace",
    )
    .hint("run `garret fsck` to see which workspace it is; restore the home from another copy")
}

/// The folder of the depot cannot be used.
pub(crate) fn home(error: &std::io::Error) -> Error {
    use std::io::ErrorKind::{AlreadyExists, NotADirectory, PermissionDenied, ReadOnlyFilesystem, StorageFull};
    match error.kind() {
        PermissionDenied | ReadOnlyFilesystem => {
            Error::new(ErrorKind::Denied, "the home cannot be written").hint("choose a home that you can write to")
        }
        StorageFull => disk_full(),
        // What is in the way of a directory to be made is none.
        AlreadyExists | NotADirectory => Error::new(ErrorKind::NotADirectory, "the home is not a directory")
            .hint("choose a directory as the home, or a path that does not exist yet"),
        kind => Error::new(ErrorKind::Unavailable, format!("the home cannot be opened: {kind}"))
            .hint("check that the home is a directory on a working disk"),
    }
}

/// The same of a home that is there, and whose owner is known, to `user`.
pub(crate) fn home_of(owner: Option<u32>, user: u32, error: &std::io::Error) -> Error {
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
        _ => home(error),
    }
}

/// What is written now would go with the files that were taken away.
pub(crate) fn home_is_gone() -> Error {
    Error::new(ErrorKind::Unavailable, "the home was removed while it was open")
        .hint("put the home back from another copy, or open the workspace again to begin a new one")
}

fn is_disk_full(error: &object_store::Error) -> bool {
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
        let others = home_of(Some(7), 8, &denied);
        assert_eq!(
            others.message(),
            "this home cannot be read and written: it belongs to the user with the id 7"
        );
        let own = home_of(Some(7), 7, &denied);
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
