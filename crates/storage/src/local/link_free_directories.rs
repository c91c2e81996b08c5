//! A table of directories that were free of links a moment ago, so that a read there needs no handle of the directory.
//!
//! A file must be checked before it is opened, because a fifo must never be opened, and a check by handle needs the
//! directory opened first: two system calls of seven. For a directory in this table the check goes by path instead. If
//! a link was swapped in since, the check may see another file, but it only decides whether the strict open is tried:
//! that open refuses the link, no result of the check reaches the caller, and the directory is removed from the table.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};

const SLOTS: usize = 64;

#[derive(Debug)]
pub(super) struct LinkFreeDirectories {
    slots: [AtomicU64; SLOTS],
}

impl Default for LinkFreeDirectories {
    fn default() -> Self {
        Self {
            slots: [const { AtomicU64::new(0) }; SLOTS],
        }
    }
}

impl LinkFreeDirectories {
    pub(super) fn contains_directory(&self, directory: &str) -> bool {
        let (slot, hash) = self.find_slot(directory);
        slot.load(Ordering::Relaxed) == hash
    }

    pub(super) fn remember(&self, directory: &str) {
        let (slot, hash) = self.find_slot(directory);
        slot.store(hash, Ordering::Relaxed);
    }

    pub(super) fn forget(&self, directory: &str) {
        self.find_slot(directory).0.store(0, Ordering::Relaxed);
    }

    fn find_slot(&self, directory: &str) -> (&AtomicU64, u64) {
        let mut hasher = DefaultHasher::new();
        directory.hash(&mut hasher);
        // An empty slot is 0, so no hash may be 0. Two directories with one hash only cost a check by path.
        let hash = hasher.finish() | 1;
        (&self.slots[(hash >> 32) as usize % SLOTS], hash)
    }
}
