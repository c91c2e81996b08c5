//! Amounts of data as text for a person.

use garret::depot::WorkspaceUsage;

use super::{format_count, format_size};

/// Returns the columns for the amount of data in a workspace.
pub(crate) fn usage_cells(one: &WorkspaceUsage) -> Vec<String> {
    vec![
        format_count(one.files, "file"),
        format_size(one.bytes),
        format!("history {}", format_size(one.history_bytes)),
        format!("freed if deleted {}", format_size(one.alone_bytes)),
    ]
}

/// Returns the columns for the amount of data in a snapshot.
pub(crate) fn size_cells(files: u64, bytes: u64, alone_bytes: u64) -> [String; 3] {
    [
        format_count(files, "file"),
        format_size(bytes),
        format!("freed if deleted {}", format_size(alone_bytes)),
    ]
}
