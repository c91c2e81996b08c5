//! The history of a workspace as its callers see it: through the same policies as the files.
//!
//! What may not be read does not show, in the past either; what may not be written is not brought back. A narrowed view sees the
//! changes of its own directory and reverses those alone. The journal itself is the business of whoever implements
//! [`garret_core::History`].

mod branches;
mod changes;
mod diff;
mod merge;
mod past;
mod renames;
mod render;
mod seen;
mod snapshots;
#[cfg(test)]
mod testing;
mod undo;
mod versions;

use std::sync::Arc;

use garret_core::{Error, ErrorKind, History, Result};

use crate::Workspace;

pub use branches::BranchShown;
pub use changes::{ActorShown, ChangeDetails, ChangeShown, ImageShown, Log, LogRequest, PathShown};
pub use diff::{Diff, DiffRequest};
pub use merge::{Conflict, ConflictKind, ConflictSide, MergeOptions, Merged, OnConflict};
pub use render::{DiffStatus, PathDiff};
pub use snapshots::{RestoreRequest, SnapshotShown};
pub use undo::UndoRequest;
pub use versions::{VersionShown, Versions, VersionsRequest};

impl Workspace {
    /// Whether it keeps a history.
    pub fn has_history(&self) -> bool {
        self.shared.history.is_some()
    }

    /// Its id where its history is kept, unique for ever; `unsupported` where it keeps none.
    pub fn id(&self) -> Result<&str> {
        Ok(self.journal()?.id())
    }

    /// Its history; `unsupported` where it keeps none.
    pub(crate) fn journal(&self) -> Result<&Arc<dyn History>> {
        self.shared.history.as_ref().ok_or_else(|| {
            Error::new(ErrorKind::Unsupported, "this workspace keeps no history")
                .hint("open it with `history` set to `durable` or `session`")
        })
    }
}
