//! The progress of a long import or export.

use serde::Serialize;

/// The progress of a long operation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Progress {
    /// Number of files, or pieces of content, that are done.
    pub files: u64,
    /// Bytes of content that are done.
    pub bytes: u64,
    /// Total bytes of content, if known.
    pub total: Option<u64>,
}

/// A callback that receives the progress of a long operation.
pub type ProgressWatcher<'w> = &'w mut (dyn FnMut(Progress) + Send);
