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
mod content_reader;
mod depot;
mod directory;
mod error;
mod garbage;
mod history;
mod home_permissions;
mod journaled;
mod leftovers;
mod metadata;
mod options;
mod portable;
mod recovery;
mod repair;
mod retention;
mod storage;
mod stored_size;
mod tree;
mod trees;
mod usage;
mod workspace;
mod workspace_places;
mod writer;

pub use check::{CheckProblem, CheckReport};
pub use depot::{Depot, ForkPoint, NewWorkspace, WorkspaceInfo};
pub use garbage::{CollectOptions, CollectReport};
pub use garret_core::Durability;
pub use garret_core::history::*;
pub use journaled::{Journaled, LazyDepot};
pub use options::DepotOptions;
pub use portable::{ExportExtent, ExportReport, ImportReport, Manifest, Progress, ProgressWatcher};
pub use repair::RepairReport;
pub use retention::RetentionReport;
pub use storage::DepotView;
pub use trees::{Compression, SkippedEntry, TreeSource, TreeTarget, TreeTransferReport, export_storage};
pub use usage::{DepotUsage, SnapshotUsage, WorkspaceUsage};
pub use workspace::DepotWorkspace;
