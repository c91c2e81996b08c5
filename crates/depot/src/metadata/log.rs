//! The log as it is written: the pages of a transaction at once.
//!
//! SQLite writes its log page by page, and each page in two writes; for a group of changes that is hundreds of system calls, and the
//! kernel takes a block of the file in hand three times for each page. Here they are held back ([`held`]) until the page that completes
//! the transaction, and written together ([`file`]). Nothing is told before: SQLite shows a transaction to anybody, and syncs it, only after
//! that page was written, and whatever else it does with the file comes after what is held. What is in the file is the same.

mod file;
mod held;

pub(super) use file::files;
