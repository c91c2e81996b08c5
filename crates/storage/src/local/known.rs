//! Directories that were found free of links a moment ago, so that a read in them may look before it opens without a handle of its
//! own.
//!
//! Reading must look at a file before it opens it (a fifo is never opened), and a look by handle needs the directory opened first:
//! two system calls of seven. For a directory in this table the look goes by path instead. Should a link have been swapped in since,
//! the look may meet another file, but it only decides whether the strict open is tried: that open refuses the link, nothing of the
//! look reaches the caller, and the directory leaves the table.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};

const SLOTS: usize = 64;

#[derive(Debug)]
pub(super) struct KnownDirectories {
    slots: [AtomicU64; SLOTS],
}

impl Default for KnownDirectories {
    fn default() -> Self {
        Self {
            slots: [const { AtomicU64::new(0) }; SLOTS],
        }
    }
}

impl KnownDirectories {
    pub(super) fn holds(&self, directory: &str) -> bool {
        let (slot, hash) = self.slot(directory);
        slot.load(Ordering::Relaxed) == hash
    }

    pub(super) fn remember(&self, directory: &str) {
        let (slot, hash) = self.slot(directory);
        slot.store(hash, Ordering::Relaxed);
    }

    pub(super) fn forget(&self, directory: &str) {
        self.slot(directory).0.store(0, Ordering::Relaxed);
    }

    fn slot(&self, directory: &str) -> (&AtomicU64, u64) {
        let mut hasher = DefaultHasher::new();
        directory.hash(&mut hasher);
        // An empty slot is 0, so no hash may be. Two directories with one hash cost a look by path, nothing more.
        let hash = hasher.finish() | 1;
        (&self.slots[(hash >> 32) as usize % SLOTS], hash)
    }
}
