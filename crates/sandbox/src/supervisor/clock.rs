//! The clock for time limits: the supervisor measures those of commands, and the reader of effects measures its own.

#![cfg(target_os = "linux")]
#![allow(
    clippy::disallowed_methods,
    reason = "this file is the one place where the sandbox reads the clock"
)]

use std::time::Instant;

pub(crate) fn current_time() -> Instant {
    Instant::now()
}
