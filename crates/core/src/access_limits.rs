//! Limits on files that are far away, and content that is on this machine.
//!
//! Each look at a remote file costs a request, so a storage says how much of it tools may read and search, and a search
//! first asks whether the content of a listed version is already on this machine.

use std::fmt;

use bytes::Bytes;

use crate::{Version, WsPath};

/// The limits on reading and searching the files of a storage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessLimits {
    /// Whether each look at a file is a remote request, so that requests should be made side by side, and never in
    /// vain.
    pub is_remote: bool,
    /// The most bytes that a tool reads of one file; a stream may read all of it.
    pub max_read_bytes: Option<u64>,
    /// Whether searches by name and by content are offered.
    pub is_searchable: bool,
    /// The most entries that one search looks at; entries after those, in the order of paths, are left out, and the
    /// result says so.
    pub max_objects_scanned: Option<u64>,
    /// The largest file that is searched by content; larger files are named in the result.
    pub max_grep_bytes_per_object: Option<u64>,
    /// How many files a search requests at once.
    pub search_concurrency: usize,
}

impl Default for AccessLimits {
    fn default() -> Self {
        Self {
            is_remote: false,
            max_read_bytes: None,
            is_searchable: true,
            max_objects_scanned: None,
            max_grep_bytes_per_object: None,
            search_concurrency: 16,
        }
    }
}

/// File content on this machine, which each thread of a search reads for itself.
pub trait LocalContent: Send + Sync + fmt::Debug {
    /// Returns the whole content of the file at `path` in this version, if it is on this machine and undamaged. Blocks,
    /// and never asks a remote storage.
    fn find_content(&self, path: &WsPath, version: &Version, size: u64) -> Option<Bytes>;
}
