//! A unified diff of two texts, to the byte: what it shows can be applied again.
//!
//! A line ends with `\n` and nothing else, as GNU `patch` and `git` have it, so a lone `\r` is content here.

use std::fmt::Write as _;
use std::ops::Range;

use similar::{Algorithm, DiffOp, capture_diff_slices, group_diff_ops};

/// Lines of context around a change.
const CONTEXT: usize = 3;

/// The hunks of a diff, without the headers that name the file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hunks {
    /// The hunks as text, each from its `@@`; empty where the texts are the same.
    pub text: String,
    /// How many lines came.
    pub insertions: usize,
    /// How many lines went.
    pub deletions: usize,
}

/// The hunks that lead from one text to the other, with three lines of context.
pub fn hunks(before: &str, after: &str) -> Hunks {
    let (old, new) = (lines(before), lines(after));
    let ops = capture_diff_slices(Algorithm::Myers, &old, &new);
    let mut hunks = Hunks::default();
    for group in group_diff_ops(ops, CONTEXT) {
        hunks.push(&group, &old, &new);
    }
    hunks
}

impl Hunks {
    fn push(&mut self, ops: &[DiffOp], old: &[&str], new: &[&str]) {
        let (Some(first), Some(last)) = (ops.first(), ops.last()) else {
            return;
        };
        let before = first.old_range().start..last.old_range().end;
        let after = first.new_range().start..last.new_range().end;
        self.text
            .push_str(&format!("@@ -{} +{} @@\n", span(&before), span(&after)));
        for op in ops {
            match op {
                DiffOp::Equal { .. } => self.lines(' ', &old[op.old_range()]),
                _ => {
                    self.lines('-', &old[op.old_range()]);
                    self.lines('+', &new[op.new_range()]);
                    self.deletions += op.old_range().len();
                    self.insertions += op.new_range().len();
                }
            }
        }
    }

    fn lines(&mut self, mark: char, lines: &[&str]) {
        for line in lines {
            let end = match line.ends_with('\n') {
                true => "",
                false => "\n\\ No newline at end of file\n",
            };
            write!(self.text, "{mark}{line}{end}").expect("writing to a String does not fail");
        }
    }
}

fn lines(text: &str) -> Vec<&str> {
    text.split_inclusive('\n').collect()
}

/// Lines as a hunk counts them: an empty span names the line before it.
fn span(lines: &Range<usize>) -> String {
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
        let shown = hunks("a\nb\nc\n", "a\nB\nc");
        assert_eq!(
            shown.text,
            "@@ -1,3 +1,3 @@\n a\n-b\n-c\n+B\n+c\n\\ No newline at end of file\n"
        );
        assert_eq!((shown.insertions, shown.deletions), (2, 2));
    }

    #[test]
    fn a_text_that_comes_or_goes_begins_at_line_0() {
        assert_eq!(hunks("", "a\n").text, "@@ -0,0 +1 @@\n+a\n");
        assert_eq!(hunks("a\nb\n", "").text, "@@ -1,2 +0,0 @@\n-a\n-b\n");
        assert_eq!(hunks("a\n", "a\n"), Hunks::default());
    }

    #[test]
    fn a_lone_carriage_return_is_content() {
        assert_eq!(
            hunks("a\rb", "a\rc").text,
            "@@ -1 +1 @@\n-a\rb\n\\ No newline at end of file\n+a\rc\n\\ No newline at end of file\n"
        );
    }
}
