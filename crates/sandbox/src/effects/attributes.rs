//! What overlayfs writes beside its files, as anybody may have forged it.
//!
//! A command cannot set these attributes: on an overlay, `user.overlay.*` is renamed on its way down. So one that means more than
//! "something was removed here" is not believed. A redirect is never followed: it could bring in what policy hides from commands. The
//! mounts of Garret make none, because `userxattr` turns redirects and metadata-only copies off.

use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{FileType, Stat, fgetxattr, lgetxattr_query};
use rustix::io::Errno;

use super::beneath::by_handle;

const OPAQUE: &str = "user.overlay.opaque";
const REDIRECT: &str = "user.overlay.redirect";
const WHITEOUT: &str = "user.overlay.whiteout";
const METACOPY: &str = "user.overlay.metacopy";
const ORIGIN: &str = "user.overlay.origin";

/// What the attributes of a directory say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct DirectoryMarks {
    /// Nothing of the directory below shows through.
    pub(super) is_opaque: bool,
    /// Empty files in it may be whiteouts by their attribute.
    pub(super) has_marked_whiteouts: bool,
    /// It claims to continue another directory.
    pub(super) is_redirected: bool,
}

impl DirectoryMarks {
    pub(super) fn of(directory: BorrowedFd<'_>) -> Result<Self, Errno> {
        let mut value = [0; 2];
        let opaque = match fgetxattr(directory, OPAQUE, &mut value[..]) {
            Ok(length) => Some(&value[..length]),
            // Longer than any value that means something.
            Err(Errno::RANGE) => None,
            Err(errno) if is_missing(errno) => None,
            Err(errno) => return Err(errno),
        };
        Ok(Self {
            is_opaque: opaque == Some(b"y"),
            has_marked_whiteouts: opaque == Some(b"x"),
            is_redirected: match fgetxattr(directory, REDIRECT, &mut value[..]) {
                Ok(_) | Err(Errno::RANGE) => true,
                Err(errno) if is_missing(errno) => false,
                Err(errno) => return Err(errno),
            },
        })
    }
}

/// Whether the entry says that what is below it is gone: a device of its own number, or an empty file with an attribute in a directory
/// that announces those.
pub(super) fn is_whiteout(
    directory: BorrowedFd<'_>,
    name: &[u8],
    stat: &Stat,
    marks: DirectoryMarks,
) -> Result<bool, Errno> {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::CharacterDevice => Ok(stat.st_rdev == 0),
        FileType::RegularFile if marks.has_marked_whiteouts && stat.st_size == 0 => has(directory, name, WHITEOUT),
        _ => Ok(false),
    }
}

/// Whether the file is only a copy of metadata, whose content lies elsewhere.
#[allow(clippy::unnecessary_cast, reason = "the fields have other types on other machines")]
pub(super) fn is_metadata_only(directory: BorrowedFd<'_>, name: &[u8], stat: &Stat) -> Result<bool, Errno> {
    // With all its blocks in place it has content of its own, whatever it claims.
    if stat.st_blocks as u64 * 512 >= stat.st_size as u64 {
        return Ok(false);
    }
    has(directory, name, METACOPY)
}

/// Whether the entry is known to be a copy of something that was below the layer, at its path or at one from which it was renamed.
pub(super) fn is_copied_up(directory: BorrowedFd<'_>, name: &[u8]) -> Result<bool, Errno> {
    match has(directory, name, ORIGIN) {
        // Its own bits keep it from being asked.
        Err(Errno::ACCESS) => Ok(false),
        is_copied => is_copied,
    }
}

fn has(directory: impl AsFd, name: &[u8], attribute: &str) -> Result<bool, Errno> {
    // By the handle of the directory; a link in the last place is not followed.
    let path = [by_handle(directory).as_bytes(), b"/", name].concat();
    match lgetxattr_query(path, attribute) {
        Ok(_) => Ok(true),
        Err(errno) if is_missing(errno) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// Whether there is no such attribute, or none at all on this file system.
fn is_missing(errno: Errno) -> bool {
    matches!(errno, Errno::NODATA | Errno::OPNOTSUPP)
}
