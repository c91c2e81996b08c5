//! Commands from end to end: the real sandbox, on every storage.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(
    clippy::disallowed_methods,
    reason = "the tests look at the machine from outside: files of the home, processes, the clock"
)]

mod approvals;
mod background;
mod beside;
mod bounds;
mod changes;
mod command_homes;
mod conflicts;
mod derived;
mod exclusions;
mod hiding;
mod host_users;
mod named;
mod names;
mod network;
mod others;
mod ports;
mod refusals;
mod running;
mod secrets;
mod support;
mod turns;
