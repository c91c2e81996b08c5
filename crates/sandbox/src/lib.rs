//! Where commands run, and what becomes of what they did.
//!
//! - [`namespace`]: the sandbox of the Linux kernel, and its [`supervisor`];
//! - [`host`]: no isolation, for people who ask for it;
//! - [`effects`]: what was done on a layer, read as hostile input;
//! - [`bench`](mod@bench): the directories that layers lie over.

pub mod bench;
pub mod effects;
mod filtered;
pub mod host;
pub mod namespace;
mod placing;
pub mod supervisor;
