//! Patterns of what is kept out of history: it lives in the bench only.

use garret_core::{EntryPath, Exclusions, Result};

/// The patterns, ready for asking. What only a directory could match is taken for one: nothing in a bench that history knows is called so.
#[derive(Debug, Clone, Default)]
pub struct Excluded {
    exclusions: Exclusions,
}

impl Excluded {
    /// Checks the patterns; a wrong one is `invalid`.
    pub fn new(patterns: &[String]) -> Result<Self> {
        let exclusions = Exclusions::new(patterns)?;
        Ok(Self { exclusions })
    }

    /// Whether nothing is kept out of history.
    pub(super) fn is_empty(&self) -> bool {
        self.exclusions.is_empty()
    }

    /// Whether the path, or a directory above it, is kept out of history.
    pub fn covers(&self, path: &EntryPath) -> bool {
        self.covers_bytes(path.as_bytes())
    }

    pub(super) fn covers_bytes(&self, path: &[u8]) -> bool {
        self.exclusions.covers_bytes(path, true)
    }
}
