//! Amounts of data as text for a person.

use garret::depot::{SnapshotUsage, WorkspaceUsage};

use super::{counted, size};

/// Returns the columns for the amount of data in a workspace.
pub(crate) fn sizes(one: &WorkspaceUsage) -> Vec<String> {
    vec![
        counted(one.files, "file"),
        size(one.bytes),
        format!("history {}", size(one.history_bytes)),
        format!("freed if deleted {}", size(one.alone_bytes)),
    ]
}

/// Returns the columns for the amount of data in a snapshot.
pub(crate) fn snapshot_sizes(one: &SnapshotUsage) -> Vec<String> {
    vec![
        counted(one.files, "file"),
        size(one.bytes),
        format!("freed if deleted {}", size(one.alone_bytes)),
    ]
}
