//! Unified diffs of two texts, exact to the byte, so that they can be applied again.
//!
//! A line ends with `\n` and nothing else, as GNU `patch` and `git` have it, so a lone `\r` is content here.

use std::fmt::Write as _;
use std::ops::Range;

use similar::{Algorithm, DiffOp, capture_diff_slices, group_diff_ops};

use super::common_prefix::{common_prefix, common_suffix};
use super::lines::count_newlines;

/// Lines of context around a change.
const CONTEXT: usize = 3;
/// The number of equal lines before and after the differing part that are compared along with it. Where lines repeat, a
/// change may be shown up to that many lines after the first difference.
const MARGIN: usize = 64;

/// The hunks of a diff, without the headers that name the file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UnifiedHunks {
    /// The hunks as text, each from its `@@`; empty if the texts are equal.
    pub text: String,
    /// The number of added lines.
    pub insertions: usize,
    /// The number of removed lines.
    pub deletions: usize,
}

/// Returns the hunks that turn `before` into `after`, with three lines of context.
pub fn diff_hunks(before: &str, after: &str) -> UnifiedHunks {
    diff_hunks_within(before, after, usize::MAX).expect("there is no more than that")
}

/// Returns the hunks that turn `before` into `after`; `None` if more than `max_bytes` would be compared line by line.
pub fn diff_hunks_within(before: &str, after: &str, max_bytes: usize) -> Option<UnifiedHunks> {
    let (start, end) = skippable_ends(before.as_bytes(), after.as_bytes());
    let (old, new) = (&before[start..before.len() - end], &after[start..after.len() - end]);
    if old.len() + new.len() > max_bytes {
        return None;
    }
    let skipped = count_newlines(&before.as_bytes()[..start]);
    let (old, new) = (split_lines(old), split_lines(new));
    let ops = capture_diff_slices(Algorithm::Myers, &old, &new);
    let mut hunks = UnifiedHunks::default();
    for group in group_diff_ops(ops, CONTEXT) {
        hunks.push_hunk(&group, &old, &new, skipped);
    }
    Some(hunks)
}

/// Returns the number of bytes at the beginning and at the end that need not be compared: whole lines that both texts
/// have, except for a margin next to the differing part.
fn skippable_ends(before: &[u8], after: &[u8]) -> (usize, usize) {
    let shorter = before.len().min(after.len());
    let start = common_prefix(before, after);
    // Where text repeats, prefix and suffix overlap (`aa` and `aaa`); no byte may count for both.
    let end = common_suffix(before, after).min(shorter - start);
    // The prefix may end inside a line and the suffix may begin inside one; such a line differs, so both are cut at a
    // newline.
    let newlines = memchr::memrchr_iter(b'\n', &before[..start]);
    let kept_start = newlines.map(|at| at + 1).nth(MARGIN).unwrap_or(0);
    let mut newlines = memchr::memchr_iter(b'\n', &before[before.len() - end..]);
    let kept_end = newlines.nth(MARGIN).map_or(0, |at| end - at - 1);
    (kept_start, kept_end)
}

impl UnifiedHunks {
    /// Adds a hunk. `old` and `new` lack the first `skipped` lines of the texts, which count in the line numbers.
    fn push_hunk(&mut self, ops: &[DiffOp], old: &[&str], new: &[&str], skipped: usize) {
        let (Some(first), Some(last)) = (ops.first(), ops.last()) else {
            return;
        };
        let before = first.old_range().start + skipped..last.old_range().end + skipped;
        let after = first.new_range().start + skipped..last.new_range().end + skipped;
        self.text
            .push_str(&format!("@@ -{} +{} @@\n", format_range(&before), format_range(&after)));
        for op in ops {
            match op {
                DiffOp::Equal { .. } => self.push_lines(' ', &old[op.old_range()]),
                // In a pure insertion or deletion, the range of the other side is empty.
                _ => {
                    self.push_lines('-', &old[op.old_range()]);
                    self.push_lines('+', &new[op.new_range()]);
                    self.deletions += op.old_range().len();
                    self.insertions += op.new_range().len();
                }
            }
        }
    }

    fn push_lines(&mut self, mark: char, lines: &[&str]) {
        for line in lines {
            let end = if line.ends_with('\n') {
                ""
            } else {
                "\n\\ No newline at end of file\n"
            };
            write!(self.text, "{mark}{line}{end}").expect("writing to a String does not fail");
        }
    }
}

fn split_lines(text: &str) -> Vec<&str> {
    text.split_inclusive('\n').collect()
}

/// Formats a range of lines as the header of a hunk counts them: an empty range names the line before it.
fn format_range(lines: &Range<usize>) -> String {
    match lines.len() {
        0 => format!("{},0", lines.start),
        1 => format!("{}", lines.start + 1),
        count => format!("{},{count}", lines.start + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hunks_count_their_lines_and_tell_a_missing_newline() {
        let shown = diff_hunks("a\nb\nc\n", "a\nB\nc");
        assert_eq!(
            shown.text,
            "@@ -1,3 +1,3 @@\n a\n-b\n-c\n+B\n+c\n\\ No newline at end of file\n"
        );
        assert_eq!((shown.insertions, shown.deletions), (2, 2));
    }

    #[test]
    fn what_is_alike_changes_nothing_but_the_work() {
        let lines = ["a\n", "b\n", "c\n", "a\n", "\n", "d"];
        let texts: Vec<String> = (0..1_000_u32)
            .map(|seed| {
                let count = seed % 14;
                let pick = |at: u32| lines[(seed.wrapping_mul(2_654_435_761).rotate_left(at * 3) % 6) as usize];
                (0..count).map(pick).collect()
            })
            .collect();
        for pair in texts.windows(2) {
            let many = |word: &str| {
                (0..99)
                    .map(|number| format!("{word} {}\n", number / 5))
                    .collect::<String>()
            };
            let around = |text: &str| format!("{}{text}{}", many("before"), many("after"));
            for (before, after) in [(pair[0].clone(), pair[1].clone()), (around(&pair[0]), around(&pair[1]))] {
                let (old, new) = (super::split_lines(&before), super::split_lines(&after));
                let mut expected = UnifiedHunks::default();
                for group in group_diff_ops(capture_diff_slices(Algorithm::Myers, &old, &new), CONTEXT) {
                    expected.push_hunk(&group, &old, &new, 0);
                }
                let shown = diff_hunks(&before, &after);
                assert_eq!(
                    (shown.insertions, shown.deletions),
                    (expected.insertions, expected.deletions),
                    "{before:?} {after:?}"
                );
                assert_eq!(shown, expected, "{before:?} {after:?}");
            }
        }
    }

    #[test]
    fn a_text_that_comes_or_goes_begins_at_line_0() {
        assert_eq!(diff_hunks("", "a\n").text, "@@ -0,0 +1 @@\n+a\n");
        assert_eq!(diff_hunks("a\nb\n", "").text, "@@ -1,2 +0,0 @@\n-a\n-b\n");
        assert_eq!(diff_hunks("a\n", "a\n"), UnifiedHunks::default());
    }

    #[test]
    fn a_lone_carriage_return_is_content() {
        assert_eq!(
            diff_hunks("a\rb", "a\rc").text,
            "@@ -1 +1 @@\n-a\rb\n\\ No newline at end of file\n+a\rc\n\\ No newline at end of file\n"
        );
    }
}
