//! The clock for time limits: those of commands are measured where the commands run, and that of reading what they left where it is read.

#![cfg(target_os = "linux")]
#![allow(
    clippy::disallowed_methods,
    reason = "this file is the one place where the sandbox reads the clock"
)]

use std::time::Instant;

pub(crate) fn now() -> Instant {
    Instant::now()
}
