//! The clock of the supervisor: time limits are measured where the commands run.

#![cfg(target_os = "linux")]
#![allow(
    clippy::disallowed_methods,
    reason = "this file is the one place where the supervisor reads the clock"
)]

use std::time::Instant;

pub(super) fn now() -> Instant {
    Instant::now()
}
