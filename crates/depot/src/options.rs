//! How a depot is opened.

use garret_core::Durability;

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
