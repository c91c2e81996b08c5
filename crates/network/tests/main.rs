//! Tests of the proxy over real sockets of the loopback interface.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "tests wait, and talk to the network")]

mod forwarding;
mod secrets;
mod support;
mod tunnels;
