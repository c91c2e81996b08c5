//! The sandbox of the Linux kernel, by what commands can and cannot do in it. Everything runs as whoever runs the tests; where that is
//! root, `as_another_user` runs all of it once more as a user without rights.

#![cfg(target_os = "linux")]
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests set up directories, look at the host from outside, and may fail"
)]

mod room;

mod again;
mod basics;
mod copies;
mod host_parts;
mod life;
mod limits;
mod live;
mod paths;
mod pauses;
mod ports;
mod user;
mod walls;
