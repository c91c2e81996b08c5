//! Runs commands, and reads the effects that they leave on a layer.
//!
//! - [`namespace`]: the sandbox of the Linux kernel, and its [`supervisor`];
//! - [`host`]: no isolation, for people who ask for it;
//! - [`effects`]: the changes on a layer, read as hostile input;
//! - [`bench`](mod@bench): the directories that layers lie over.

pub mod bench;
mod copied_layer;
pub mod effects;
mod file_times;
pub mod host;
mod layer_placement;
pub mod namespace;
mod scratch;
pub mod supervisor;
mod visible_bench;
