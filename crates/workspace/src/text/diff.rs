//! Differences shown to a person or a model.

use similar::TextDiff;

const MAX_BYTES: usize = 1 << 20;

/// The difference as a unified diff; `None` where a side is not text, or both are too large to compare for show.
pub fn unified(path: &str, before: &[u8], after: &[u8]) -> Option<String> {
    if before.len() + after.len() > MAX_BYTES {
        return None;
    }
    let (before, after) = (std::str::from_utf8(before).ok()?, std::str::from_utf8(after).ok()?);
    let diff = TextDiff::from_lines(before, after);
    Some(
        diff.unified_diff()
            .header(&format!("a/{path}"), &format!("b/{path}"))
            .to_string(),
    )
}
