//! Maps the errors of files outside the depot.

use garret_core::{Error, ErrorKind};

/// Returns the error for an export that cannot be written.
pub(crate) fn export_not_written(error: &std::io::Error) -> Error {
    let (kind, message) = match error.kind() {
        std::io::ErrorKind::StorageFull => (ErrorKind::QuotaExceeded, "the disk of the export is full"),
        _ => (ErrorKind::Unavailable, "the export cannot be written"),
    };
    Error::new(kind, message).hint("free some space, or choose another place, then retry")
}

/// Returns the error for a thread that cannot be started; `purpose` completes "the system gives no thread to …".
pub(crate) fn no_thread_error(purpose: &str) -> Error {
    Error::new(
        ErrorKind::Unavailable,
        format!("the system gives no thread to {purpose}"),
    )
    .hint("end other programs, or raise the limit on processes and threads")
}
