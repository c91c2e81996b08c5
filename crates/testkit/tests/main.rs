//! The integration tests of this crate in one program: a program of its own for each file would be linked for each file.

mod cached;
mod cases;
mod forwarding;
mod large;
mod local;
mod memory;
mod model;
mod s3;
mod teeth;
mod vectors;
