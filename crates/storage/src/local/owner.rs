//! The owners of new entries, for a Garret that runs as root in directories of other users.
//!
//! A file that is replaced keeps its owner and group; a new entry gets those of its directory, so that the owner of the
//! directory can go on working there. A user other than root cannot give files away, so the entries that Garret makes
//! then are that user's own.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, FileType, Gid, OFlags, Stat, Uid, chownat, fchown, fstat, openat};
use rustix::io::Errno;

use super::temporary_files;

/// A user and a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileOwner {
    user: u32,
    group: u32,
}

impl FileOwner {
    pub(super) fn from_stat(stat: &Stat) -> Self {
        Self {
            user: stat.st_uid,
            group: stat.st_gid,
        }
    }

    /// Returns the owner for a new file: that of the file it replaces, or else that of its directory.
    pub(super) fn for_new_file(replaced: Option<&Stat>, directory: Self) -> Option<Self> {
        // Tried for every user on a replaced file: one who is no root but a member of the file's group can at least
        // keep the group.
        replaced.map_or_else(|| directory.if_root_can_give(), |stat| Some(Self::from_stat(stat)))
    }

    /// Returns this owner if an entry of root's can be given to it: only root can give, and need not give to itself.
    pub(super) fn if_root_can_give(self) -> Option<Self> {
        let is_roots = self.user == 0 && self.group == 0;
        (!is_roots && rustix::process::geteuid().is_root()).then_some(self)
    }

    /// Gives a file that no other program can reach yet to this owner; returns whether that succeeded.
    pub(super) fn give_file(self, file: impl AsFd) -> bool {
        fchown(file, Some(Uid::from_raw(self.user)), Some(Gid::from_raw(self.group))).is_ok()
    }

    /// Gives a directory that was just made to this owner.
    pub(super) fn give_directory(self, directory: &OwnedFd) -> Result<(), Errno> {
        // The owner of the parent directory may have put another directory in its place, which must not be given away.
        let is_ours = fstat(directory)?.st_uid == 0 && temporary_files::is_empty(directory.as_fd())?;
        if is_ours {
            fchown(
                directory,
                Some(Uid::from_raw(self.user)),
                Some(Gid::from_raw(self.group)),
            )
        } else {
            Ok(())
        }
    }

    /// Gives a link that was just made to this owner, unless another entry is in its place by now.
    pub(super) fn give_link(self, parent: impl AsFd, name: &[u8]) -> Result<(), Errno> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let link = openat(parent, name, flags, rustix::fs::Mode::empty())?;
        let stat = fstat(&link)?;
        let is_ours =
            FileType::from_raw_mode(stat.st_mode) == FileType::Symlink && stat.st_uid == 0 && stat.st_nlink == 1;
        let owner = (Uid::from_raw(self.user), Gid::from_raw(self.group));
        if is_ours {
            chownat(&link, c"", Some(owner.0), Some(owner.1), AtFlags::EMPTY_PATH)
        } else {
            Ok(())
        }
    }
}
