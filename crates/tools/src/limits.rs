//! How much one answer holds.

use garret_core::ToolsConfig;

/// The bounds of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    /// The most lines of text.
    pub(crate) lines: usize,
    /// The most bytes of text.
    pub(crate) bytes: usize,
    /// The most characters shown of one line.
    pub(crate) line_characters: usize,
}

impl Limits {
    pub(crate) fn of(config: &ToolsConfig) -> Self {
        let bytes = config.max_kib.max(1).saturating_mul(1024);
        Self {
            lines: config.max_lines.max(1),
            bytes,
            line_characters: (bytes / 8).min(2_000),
        }
    }

    /// How many lines or entries are meant by a `limit` argument; absent and 0 leave it to the bounds.
    pub(crate) fn page(&self, limit: Option<u64>) -> usize {
        let asked = limit
            .filter(|limit| *limit > 0)
            .and_then(|limit| usize::try_from(limit).ok());
        asked.map_or(self.lines, |limit| limit.min(self.lines))
    }
}
