//! The directories that layers lie over.
//!
//! - [`DirectoryBench`]: files that live in a directory are used in place;
//! - [`CheckoutBench`]: for all others, a checkout in a cache that follows the journal.
//!
//! Both reach every entry by handle (see `bench_placer`): entries that a command left in a bench are as hostile as
//! those that it left in a layer.

#![cfg(target_os = "linux")]

mod bench_placer;
mod checkout;
mod checkout_writer;
mod directory;
mod manifest;
mod state;
mod survey;
mod turn_file;
mod wanted_entries;

pub use checkout::{CheckoutBench, CheckoutOptions};
pub use directory::{DirectoryBench, DirectoryOptions};
pub use turn_file::TurnFile;
