//! Maintenance of a depot: check, repair, retention, garbage collection, usage, and recovery after a power failure.
//!
//! It runs on request or when the depot is opened, never as a part of a change.

mod check;
mod garbage;
mod leftovers;
mod recovery;
mod repair;
mod retention;
mod stored_size;
mod usage;

pub use check::{CheckProblem, CheckReport};
pub use garbage::{CollectOptions, CollectReport};
pub use repair::RepairReport;
pub use retention::RetentionReport;
pub(crate) use retention::is_row_needed;
pub use usage::{DepotUsage, SnapshotUsage, WorkspaceUsage};
