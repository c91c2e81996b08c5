//! Turns an error number of the system into an error that names workspace paths only.

use garret_core::{EntryPath, Error, ErrorKind, Result};
use rustix::io::Errno;

/// Adds a workspace path to an error number.
pub(crate) trait ErrnoAtPath<T> {
    fn at_path(self, path: &[u8]) -> Result<T>;
}

impl<T> ErrnoAtPath<T> for std::result::Result<T, Errno> {
    fn at_path(self, path: &[u8]) -> Result<T> {
        self.map_err(|errno| error_from_errno(errno, path))
    }
}

fn error_from_errno(errno: Errno, path: &[u8]) -> Error {
    let (kind, why) = match errno {
        Errno::NOENT | Errno::NOTDIR | Errno::ISDIR | Errno::LOOP | Errno::XDEV | Errno::AGAIN | Errno::STALE => {
            (ErrorKind::Unavailable, "another program changed it at the same time")
        }
        Errno::MFILE | Errno::NFILE | Errno::NOMEM => {
            (ErrorKind::Unavailable, "the system is out of handles or memory")
        }
        Errno::NOSPC | Errno::DQUOT => (ErrorKind::QuotaExceeded, "no space is left on the disk"),
        Errno::ACCESS | Errno::PERM | Errno::ROFS => (ErrorKind::Denied, "permission denied"),
        Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL => {
            (ErrorKind::Unsupported, "the file system does not support it")
        }
        _ => (ErrorKind::Internal, "the system refused"),
    };
    let shown = EntryPath::from_bytes(path.to_vec()).display_path();
    if shown.is_empty() {
        // The files of a checkout, and all records beside them, lie in the home.
        let message = match kind {
            ErrorKind::QuotaExceeded => format!("No space left in the home ({errno})"),
            _ => format!("the directory for commands cannot be used: {why} ({errno})"),
        };
        return Error::new(kind, message).at_path_text("/");
    }
    let message = format!("{} cannot be used: {why} ({errno})", garret_core::path::quote(&shown));
    Error::new(kind, message).at_path_text(shown)
}

/// Returns the error for content that changed after it was seen.
pub(crate) fn changed_content_error(path: &[u8]) -> Error {
    let shown = EntryPath::from_bytes(path.to_vec()).display_path();
    let message = format!("{} changed after the command ended", garret_core::path::quote(&shown));
    Error::new(ErrorKind::Unavailable, message)
        .at_path_text(shown)
        .hint("nothing was changed; run the command again")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_names_the_home_or_the_file() {
        let of_home = error_from_errno(Errno::NOSPC, b"");
        assert_eq!(of_home.kind(), ErrorKind::QuotaExceeded);
        assert!(of_home.message().starts_with("No space left in the home"), "{of_home}");
        let of_file = error_from_errno(Errno::NOSPC, b"a/b");
        assert!(
            of_file.message().starts_with("`a/b` cannot be used: no space is left"),
            "{of_file}"
        );
    }
}
