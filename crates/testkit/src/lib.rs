//! Conformance suite, reference model, fault injection: what every storage of Garret must pass.
//!
//! A storage, ours or another's, shows that it keeps the contract by running this crate's tests:
//!
//! ```
//! use std::sync::Arc;
//! use garret_core::{MemoryStorage, SystemClock};
//! use garret_testkit::Fixture;
//!
//! async fn memory() -> Fixture {
//!     Fixture::new(Arc::new(MemoryStorage::new(Arc::new(SystemClock::default()))))
//! }
//!
//! garret_testkit::conformance_tests!(memory);
//! # fn main() {}
//! ```
//!
//! - [`conformance`]: one function for each behaviour of the contract, and the macro that makes each a test of its own.
//! - [`model`]: random operation sequences against a plain model of a tree.
//! - [`forwarding`], [`hooked`] and [`faults`]: wrappers as ordinary storages, one that changes nothing, one at whose calls a test does
//!   something, and one that fails on purpose.
//! - [`sandbox`]: the contract of sandboxes as tests, for ours and for others'.
//! - [`s3`]: real S3 servers, and a proxy that spoils what goes to them.
//! - [`vectors`]: the published path cases.
//! - [`cases`]: the published file operations, over a workspace.
//! - [`limited`]: a test in a process with little memory.
//! - [`fuzz`]: the bodies of the fuzz targets.
//!
//! Code here panics where a promise is broken: it is meant to be called from tests. No timing is ever a condition, except where a
//! sandbox has to end a command in time.

pub mod cases;
pub mod conformance;
pub mod faults;
pub mod fixture;
pub mod forwarding;
pub mod fuzz;
pub mod hooked;
pub mod limited;
pub mod model;
pub mod mutations;
pub mod probe;
pub mod s3;
pub mod sandbox;
pub mod tree;
pub mod vectors;

pub use faults::{Fault, FaultStorage, Moment};
pub use fixture::Fixture;
pub use forwarding::Forwarding;
pub use hooked::{Call, Hook, Hooked};
pub use probe::Probe;
pub use tree::{Node, Tree};
