//! Storages of Garret that do I/O.
//!
//! Each storage has a folder with a factory, by which an embedding program registers the storage under its `kind`.
//! Policy, quota and events are decided in the crates above; a storage only keeps every access below its own root.

#[cfg(not(target_os = "linux"))]
compile_error!("the storage `local` needs Linux: see docs/decisions/0002-local-by-handle.md");

pub mod cache;
#[cfg(target_os = "linux")]
pub mod local;
pub mod s3;

pub use garret_core::Durability;
#[cfg(target_os = "linux")]
pub use local::{LocalFactory, LocalOptions, LocalStorage};
pub use s3::{S3Factory, S3Options, S3Storage};
