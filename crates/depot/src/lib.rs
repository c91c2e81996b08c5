//! The engine of Garret's history: content, journals, snapshots and branches in one embedded database.
//!
//! A [`Depot`] holds many workspaces. Its files are a temporal tree: an entry is valid from one change until another,
//! so a snapshot is a number, reading the past is a range query, and a branch is a point in another workspace plus its
//! own changes. Every batch of mutations is one change of the journal; it records the actor, and the state of each path
//! before and after.
//!
//! - [`DepotWorkspace`] is a workspace: a [`garret_core::Storage`] at its newest state, with its history.
//! - [`DepotView`] is the tree of a workspace at one point, for reading.
//!
//! Inside, data flows one way: from the handles here, to the tree and the change being made, to the metadata and the
//! content. All SQL is in `metadata`, all blobs in `content`, and only `writer` begins a transaction that writes.

mod archive;
mod change;
mod check;
mod content;
mod depot;
mod directory;
mod error;
mod garbage;
mod history;
mod journaled;
mod leftovers;
mod metadata;
mod options;
mod pieces;
mod places;
mod portable;
mod private;
mod repair;
mod retention;
mod settle;
mod storage;
mod stored;
mod tree;
mod trees;
mod usage;
mod workspace;
mod writer;

pub use check::{Inspection, Problem};
pub use depot::{Depot, Fork, NewWorkspace, WorkspaceInfo};
pub use garbage::{CollectOptions, Collected};
pub use garret_core::Durability;
pub use garret_core::history::*;
pub use journaled::{Journaled, LazyDepot};
pub use options::DepotOptions;
pub use portable::{Exported, Extent, Imported, Manifest, Progress, Watch};
pub use repair::Repaired;
pub use retention::Retained;
pub use storage::DepotView;
pub use trees::{Compression, Moved, Skipped, TreeSource, TreeTarget, export_storage};
pub use usage::{SnapshotUsage, Usage, WorkspaceUsage};
pub use workspace::DepotWorkspace;
