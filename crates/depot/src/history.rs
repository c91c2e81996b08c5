//! The history of a workspace: what was changed, by whom, what it was before; and the way back.
//!
//! Nothing here costs what the workspace weighs: a change knows its paths, the difference of two points is the paths of the changes
//! between them, and an undo puts back what those paths were.

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
