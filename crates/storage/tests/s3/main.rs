//! The storage `s3` against real servers, and against a network that fails.
//!
//! SeaweedFS is the main server, moto a second opinion, rclone the one that ignores preconditions. Each test has a prefix of its own on
//! the servers of this process; see `garret_testkit::s3`.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
#![allow(
    clippy::disallowed_methods,
    reason = "the tests start processes of their own and are the other program that uses the bucket"
)]

mod conformance;
mod counts;
mod faults;
mod killed;
mod large;
mod odd_keys;
mod opening;
mod paging;
mod permissions;
mod place;
mod plain;
mod processes;
mod removals;
mod storms;
