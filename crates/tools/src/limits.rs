//! How much one answer holds.

use garret_core::ToolsConfig;

/// The bounds of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    /// The most lines of text.
    pub(crate) lines: usize,
    /// The most bytes of text.
    pub(crate) bytes: usize,
    /// The most bytes of text that a call can ask for.
    pub(crate) max_bytes: usize,
    /// The most characters shown of one line.
    pub(crate) line_characters: usize,
}

impl Limits {
    pub(crate) fn of(config: &ToolsConfig) -> Self {
        let max_bytes = config.max_kib.max(1).saturating_mul(1024);
        let bytes = config.page_kib.max(1).saturating_mul(1024).min(max_bytes);
        Self {
            lines: config.max_lines.max(1),
            bytes,
            max_bytes,
            line_characters: (bytes / 8).min(2_000),
        }
    }

    /// The bounds for a call that asks for so many lines or entries: they may fill the largest answer. Absent and 0 ask for none.
    pub(crate) fn asked(&self, limit: Option<u64>) -> Self {
        let is_asked = limit.is_some_and(|limit| limit > 0);
        Self {
            bytes: if is_asked { self.max_bytes } else { self.bytes },
            ..*self
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
