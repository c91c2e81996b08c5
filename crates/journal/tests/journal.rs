//! The journal over files that live elsewhere: it keeps the contract of a storage and that of a history, and survives what a crash
//! leaves.

#![allow(
    clippy::disallowed_methods,
    reason = "these tests are the other programs that change files behind the journal's back"
)]

mod attack;
mod contract;
mod damage;
mod desk;
mod excluding;
mod far;
mod history;
mod meddling;
mod putting;
mod random;
mod raw;
mod recovering;
mod settling;
mod stopping;
mod support;
