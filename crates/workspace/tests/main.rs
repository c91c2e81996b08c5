//! The integration tests of this crate in one program: a program of its own for each file would be linked for each file.

mod edit_properties;
mod merge;
mod patch_against_gnu;
mod search;
mod workspace;
