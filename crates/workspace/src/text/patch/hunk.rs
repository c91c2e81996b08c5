//! Reads hunks: the `@@` line and the lines below it, whose end has to be found when the counts cannot be trusted.

use super::{Hunk, HunkLine, LineKind, PatchError, PatchProblem};
use crate::text::lines::{self, LineEnding, TextLine};

/// The numbers of an `@@` line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct HunkNumbers {
    old_start: usize,
    old_count: usize,
    new_start: usize,
    new_count: usize,
}

/// Reads the hunk whose `@@` is at `at`; returns it and the index of the first line after it.
pub(super) fn read_hunk(lines: &[TextLine<'_>], at: usize, number: usize) -> Result<(Hunk, usize), PatchError> {
    let numbers = parse_numbers(lines[at].text);
    let counted = numbers.and_then(|numbers| end_by_count(lines, at + 1, numbers));
    // Models miscount; then the looks of the lines decide.
    let end = match counted {
        Some(end) => end,
        None => end_by_looks(lines, at + 1)?,
    };
    let (body, bare_tail) = read_body(lines, at + 1, end)?;
    let hunk = Hunk {
        number,
        patch_line: at + 1,
        old_start: numbers.map(|numbers| numbers.old_start),
        new_start: numbers.map(|numbers| numbers.new_start),
        lines: body,
        bare_tail,
    };
    Ok((hunk, end))
}

/// Reads `@@ -1,2 +3,4 @@`; `None` when the numbers are missing or make no sense.
fn parse_numbers(header: &[u8]) -> Option<HunkNumbers> {
    let header = String::from_utf8_lossy(header);
    let mut words = header.strip_prefix("@@")?.split_whitespace();
    let (old_start, old_count) = parse_range(words.next()?.strip_prefix('-')?)?;
    let (new_start, new_count) = parse_range(words.next()?.strip_prefix('+')?)?;
    Some(HunkNumbers {
        old_start,
        old_count,
        new_start,
        new_count,
    })
}

fn parse_range(range: &str) -> Option<(usize, usize)> {
    let range = range.trim_end_matches('@');
    let (start, count) = range.split_once(',').unwrap_or((range, "1"));
    Some((start.parse().ok()?, count.parse().ok()?))
}

/// Returns the end of the hunk by its counts; `None` if the lines contradict the counts.
fn end_by_count(lines: &[TextLine<'_>], from: usize, numbers: HunkNumbers) -> Option<usize> {
    let (mut old, mut new) = (numbers.old_count, numbers.new_count);
    let mut at = from;
    while old > 0 || new > 0 {
        match parse_prefix(lines.get(at)?)? {
            HunkLinePrefix::Line(LineKind::Context) => (old, new) = (old.checked_sub(1)?, new.checked_sub(1)?),
            HunkLinePrefix::Line(LineKind::Remove) => old = old.checked_sub(1)?,
            HunkLinePrefix::Line(LineKind::Add) => new = new.checked_sub(1)?,
            HunkLinePrefix::NoNewline => {}
        }
        at += 1;
    }
    if lines.get(at).is_some_and(|line| line.text.starts_with(b"\\")) {
        at += 1;
    }
    // A further line of a hunk shows that the counts are too small. Blank lines before it prove nothing: they may be
    // prose.
    let next = lines[at..]
        .iter()
        .position(|line| !line.text.is_empty())
        .map(|skipped| at + skipped);
    let goes_on = next.is_some_and(|next| parse_prefix(&lines[next]).is_some() && !is_boundary(lines, next));
    (!goes_on).then_some(at)
}

/// Returns the end of the hunk by the looks of its lines; blank lines at the end do not belong to it.
fn end_by_looks(lines: &[TextLine<'_>], from: usize) -> Result<usize, PatchError> {
    let ends = |at: &usize| parse_prefix(&lines[*at]).is_none() || is_boundary(lines, *at);
    let stop = (from..lines.len()).find(ends).unwrap_or(lines.len());
    // A line that lost its prefix must not end the hunk: the changes after it would be lost without a word.
    if let Some(line) = lines
        .get(stop)
        .filter(|_| !is_boundary(lines, stop) && changes_follow(lines, stop))
    {
        let (patch_line, text) = (stop + 1, lines::show_line(line.text, 120));
        return Err(PatchProblem::Unprefixed { patch_line, text }.into());
    }
    let blank = lines[from..stop]
        .iter()
        .rev()
        .take_while(|line| line.text.is_empty())
        .count();
    Ok(stop - blank)
}

/// Returns whether `+` or `-` lines come before the next header, which shows that the line at `from` lost its prefix.
fn changes_follow(lines: &[TextLine<'_>], from: usize) -> bool {
    let rest = (from + 1..lines.len()).take_while(|at| !is_boundary(lines, *at));
    rest.into_iter()
        .any(|at| matches!(lines[at].text.first(), Some(b'+' | b'-')))
}

enum HunkLinePrefix {
    Line(LineKind),
    NoNewline,
}

fn parse_prefix(line: &TextLine<'_>) -> Option<HunkLinePrefix> {
    match line.text.first() {
        // An empty line is a blank context line that lost its space, as models and editors write it.
        None | Some(b' ') => Some(HunkLinePrefix::Line(LineKind::Context)),
        Some(b'-') => Some(HunkLinePrefix::Line(LineKind::Remove)),
        Some(b'+') => Some(HunkLinePrefix::Line(LineKind::Add)),
        Some(b'\\') => Some(HunkLinePrefix::NoNewline),
        Some(_) => None,
    }
}

/// Returns whether a line begins something else: a hunk, a file, the end of a code fence, a mail signature.
pub(super) fn is_boundary(lines: &[TextLine<'_>], at: usize) -> bool {
    let text = lines[at].text;
    let marks: [&[u8]; 6] = [b"@@", b"diff ", b"```", b"~~~", b"Index: ", b"*** End Patch"];
    marks.iter().any(|mark| text.starts_with(mark)) || is_file_header(lines, at) || is_signature(lines, at)
}

/// Returns whether `---` and `+++` lines begin here.
pub(super) fn is_file_header(lines: &[TextLine<'_>], at: usize) -> bool {
    let next_is_new = lines.get(at + 1).is_some_and(|line| line.text.starts_with(b"+++ "));
    lines[at].text.starts_with(b"--- ") && next_is_new
}

/// Returns whether the `-- ` and the version are here with which `git format-patch` ends.
fn is_signature(lines: &[TextLine<'_>], at: usize) -> bool {
    let is_version = |line: &TextLine<'_>| line.text.first().is_none_or(u8::is_ascii_digit);
    matches!(lines[at].text, b"-- " | b"--") && lines.get(at + 1).is_none_or(is_version)
}

fn read_body(lines: &[TextLine<'_>], from: usize, end: usize) -> Result<(Vec<HunkLine>, usize), PatchError> {
    let mut body: Vec<HunkLine> = Vec::with_capacity(end - from);
    let mut bare_tail = 0;
    for (at, line) in lines.iter().enumerate().take(end).skip(from) {
        match parse_prefix(line).expect("the hunk ends before a line that is not one of its own") {
            HunkLinePrefix::Line(kind) => {
                bare_tail = if line.text.is_empty() { bare_tail + 1 } else { 0 };
                body.push(read_line(line, kind, at));
            }
            HunkLinePrefix::NoNewline => end_without_newline(body.last_mut(), at)?,
        }
    }
    if body.is_empty() {
        return Err(PatchError::malformed(from, "the hunk has no lines"));
    }
    Ok((body, bare_tail))
}

fn read_line(line: &TextLine<'_>, kind: LineKind, at: usize) -> HunkLine {
    // The patch itself may lack a final newline; that says nothing about the file.
    let ending = if line.ending == LineEnding::None {
        LineEnding::Lf
    } else {
        line.ending
    };
    HunkLine {
        kind,
        text: line.text.get(1..).unwrap_or_default().to_vec(),
        ending,
        patch_line: at + 1,
    }
}

fn end_without_newline(last: Option<&mut HunkLine>, at: usize) -> Result<(), PatchError> {
    let line = last.ok_or_else(|| PatchError::malformed(at + 1, "\"\\ No newline\" follows no line"))?;
    // Without its `\n`, the `\r` is content of the line.
    if line.ending == LineEnding::CrLf {
        line.text.push(b'\r');
    }
    line.ending = LineEnding::None;
    Ok(())
}
