//! Line endings of a replacement: each new line ends as the line that it stands for does.

use std::ops::Range;

use super::Edit;
use crate::text::lines::{self, LineEnding, TextLine};

/// Looks up the line endings of a file, in the order of the file.
pub(super) struct LineEndingLookup<'a> {
    content: &'a [u8],
    /// The last answer, and the offset of the newline up to which it holds.
    known: Option<(usize, LineEnding)>,
}

impl<'a> LineEndingLookup<'a> {
    pub(super) fn for_content(content: &'a [u8]) -> Self {
        Self { content, known: None }
    }

    /// Returns the ending of the line around an occurrence; for a last line without an ending, that of the line before.
    fn find_ending(&mut self, range: &Range<usize>) -> LineEnding {
        // The last answer is used again, so that many occurrences in one long line cost one search for its newline.
        match self.known {
            Some((newline, ending)) if range.end <= newline => ending,
            _ => {
                let (newline, ending) = ending_around(self.content, range);
                self.known = Some((newline, ending));
                ending
            }
        }
    }
}

/// Appends the new text for one occurrence, with the line endings that its place in the file asks for.
pub(super) fn write_replacement(
    out: &mut Vec<u8>,
    endings: &mut LineEndingLookup<'_>,
    range: &Range<usize>,
    edit: &Edit,
) {
    let found = &endings.content[range.clone()];
    let new_text = edit.new_text.as_bytes();
    if found != edit.old_text.as_bytes() {
        // The occurrence was matched with other line endings than those asked for, and keeps the ones it has.
        write_like(out, found, &edit.new_text.replace("\r\n", "\n"));
    } else if edit.old_text.contains('\n') || edit.new_text.contains('\r') || !edit.new_text.contains('\n') {
        // The line endings agree with the file, or the edit names them itself, or there are none to adapt.
        out.extend_from_slice(new_text);
    } else {
        // The text asked for shows no line ending, so the line around it decides.
        let ending = endings.find_ending(range);
        lines::split_lines(new_text).for_each(|line| write_line(out, line, ending));
    }
}

/// Writes `new_text` with the endings of the `found` lines: lines that stayed keep theirs, changed ones take the ending
/// of the line they replace, further ones that of the last line replaced.
fn write_like(out: &mut Vec<u8>, found: &[u8], new_text: &str) {
    let old: Vec<TextLine<'_>> = lines::split_lines(found).collect();
    let new: Vec<TextLine<'_>> = lines::split_lines(new_text.as_bytes()).collect();
    let same = |(a, b): &(&TextLine<'_>, &TextLine<'_>)| a.text == b.text;
    let head = old.iter().zip(&new).take_while(same).count();
    let room = old.len().min(new.len()) - head;
    let tail = old
        .iter()
        .rev()
        .zip(new.iter().rev())
        .take_while(same)
        .count()
        .min(room);
    let last_replaced = (old.len() - tail).saturating_sub(1);
    for (index, line) in new.iter().enumerate() {
        let from_end = new.len() - index;
        let twin = if from_end <= tail {
            old.len() - from_end
        } else {
            index.min(last_replaced)
        };
        write_line(out, *line, ending_at_or_before(&old, twin));
    }
}

fn write_line(out: &mut Vec<u8>, line: TextLine<'_>, ending: LineEnding) {
    out.extend_from_slice(line.text);
    if line.ending != LineEnding::None {
        out.extend_from_slice(ending.bytes());
    }
}

/// Returns the ending of a line; for one cut short, that of the nearest line with an ending.
fn ending_at_or_before(old: &[TextLine<'_>], index: usize) -> LineEnding {
    let ended = |line: &&TextLine<'_>| line.ending != LineEnding::None;
    let before = old[..=index].iter().rev().find(ended);
    before
        .or_else(|| old.iter().find(ended))
        .map_or(LineEnding::Lf, |line| line.ending)
}

/// Returns the ending of the line around an occurrence, and the offset of the newline up to which it holds. After the
/// last newline of a file, the ending holds for all the rest.
fn ending_around(content: &[u8], range: &Range<usize>) -> (usize, LineEnding) {
    let after = memchr::memchr(b'\n', &content[range.end..]).map(|at| range.end + at);
    let newline = after.or_else(|| memchr::memrchr(b'\n', &content[..range.start]));
    let ending = match newline {
        Some(at) if at > 0 && content[at - 1] == b'\r' => LineEnding::CrLf,
        _ => LineEnding::Lf,
    };
    (after.unwrap_or(usize::MAX), ending)
}
