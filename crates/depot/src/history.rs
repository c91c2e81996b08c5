//! The history of a workspace: its changes, their actors, the earlier states of its files, and the ways to restore
//! them.
//!
//! No operation here takes time in proportion to the size of the workspace: a change knows its paths, a difference of
//! two points compares the paths of the changes between them, and an undo restores the earlier state of such paths.

mod branch;
mod contract;
mod diff;
mod journal;
mod merge;
mod point;
mod put;
mod restore;
mod snapshot;
mod types;
mod undo;
mod versions;

pub(crate) use branch::shown;
pub(crate) use diff::captured_later;
pub(crate) use journal::images_of;
pub(crate) use point::{check_kept, has_met_all, is_complete, lineage};
pub(crate) use put::changed;
pub(crate) use restore::{described, finish};
pub(crate) use snapshot::check_label;
pub(crate) use types::image_of;
