//! Amounts of data as a person reads them.

use garret::depot::{SnapshotUsage, WorkspaceUsage};

use super::{counted, size};

/// What a workspace holds, in columns.
pub(crate) fn sizes(one: &WorkspaceUsage) -> Vec<String> {
    vec![
        counted(one.files, "file"),
        size(one.bytes),
        format!("history {}", size(one.history_bytes)),
        format!("freed if deleted {}", size(one.alone_bytes)),
    ]
}

/// What a snapshot holds, in columns.
pub(crate) fn snapshot_sizes(one: &SnapshotUsage) -> Vec<String> {
    vec![
        counted(one.files, "file"),
        size(one.bytes),
        format!("freed if deleted {}", size(one.alone_bytes)),
    ]
}
