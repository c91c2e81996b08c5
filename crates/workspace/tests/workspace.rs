//! The workspace stack on a storage in memory.

#![allow(clippy::unwrap_used, reason = "a test ends where it is surprised")]

mod events;
mod files;
mod hard_links;
mod history;
mod host_paths;
mod huge;
mod policy;
mod quota;
mod scope;
mod streams;
mod support;
mod swaps;
