//! Runs commands, and reads the effects that they leave on a layer.
//!
//! - [`namespace`]: the sandbox of the Linux kernel, and its [`supervisor`];
//! - [`host`]: no isolation, for people who ask for it;
//! - [`effects`]: the changes on a layer, read as hostile input;
//! - [`toolchains`]: the directories of the user with programs that commands need;
//! - [`command_home`]: the home directories of commands;
//! - [`bench`](mod@bench): the directories that layers lie over.

pub mod bench;
pub mod command_home;
mod copied_layer;
pub mod effects;
mod file_times;
pub mod host;
mod layer_placement;
pub mod namespace;
mod scratch;
pub mod supervisor;
pub mod toolchains;
mod visible_bench;
