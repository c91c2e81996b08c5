//! A plain model of a workspace, and random operation sequences that compare a storage with it.
//!
//! The model is written from the words of the contract, without a look at any storage's code and with no care for speed: a map from
//! path to entry, paths as text, a copy of everything as the way back. A sequence is a list of [`Step`]s drawn by proptest over a few
//! names that clash often; after each step the outcome and the whole tree must be the same in both.

mod compare;
mod steps;
mod world;

pub use compare::{compare, run};
pub use steps::{Sequence, Step, Wanted, sequences};
pub use world::{Left, Refusal, World};
