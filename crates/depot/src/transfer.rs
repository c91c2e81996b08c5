//! The interface for `garret-transfer`, which imports and exports workspaces.
//!
//! [`ExportSource`] reads the files of a workspace at a point, or its whole history, as plain records and pieces of
//! content. [`HiddenWorkspace`] is a new workspace that nobody sees until it is complete, and [`ImportTarget`] writes
//! content and files into a workspace. The formats of files outside the depot are not known here.

mod entry_placement;
mod export_source;
mod hidden_workspace;
mod history_reader;
mod import_target;

pub use crate::content::{PieceAddress, PlainPiece, PreparedContent};
pub use crate::metadata::{ChangeRow, EntryNode};
pub use export_source::{ExportSource, TreeReader};
pub use hidden_workspace::HiddenWorkspace;
pub use history_reader::HistoryReader;
pub use import_target::ImportTarget;

/// Number of rows that are read in one transaction.
const PAGE: usize = 1_000;

/// One record of a workspace's history. Changes are named by their numbers.
#[derive(Debug, Clone)]
pub enum HistoryRecord {
    /// A change. An import sets its workspace, and gives it another id if its own is taken.
    Change(ChangeRow),
    /// An entry and its life.
    Entry(HistoryEntry),
    /// A move within a change.
    Move {
        /// The change.
        change: i64,
        /// The position among the moves of the change, from 1.
        step: i64,
        /// The path before the move.
        from: Vec<u8>,
        /// The path after the move.
        to: Vec<u8>,
    },
    /// A change that another one reversed.
    Reversal {
        /// The change that reverses.
        change: i64,
        /// The change that is reversed.
        target: i64,
    },
    /// A snapshot.
    Snapshot {
        /// Its label.
        label: String,
        /// The change after which it was taken.
        change: i64,
        /// The time at which it was taken, in microseconds since 1970.
        at: i64,
        /// Whether it covers only the files that the depot had captured.
        is_lazy: bool,
    },
}

/// An entry of the tree, from one change until another.
#[derive(Debug, Clone)]
pub struct HistoryEntry {
    /// The path.
    pub path: Vec<u8>,
    /// The change that made the entry; 0 if the workspace began with it.
    pub since: i64,
    /// The change that ended the entry; `None` if it is live.
    pub until: Option<i64>,
    /// The entry.
    pub node: EntryNode,
}

/// Returns whether a snapshot may have the label `label`.
pub fn is_valid_label(label: &str) -> bool {
    crate::history::check_label(label).is_ok()
}
