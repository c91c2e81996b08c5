//! Error codes of the system as errors of the contract: the one mapping of this storage.
//!
//! The rest of the storage fails with a [`AccessError`]; here the cause meets the workspace path and becomes an [`Error`]. A
//! host path cannot enter an error, because no function of this storage has one. A full disk is `quota_exceeded`,
//! because the caller's remedy is to remove files.

use garret_core::path::quote;
use garret_core::{Error, ErrorKind, WsPath};
use rustix::io::Errno;

/// The reason why an access failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AccessError {
    /// The path passes a symbolic link, and links are not followed here.
    Link,
    /// A fifo, socket or device, which is never opened.
    Special,
    /// The file changed during the access more often than was retried.
    Unsteady,
    /// Any other error code of the system.
    System(Errno),
}

impl From<Errno> for AccessError {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::LOOP => Self::Link,
            other => Self::System(other),
        }
    }
}

impl AccessError {
    /// Returns the error for the entry at `path`.
    pub(super) fn into_error(self, path: &WsPath) -> Error {
        match self {
            Self::Link => Error::path_escape(path),
            Self::Special => special_file_error(path),
            Self::Unsteady => Error::conflict(path, None).hint("another program is writing it; read it again"),
            Self::System(errno) => from_errno(errno, path),
        }
    }

    /// Returns whether the entry does not exist.
    pub(super) fn is_missing(self) -> bool {
        self == Self::System(Errno::NOENT)
    }
}

/// Returns the error for `errno` on the entry at `path`.
pub(super) fn from_errno(errno: Errno, path: &WsPath) -> Error {
    let shown = path.to_quoted();
    let of = |kind, message: String| Error::new(kind, message).at_path(path);
    match errno {
        Errno::NOENT => Error::not_found(path),
        Errno::EXIST => Error::already_exists(path),
        Errno::ISDIR => Error::is_a_directory(path),
        Errno::NOTDIR => Error::not_a_directory(path),
        Errno::NOTEMPTY => Error::not_empty(path),
        Errno::LOOP => Error::path_escape(path),
        Errno::ACCESS | Errno::PERM => of(
            ErrorKind::Denied,
            format!("the file permissions deny access to {shown}"),
        )
        .hint("change the mode or the owner of the file, or run Garret as a user with access"),
        Errno::ROFS => of(ErrorKind::Denied, format!("{shown} is on a read-only file system"))
            .hint("this workspace can only be read; write to another workspace"),
        Errno::NOSPC | Errno::DQUOT => of(
            ErrorKind::QuotaExceeded,
            format!("no space left on the disk for {shown}"),
        )
        .hint("remove files that are no longer needed, or give the workspace a larger disk"),
        Errno::FBIG => of(
            ErrorKind::TooLarge,
            format!("{shown} would be larger than its file system allows"),
        ),
        Errno::NAMETOOLONG => of(
            ErrorKind::Invalid,
            format!("{shown} is longer than its file system allows"),
        )
        .hint("use a shorter name"),
        Errno::INVAL | Errno::ILSEQ => of(
            ErrorKind::Invalid,
            format!("the file system does not accept the name {shown}"),
        )
        .hint("use another name"),
        Errno::XDEV => of(ErrorKind::Unsupported, format!("{shown} is on another file system"))
            .hint("copy it there, then remove the original"),
        Errno::OPNOTSUPP | Errno::NOSYS => of(
            ErrorKind::Unsupported,
            format!("the file system of {shown} does not support the operation"),
        ),
        Errno::BUSY | Errno::TXTBSY => of(ErrorKind::Unavailable, format!("{shown} is in use")),
        Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::AGAIN | Errno::INTR => of(
            ErrorKind::Unavailable,
            format!("the system has no memory or file handles left for {shown}"),
        ),
        Errno::IO | Errno::STALE => of(ErrorKind::Unavailable, format!("the disk reports an error for {shown}"))
            .hint("try again; if the error persists, check the disk"),
        other => of(
            ErrorKind::Internal,
            format!("the system reports {} for {shown}", other.raw_os_error()),
        ),
    }
}

fn special_file_error(path: &WsPath) -> Error {
    let message = format!(
        "{} is not a regular file, and only regular files can be opened",
        path.to_quoted()
    );
    Error::new(ErrorKind::Unsupported, message)
        .at_path(path)
        .hint("name a plain file; fifos, sockets and devices can only be listed")
}

/// Returns the error for a path that names a temporary file of the storage.
pub(super) fn reserved_name_error(path: &WsPath, prefix: &str) -> Error {
    let message = format!("{} uses the reserved prefix {}", path.to_quoted(), quote(prefix));
    Error::invalid(message).at_path(path).hint("use another name")
}

/// Returns the error for a directory lock that another program holds for too long.
pub(super) fn lock_held_error(path: &WsPath) -> Error {
    let message = format!(
        "another program holds the lock of the directory of {}",
        path.to_quoted()
    );
    Error::new(ErrorKind::Unavailable, message)
        .at_path(path)
        .hint("try again; if the error persists, end the program that holds the lock")
}

/// Returns the error for a path whose directories were moved at every attempt.
pub(super) fn path_keeps_changing_error(path: &WsPath) -> Error {
    let message = format!("other programs are moving the directories above {}", path.to_quoted());
    Error::new(ErrorKind::Unavailable, message).at_path(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(errno: Errno) -> ErrorKind {
        from_errno(errno, &WsPath::parse("a.txt").unwrap()).kind()
    }

    #[test]
    fn the_kind_says_what_to_do_next() {
        assert_eq!(kind(Errno::ACCESS), ErrorKind::Denied);
        assert_eq!(kind(Errno::ROFS), ErrorKind::Denied);
        assert_eq!(kind(Errno::NOSPC), ErrorKind::QuotaExceeded);
        assert_eq!(kind(Errno::NAMETOOLONG), ErrorKind::Invalid);
        assert_eq!(kind(Errno::MFILE), ErrorKind::Unavailable);
        assert_eq!(kind(Errno::XDEV), ErrorKind::Unsupported);
    }
}
