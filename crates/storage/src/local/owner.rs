//! Whose new entries are, where Garret is root and the directory is somebody else's.
//!
//! A file that is replaced keeps its owner and group; a new entry gets those of the directory that it comes to be in, so that its owner
//! can go on working there. Anybody but root cannot give files away, and what they make is simply theirs.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, FileType, Gid, OFlags, Stat, Uid, chownat, fchown, fstat, openat};
use rustix::io::Errno;

use super::temp;

/// A user and a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Owner {
    user: u32,
    group: u32,
}

impl Owner {
    pub(super) fn of(stat: &Stat) -> Self {
        Self {
            user: stat.st_uid,
            group: stat.st_gid,
        }
    }

    /// Whose a new file is to be: whose the one is that it replaces, or else whose the directory is. Of a file that is replaced, a member of
    /// its group may keep at least that.
    pub(super) fn wanted(replaced: Option<&Stat>, directory: Self) -> Option<Self> {
        replaced.map_or_else(|| directory.to_give(), |stat| Some(Self::of(stat)))
    }

    /// This one, where it can be given to what root made and is not root's own already.
    pub(super) fn to_give(self) -> Option<Self> {
        let is_roots = self.user == 0 && self.group == 0;
        (!is_roots && rustix::process::geteuid().is_root()).then_some(self)
    }

    /// Gives a file that nobody else can reach yet; tells whether it changed hands.
    pub(super) fn take(self, file: impl AsFd) -> bool {
        fchown(file, Some(Uid::from_raw(self.user)), Some(Gid::from_raw(self.group))).is_ok()
    }

    /// Gives a directory that was just made. Whoever owns the directory above may have put another in its place, which is not ours to give.
    pub(super) fn take_directory(self, directory: &OwnedFd) -> Result<(), Errno> {
        let is_ours = fstat(directory)?.st_uid == 0 && temp::is_empty(directory.as_fd())?;
        match is_ours {
            true => fchown(
                directory,
                Some(Uid::from_raw(self.user)),
                Some(Gid::from_raw(self.group)),
            ),
            false => Ok(()),
        }
    }

    /// Gives a link that was just made, unless something else is in its place by now.
    pub(super) fn take_link(self, parent: impl AsFd, name: &[u8]) -> Result<(), Errno> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let link = openat(parent, name, flags, rustix::fs::Mode::empty())?;
        let stat = fstat(&link)?;
        let is_ours =
            FileType::from_raw_mode(stat.st_mode) == FileType::Symlink && stat.st_uid == 0 && stat.st_nlink == 1;
        let owner = (Uid::from_raw(self.user), Gid::from_raw(self.group));
        match is_ours {
            true => chownat(&link, c"", Some(owner.0), Some(owner.1), AtFlags::EMPTY_PATH),
            false => Ok(()),
        }
    }
}
