//! The options of a depot.

use garret_core::Durability;

/// Options that apply to all workspaces of an open depot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DepotOptions {
    /// Content up to this many bytes, at most 64 KiB, is stored in the database; larger content in the blob store.
    pub inline_bytes: usize,
    /// The durability of changes, unless a workspace handle sets its own.
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
