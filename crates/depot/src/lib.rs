//! The engine of Garret's history: content, journals, snapshots and branches in one embedded database.
//!
//! A [`Depot`] holds many workspaces. Its files are a temporal tree: an entry is valid from one change until another,
//! so a snapshot is a number, reading the past is a range query, and a branch is a point in another workspace plus its
//! own changes. Every batch of mutations is one change of the journal; it records the actor, and the state of each path
//! before and after.
//!
//! - [`DepotWorkspace`] is a workspace: a [`garret_core::Storage`] at its newest state, with its history.
//! - [`DepotView`] is the tree of a workspace at one point, for reading.
//! - [`outside_files`] is the interface for the journal of files that live elsewhere, which `garret-journal` keeps.
//! - [`transfer`] is the interface for imports and exports, which `garret-transfer` does.
//!
//! Inside, data flows one way: from the handles here, to the tree and the change being made, to the metadata and the
//! content. All SQL is in `metadata`, all blobs in `content`, and only `writer` begins a transaction that writes.

mod change;
mod content;
mod content_lookup;
mod content_reader;
mod depot;
mod directory;
mod error;
mod history;
mod home_permissions;
mod lazy_depot;
mod maintenance;
mod metadata;
mod options;
pub mod outside_files;
mod storage;
pub mod transfer;
mod tree;
mod workspace;
mod workspace_places;
mod writer;

pub use depot::{Depot, ForkPoint, NewWorkspace, WorkspaceInfo};
pub use garret_core::Durability;
pub use garret_core::history::*;
pub use lazy_depot::LazyDepot;
pub use maintenance::{
    CheckProblem, CheckReport, CollectOptions, CollectReport, DepotUsage, RepairReport, RetentionReport, SnapshotUsage,
    WorkspaceUsage,
};
pub use options::DepotOptions;
pub use storage::DepotView;
pub use workspace::DepotWorkspace;
