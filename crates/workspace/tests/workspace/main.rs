//! The workspace stack on a storage in memory.

mod events;
mod files;
mod policy;
mod quota;
mod scope;
mod support;
