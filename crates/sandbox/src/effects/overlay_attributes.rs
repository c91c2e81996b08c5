//! Reads the attributes that overlayfs writes on its files, which may be forged.
//!
//! A command cannot set these attributes: on an overlay, `user.overlay.*` is renamed on its way down. So an attribute
//! that means more than "an entry was removed here" is not believed. A redirect is never followed: it could bring in
//! files that policy hides from commands. The mounts of Garret make none, because `userxattr` turns redirects and
//! metadata-only copies off.

use std::os::fd::{AsFd, BorrowedFd};

use garret_handles::path_of_handle;
use rustix::fs::{FileType, Stat, fgetxattr, lgetxattr_query};
use rustix::io::Errno;

const OPAQUE: &str = "user.overlay.opaque";
const REDIRECT: &str = "user.overlay.redirect";
const WHITEOUT: &str = "user.overlay.whiteout";
const METACOPY: &str = "user.overlay.metacopy";
const ORIGIN: &str = "user.overlay.origin";

/// The overlay attributes of a directory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct DirectoryMarks {
    /// The directory hides all entries of the one below.
    pub(super) is_opaque: bool,
    /// Empty files in the directory may be whiteouts by an attribute.
    pub(super) has_marked_whiteouts: bool,
    /// The directory claims to continue another one.
    pub(super) is_redirected: bool,
}

impl DirectoryMarks {
    pub(super) fn read_from(directory: BorrowedFd<'_>) -> Result<Self, Errno> {
        let mut value = [0; 2];
        let opaque = match fgetxattr(directory, OPAQUE, &mut value[..]) {
            Ok(length) => Some(&value[..length]),
            // The value is longer than any valid one.
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

/// Returns whether the entry is a whiteout, which removes the entry below it: a character device of number 0, or an
/// empty file with an attribute in a directory that announces such files.
pub(super) fn is_whiteout(
    directory: BorrowedFd<'_>,
    name: &[u8],
    stat: &Stat,
    marks: DirectoryMarks,
) -> Result<bool, Errno> {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::CharacterDevice => Ok(stat.st_rdev == 0),
        FileType::RegularFile if marks.has_marked_whiteouts && stat.st_size == 0 => {
            has_attribute(directory, name, WHITEOUT)
        }
        _ => Ok(false),
    }
}

/// Returns whether the file is only a copy of metadata, whose content is in the layer below.
#[allow(clippy::unnecessary_cast, reason = "the fields have other types on other machines")]
pub(super) fn is_metadata_only(directory: BorrowedFd<'_>, name: &[u8], stat: &Stat) -> Result<bool, Errno> {
    // A file with all of its blocks allocated has its own content, whatever its attribute claims.
    if stat.st_blocks as u64 * 512 >= stat.st_size as u64 {
        return Ok(false);
    }
    has_attribute(directory, name, METACOPY)
}

/// Returns whether the entry is known to be a copy of an entry below the layer, at the same path or at one from which
/// it was renamed.
pub(super) fn is_copied_up(directory: BorrowedFd<'_>, name: &[u8]) -> Result<bool, Errno> {
    match has_attribute(directory, name, ORIGIN) {
        // The permission bits of the entry do not let its attributes be read.
        Err(Errno::ACCESS) => Ok(false),
        is_copied => is_copied,
    }
}

fn has_attribute(directory: impl AsFd, name: &[u8], attribute: &str) -> Result<bool, Errno> {
    // Before Linux 6.13 no such call takes a directory handle and a name, so the path goes through the handle in
    // `/proc`. A link as the last name is not followed.
    let path = [path_of_handle(directory).as_bytes(), b"/", name].concat();
    match lgetxattr_query(path, attribute) {
        Ok(_) => Ok(true),
        Err(errno) if is_missing(errno) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// Returns whether the error means that there is no such attribute, or that the file system has none at all.
fn is_missing(errno: Errno) -> bool {
    matches!(errno, Errno::NODATA | Errno::OPNOTSUPP)
}
