//! Differences shown to a person or a model.

use super::unified::{self, UnifiedHunks};

/// The most bytes, both sides together, that are compared line by line for a diff that is only shown.
const MAX_BYTES: usize = 1 << 20;

/// Returns the difference as a unified diff, which is empty if the contents are equal.
///
/// Returns `None` if a side is not UTF-8, or if too much differs to compare it line by line only to show it.
pub fn unified_diff(path: &str, before: &[u8], after: &[u8]) -> Option<String> {
    let (before, after) = (std::str::from_utf8(before).ok()?, std::str::from_utf8(after).ok()?);
    let UnifiedHunks { text, .. } = unified::diff_hunks_within(before, after, MAX_BYTES)?;
    Some(if text.is_empty() {
        text
    } else {
        format!("--- a/{path}\n+++ b/{path}\n{text}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_edit_of_a_large_file_is_shown_and_a_large_one_is_not() {
        let before: String = (0..200_000).map(|number| format!("line {number}\n")).collect();
        let after = before.replace("line 77777\n", "another\n");
        assert_eq!(
            unified_diff("big", before.as_bytes(), after.as_bytes()).unwrap(),
            "--- a/big\n+++ b/big\n@@ -77775,7 +77775,7 @@\n line 77774\n line 77775\n line 77776\n-line 77777\n+another\n \
             line 77778\n line 77779\n line 77780\n"
        );
        let other = before.replace("line", "LINE");
        assert_eq!(unified_diff("big", before.as_bytes(), other.as_bytes()), None);
    }

    #[test]
    fn what_is_not_text_is_not_shown_and_what_is_the_same_is_nothing() {
        assert_eq!(unified_diff("a", b"\xFF", b"a"), None);
        assert_eq!(unified_diff("a", b"a", b"a").as_deref(), Some(""));
    }
}
