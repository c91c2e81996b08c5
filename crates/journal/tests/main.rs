//! The integration tests of this crate in one program: a program of its own for each file would be linked for each file.

mod journal;
mod s3;
