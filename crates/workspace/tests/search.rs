//! Searching by name and by content, each test on a storage in memory and on a local one.

#![allow(
    clippy::disallowed_methods,
    reason = "tests prepare directories and run the programs they compare with"
)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod boundaries;
mod contents;
mod far;
mod names;
mod odd_directories;
mod ripgrep;
mod support;
