//! What the system refuses, as an error that names workspace paths only.

use garret_core::{EntryPath, Error, ErrorKind, Result};
use rustix::io::Errno;

/// Adds the path that was worked on.
pub(crate) trait At<T> {
    fn at(self, path: &[u8]) -> Result<T>;
}

impl<T> At<T> for std::result::Result<T, Errno> {
    fn at(self, path: &[u8]) -> Result<T> {
        self.map_err(|errno| refused(errno, path))
    }
}

fn refused(errno: Errno, path: &[u8]) -> Error {
    let (kind, why) = match errno {
        Errno::NOENT | Errno::NOTDIR | Errno::ISDIR | Errno::LOOP | Errno::XDEV | Errno::AGAIN | Errno::STALE => {
            (ErrorKind::Unavailable, "it changed while it was worked on")
        }
        Errno::MFILE | Errno::NFILE | Errno::NOMEM => {
            (ErrorKind::Unavailable, "the system is out of handles or memory")
        }
        Errno::NOSPC | Errno::DQUOT => (ErrorKind::QuotaExceeded, "the disk is full"),
        Errno::ACCESS | Errno::PERM | Errno::ROFS => (ErrorKind::Denied, "the system does not permit it"),
        Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL => (ErrorKind::Unsupported, "the file system cannot do it"),
        _ => (ErrorKind::Internal, "the system refused"),
    };
    let shown = EntryPath::from_bytes(path.to_vec()).shown();
    let named = if shown.is_empty() { "/" } else { &shown };
    let message = format!("{} in the bench: {why} ({errno})", garret_core::path::quote(named));
    Error::new(kind, message).at_text(named)
}

/// The error for content that is no longer what it was when it was looked at.
pub(crate) fn moved(path: &[u8]) -> Error {
    let shown = EntryPath::from_bytes(path.to_vec()).shown();
    let message = format!(
        "{} is no longer what the command left",
        garret_core::path::quote(&shown)
    );
    Error::new(ErrorKind::Unavailable, message)
        .at_text(shown)
        .hint("nothing was changed; run the command again")
}
