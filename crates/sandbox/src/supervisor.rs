//! The small program that stays inside an open sandbox and starts commands there.
//!
//! It is three processes deep. The *keeper* (`keeper`) has the rights of whoever opened the sandbox; it makes the namespaces, writes
//! down who is who in them, and afterwards only waits, to clean up. The *server* (`serve`) is the first process inside: it builds the
//! root, mounts layers, and carries bytes between commands and Garret. Each command has an *init* (`init`) that is the first process
//! of the command's own process namespace, so that everything the command started ends with it.
//!
//! It speaks over a stream of bytes only (`protocol`) and takes what it is to make from a plan, so that it can be the first process of
//! a virtual machine as well.

pub(crate) mod protocol;

pub(crate) mod clock;
pub(crate) mod confine;
mod execute;
mod groups;
mod held;
mod init;
mod ipc;
mod keeper;
mod layers;
mod passing;
mod place;
mod root;
mod sample;
mod serve;
mod sys;
mod system_calls;
pub(crate) mod tracer;
mod walk;
mod watch;

use std::process::ExitCode;

/// The argument by which a program that is its own supervisor is told to be it.
pub const WORD: &str = "__supervisor";

/// Is the supervisor: speaks with whoever is at the other end of the standard input, and returns when that has gone. The process must
/// have a single thread.
#[cfg(target_os = "linux")]
pub fn main() -> ExitCode {
    keeper::main()
}

/// Is the supervisor, which exists on Linux only.
#[cfg(not(target_os = "linux"))]
pub fn main() -> ExitCode {
    ExitCode::FAILURE
}
