//! The small program that stays inside an open sandbox and starts commands there.
//!
//! It is three processes deep. The *keeper* (`keeper`) has the rights of the user that opened the sandbox; it makes the
//! namespaces, writes their user maps, and afterwards only waits, to clean up. The *server* (`serve`) is the first
//! process inside: it builds the root, mounts layers, and carries bytes between commands and Garret. Each command has
//! an *init* (`init`) that is the first process of the command's own process namespace, so that everything the command
//! started ends with it.
//!
//! The supervisor speaks over a stream of bytes only (`protocol`) and decides nothing: a plan lists every step of
//! making the sandbox. So the same program can be the first process of a virtual machine as well. Apart from that
//! stream there is a second channel, over which the server passes sockets of the sandbox's network to Garret: a
//! descriptor cannot travel as bytes. A virtual machine would use vsock in its place, and the stream would stay as it is.

pub(crate) mod protocol;

pub(crate) mod clock;
mod command_terminal;
pub(crate) mod confine;
mod control_groups;
pub(crate) mod descriptor_passing;
mod execute;
mod home_size_watch;
mod host_parts;
mod init;
mod ipc_memory;
mod keeper;
mod layer_usage;
pub(crate) mod layer_walk;
mod limit_watch;
mod mounted_layer;
mod place_item;
mod sandbox_root;
mod serve;
pub(crate) mod sys;
mod system_call_filter;
pub(crate) mod thread_tracer;
mod usage_tally;

use std::process::ExitCode;

/// The argument that makes a program which contains the supervisor run as the supervisor.
pub const WORD: &str = "__supervisor";

/// Runs the supervisor: serves the program at the other end of the standard input, and returns when that end is closed.
/// The process must have a single thread.
#[cfg(target_os = "linux")]
pub fn main() -> ExitCode {
    keeper::main()
}

/// Fails: the supervisor exists on Linux only.
#[cfg(not(target_os = "linux"))]
pub fn main() -> ExitCode {
    ExitCode::FAILURE
}
