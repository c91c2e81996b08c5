//! How the lines of a replacement end: as the lines they stand for do.

use std::ops::Range;

use super::Edit;
use crate::text::lines::{self, Ending, Line};

/// Appends the new text for one occurrence, with the line endings that its place in the file asks for.
pub(super) fn write_replacement(out: &mut Vec<u8>, content: &[u8], range: &Range<usize>, edit: &Edit) {
    let found = &content[range.clone()];
    let new_text = edit.new_text.as_bytes();
    if found != edit.old_text.as_bytes() {
        write_like(out, found, &edit.new_text.replace("\r\n", "\n"));
    } else if edit.old_text.contains('\n') || edit.new_text.contains('\r') {
        out.extend_from_slice(new_text);
    } else {
        let ending = ending_around(content, range);
        lines::split(new_text).for_each(|line| write_line(out, line, ending));
    }
}

/// Writes `new_text` with the endings of the `found` lines: lines that stayed keep theirs, changed ones take the ending
/// of the line they replace, further ones that of the last line replaced.
fn write_like(out: &mut Vec<u8>, found: &[u8], new_text: &str) {
    let old: Vec<Line<'_>> = lines::split(found).collect();
    let new: Vec<Line<'_>> = lines::split(new_text.as_bytes()).collect();
    let same = |(a, b): &(&Line<'_>, &Line<'_>)| a.text == b.text;
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

fn write_line(out: &mut Vec<u8>, line: Line<'_>, ending: Ending) {
    out.extend_from_slice(line.text);
    if line.ending != Ending::None {
        out.extend_from_slice(ending.bytes());
    }
}

/// Returns the ending of a line; for one cut short, that of the nearest line with an ending.
fn ending_at_or_before(old: &[Line<'_>], index: usize) -> Ending {
    let ended = |line: &&Line<'_>| line.ending != Ending::None;
    let before = old[..=index].iter().rev().find(ended);
    before
        .or_else(|| old.iter().find(ended))
        .map_or(Ending::Lf, |line| line.ending)
}

/// Returns how the line around an occurrence ends; for the last line of a file, how the one before it does.
fn ending_around(content: &[u8], range: &Range<usize>) -> Ending {
    let is_newline = |byte: &u8| *byte == b'\n';
    let after = content[range.end..]
        .iter()
        .position(is_newline)
        .map(|at| range.end + at);
    let newline = after.or_else(|| content[..range.start].iter().rposition(is_newline));
    match newline {
        Some(at) if at > 0 && content[at - 1] == b'\r' => Ending::CrLf,
        _ => Ending::Lf,
    }
}
