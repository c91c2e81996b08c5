//! The depot as those who use it see it.

#![allow(
    clippy::disallowed_methods,
    reason = "tests look into the home, as a damaged disk or another process would"
)]

mod branches;
mod configuration;
mod content_lookup;
mod contract;
mod durability;
mod garbage;
mod grouped;
mod history;
mod large;
mod merging;
mod random;
mod recovery;
mod repair;
mod retention;
mod scale;
mod support;
mod undo;
mod usage;
