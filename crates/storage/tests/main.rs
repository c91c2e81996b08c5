//! The integration tests of this crate in one program: a program of its own for each file would be linked for each file.

mod batches;
mod boundary;
mod common;
mod listing;
mod opening;
mod owners;
mod processes;
mod same_as_memory;
mod versions;
mod writing;
