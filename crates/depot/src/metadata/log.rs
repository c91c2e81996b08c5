//! The log as it is written: the pages of a transaction at once.
//!
//! SQLite writes its log page by page, and each page in two writes; for a group of changes that is hundreds of system calls, and the
//! kernel takes a block of the file in hand three times for each page. Here they are held back ([`held`]) while a transaction is being
//! committed, until the page that completes it, and written together ([`file`]). Nothing is told before: SQLite shows a transaction to
//! anybody, and syncs it, only after that page was written, and whatever else it does with the file comes after what is held. What is in
//! the file is the same.
//!
//! What is held never outlives the commit it belongs to. One that fails gives up the lock on the log, and others then write where its
//! pages would have been; so whatever it left is dropped. For the same reason nothing is held of the pages that a large transaction puts
//! into the log before its commit.

mod file;
mod held;

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

pub(super) use file::files;

/// A commit, told from every other of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Commit(u64);

static COMMITS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// The commit that this thread is at.
    static COMMIT: Cell<Option<Commit>> = const { Cell::new(None) };
}

/// Runs `commit`, which commits a transaction on this thread.
pub(super) fn committing<T>(commit: impl FnOnce() -> T) -> T {
    COMMIT.set(Some(Commit(COMMITS.fetch_add(1, Ordering::Relaxed))));
    let _ended = Ended;
    commit()
}

/// Ends the commit of a thread when dropped.
struct Ended;

impl Drop for Ended {
    fn drop(&mut self) {
        COMMIT.set(None);
    }
}
