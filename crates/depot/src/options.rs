//! How a depot is opened.

use serde::{Deserialize, Serialize};

/// What a returned change survives.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// The end of the process and the loss of power.
    #[default]
    Full,
    /// The end of the process. A loss of power may take the newest changes, whole ones, never a part of one.
    Relaxed,
}

/// How a depot keeps content and commits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DepotOptions {
    /// Content up to this many bytes, 64 KiB at most, sits in the database, larger content in the blob store.
    pub inline_bytes: usize,
    /// What a returned change survives, where a workspace says nothing else.
    pub durability: Durability,
    /// The deepest lineage that a new branch may have before it is flattened.
    pub max_depth: usize,
}

impl Default for DepotOptions {
    fn default() -> Self {
        Self {
            inline_bytes: 64 * 1024,
            durability: Durability::Full,
            max_depth: 16,
        }
    }
}
