//! The limits on the size of an answer.

use garret_core::ToolsConfig;

/// The limits on the size of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AnswerLimits {
    /// The most lines of text.
    pub(crate) lines: usize,
    /// The most bytes of text.
    pub(crate) bytes: usize,
    /// The most bytes of text that a call can ask for.
    pub(crate) max_bytes: usize,
    /// The most characters shown of one line.
    pub(crate) line_characters: usize,
}

impl AnswerLimits {
    pub(crate) fn from_config(config: &ToolsConfig) -> Self {
        // A setting of 0 would allow no answer at all.
        let max_bytes = config.max_kib.max(1).saturating_mul(1024);
        let bytes = config.page_kib.max(1).saturating_mul(1024).min(max_bytes);
        Self {
            lines: config.max_lines.max(1),
            bytes,
            max_bytes,
            // One line may take only a part of a page, so that a page shows several.
            line_characters: (bytes / 8).min(2_000),
        }
    }

    /// Returns the limits for a call with a `limit` of lines or entries, which may fill the largest answer. Absent and
    /// 0 are no limit.
    pub(crate) fn for_limit(&self, limit: Option<u64>) -> Self {
        let is_asked = limit.is_some_and(|limit| limit > 0);
        Self {
            bytes: if is_asked { self.max_bytes } else { self.bytes },
            ..*self
        }
    }

    /// Returns the number of lines or entries for a `limit` argument; absent and 0 mean as many as an answer may have.
    pub(crate) fn page_size(&self, limit: Option<u64>) -> usize {
        let asked = limit
            .filter(|limit| *limit > 0)
            .and_then(|limit| usize::try_from(limit).ok());
        asked.map_or(self.lines, |limit| limit.min(self.lines))
    }
}
