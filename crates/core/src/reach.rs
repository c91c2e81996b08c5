//! Files that are far away: what may be asked of them at once, and what of them lies at hand.
//!
//! A look at a remote file costs a request, so a storage says how much tools may read and search of it, and whoever searches asks first
//! whether the content that a list names is on this machine already.

use std::fmt;

use bytes::Bytes;

use crate::{Version, WsPath};

/// How much of a storage's files is read and searched at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reach {
    /// Whether a look at a file is a request that takes its time, so that many are better made at once, and none in vain.
    pub is_far: bool,
    /// The most bytes that a tool reads of one file; a stream reads all of it.
    pub max_read_bytes: Option<u64>,
    /// Whether files are found by name and by content.
    pub is_searched: bool,
    /// The most entries that one search looks at; what comes after them in the order of the paths is left out, and the result says so.
    pub max_objects_scanned: Option<u64>,
    /// Larger files are not searched by content, and named.
    pub max_grep_bytes_per_object: Option<u64>,
    /// How many files a search asks for at once.
    pub search_concurrency: usize,
}

impl Default for Reach {
    fn default() -> Self {
        Self {
            is_far: false,
            max_read_bytes: None,
            is_searched: true,
            max_objects_scanned: None,
            max_grep_bytes_per_object: None,
            search_concurrency: 16,
        }
    }
}

/// Content of remote files that lies on this machine.
pub trait NearContent: Send + Sync + fmt::Debug {
    /// The whole content of the file at `path` in this version, where it lies at hand and is undamaged. Never asks the storage.
    fn near(&self, path: &WsPath, version: &Version, size: u64) -> Option<Bytes>;
}
