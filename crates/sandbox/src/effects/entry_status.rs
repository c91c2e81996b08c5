//! The status of an entry when it was seen, and a fingerprint to tell later whether the entry has changed.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::fd::AsFd;

use garret_core::Timestamp;
use garret_core::time::is_young_file;
use garret_handles::stat_entry;
use rustix::fs::{FileType, Stat};
use rustix::io::Errno;

/// The status of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct EntryStatus {
    pub(crate) inode: u64,
    pub(crate) size: u64,
    /// The type and the permission bits.
    pub(crate) mode: u32,
    pub(crate) modified: (i64, u32),
    pub(crate) changed: (i64, u32),
}

impl EntryStatus {
    #[allow(clippy::unnecessary_cast, reason = "the fields have other types on other machines")]
    pub(crate) fn from_stat(stat: &Stat) -> Self {
        Self {
            inode: stat.st_ino as u64,
            size: stat.st_size as u64,
            mode: stat.st_mode as u32,
            modified: (stat.st_mtime as i64, stat.st_mtime_nsec as u32),
            changed: (stat.st_ctime as i64, stat.st_ctime_nsec as u32),
        }
    }

    /// Returns the status of the entry `name` in `directory`; `None` if it does not exist.
    pub(crate) fn of_entry(directory: impl AsFd, name: &[u8]) -> Result<Option<Self>, Errno> {
        Ok(stat_entry(directory, name)?.map(|stat| Self::from_stat(&stat)))
    }

    pub(crate) fn kind(&self) -> FileType {
        FileType::from_raw_mode(self.mode)
    }

    pub(crate) fn is_directory(&self) -> bool {
        self.kind() == FileType::Directory
    }

    /// Returns the permission bits, with those that give a program the rights of its owner.
    pub(crate) fn bits(&self) -> u32 {
        self.mode & 0o7777
    }

    pub(crate) fn modified(&self) -> Option<Timestamp> {
        Timestamp::new(self.modified.0, i32::try_from(self.modified.1).ok()?).ok()
    }

    /// Returns whether a later write in the same tick of the clock could leave this status unchanged. If either time is
    /// older, the write changes it.
    pub(crate) fn is_young(&self, now: Timestamp) -> bool {
        is_young_file(&[self.modified, self.changed], now) && is_young_file(&[self.changed, self.modified], now)
    }
}

/// The meaning of an entry of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum EntryMeaning {
    File = 1,
    Symlink = 2,
    /// A directory that also shows the entries below the layer.
    Merged = 3,
    /// A directory that hides the entries below the layer.
    Own = 4,
    /// The entry below the layer is removed.
    Whiteout = 5,
    /// An entry that no workspace takes.
    Dropped = 6,
}

const MEANING_SHIFT: u32 = 56;
const HASH_MASK: u64 = (1 << MEANING_SHIFT) - 1;

/// Returns the fingerprint of an entry, for a mark: its meaning, and a hash of its status; no hash if the entry is
/// young.
pub(crate) fn fingerprint(meaning: EntryMeaning, seen: &EntryStatus, now: Timestamp) -> u64 {
    let mut hasher = DefaultHasher::new();
    let is_young = match meaning {
        // The entries of a directory are compared in any case, so its times say nothing more.
        EntryMeaning::Merged | EntryMeaning::Own => {
            (seen.inode, seen.mode).hash(&mut hasher);
            false
        }
        EntryMeaning::Whiteout => false,
        EntryMeaning::File | EntryMeaning::Symlink | EntryMeaning::Dropped => {
            seen.hash(&mut hasher);
            seen.is_young(now)
        }
    };
    let hash = if is_young {
        0
    } else {
        (hasher.finish() & HASH_MASK).max(1)
    };
    ((meaning as u64) << MEANING_SHIFT) | hash
}

/// Returns whether an entry is unchanged since a mark; `false` for one that was young then, because it may have changed
/// unseen.
pub(crate) fn is_same_fingerprint(before: u64, now: u64) -> bool {
    // A young entry has no hash: without this check it would equal itself if it is young at both readings.
    before & HASH_MASK != 0 && before == now
}

/// Returns whether an entry with this fingerprint is a directory that also shows the entries below the layer.
pub(crate) fn is_merged_directory(fingerprint: u64) -> bool {
    fingerprint >> MEANING_SHIFT == EntryMeaning::Merged as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(modified: (i64, u32), changed: (i64, u32)) -> EntryStatus {
        EntryStatus {
            inode: 7,
            size: 3,
            mode: 0o100_644,
            modified,
            changed,
        }
    }

    fn print(seen: &EntryStatus, milliseconds: i64) -> u64 {
        let now = Timestamp::from_millisecond(milliseconds).unwrap();
        fingerprint(EntryMeaning::File, seen, now)
    }

    #[test]
    fn what_was_written_just_now_is_never_taken_for_unchanged() {
        let young = seen((10, 1), (10, 1));
        assert!(!is_same_fingerprint(print(&young, 10_010), print(&young, 10_020)));
        assert!(!is_same_fingerprint(print(&young, 10_010), print(&young, 20_000)));
        assert!(is_same_fingerprint(print(&young, 10_060), print(&young, 20_000)));
    }

    #[test]
    fn a_time_of_modification_set_back_makes_a_new_file_known_at_once() {
        let dated = seen((5, 1), (10, 1));
        assert!(is_same_fingerprint(print(&dated, 10_010), print(&dated, 10_020)));
        let written = seen((10, 2), (10, 2));
        assert!(!is_same_fingerprint(print(&dated, 10_010), print(&written, 10_020)));
    }

    #[test]
    fn a_fingerprint_tells_a_merged_directory() {
        let (directory, now) = (seen((1, 1), (1, 1)), Timestamp::UNIX_EPOCH);
        assert!(is_merged_directory(fingerprint(EntryMeaning::Merged, &directory, now)));
        assert!(!is_merged_directory(fingerprint(EntryMeaning::Own, &directory, now)));
    }
}
