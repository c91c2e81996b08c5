//! Imports and exports as those who use them see them.

#![allow(
    clippy::disallowed_methods,
    reason = "tests look into the home, as a damaged disk or another process would"
)]

mod portable;
mod support;
mod trees;
