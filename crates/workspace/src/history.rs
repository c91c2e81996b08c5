//! The history of a workspace as its callers see it: through the same policies as the files.
//!
//! A file that may not be read is hidden in the past, too; a file that may not be written is not restored. A narrowed
//! view sees the changes of its own directory and reverses only those. The journal itself is kept by an implementation
//! of [`garret_core::History`].

mod branches;
mod changes;
mod diff;
pub(crate) mod left_alone;
mod merge;
mod operation_commit;
mod past_views;
mod renames;
mod render;
mod snapshots;
#[cfg(test)]
mod testing;
mod undo;
mod versions;
mod visible_changes;

use std::sync::Arc;

use garret_core::{History, Result};

use crate::Workspace;
use crate::file_access::FileAccess;

pub use changes::LogRequest;
pub use diff::DiffRequest;
pub use merge::{MergeOptions, OnConflict};
pub use snapshots::{RestoreRequest, SnapshotListRequest};
pub use undo::UndoRequest;
pub use versions::VersionsRequest;

/// The history of the files, as one view and one actor may read it and go back in it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HistoryAccess<'a> {
    pub(crate) files: &'a FileAccess,
    pub(crate) journal: &'a Arc<dyn History>,
}

impl Workspace {
    /// Whether it keeps a history.
    pub fn has_history(&self) -> bool {
        self.files.source.history.is_some()
    }

    /// Its id in its history, unique for ever; `unsupported` if it keeps no history.
    pub fn id(&self) -> Result<&str> {
        Ok(self.files.journal()?.id())
    }
}
