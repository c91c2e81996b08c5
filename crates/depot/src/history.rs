//! The history of a workspace: its changes, their actors, the earlier states of its files, and the ways to restore
//! them.
//!
//! No operation here takes time in proportion to the size of the workspace: a change knows its paths, a difference of
//! two points compares the paths of the changes between them, and an undo restores the earlier state of such paths.

mod branch;
mod contract;
mod conversions;
mod diff;
mod journal;
mod merge;
mod point;
mod put;
mod restore;
mod snapshot;
mod undo;
mod versions;

pub(crate) use conversions::image_of;
pub(crate) use diff::find_later_capture;
pub(crate) use journal::images_of;
pub(crate) use point::{check_kept, has_captured_all, is_complete, lineage_of};
pub use put::changed_by_others;
pub(crate) use restore::{finish_change, with_description};
pub(crate) use snapshot::check_label;
