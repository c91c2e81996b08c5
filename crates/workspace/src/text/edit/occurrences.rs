//! Finds the occurrences of text in a file, exactly or with `\n` standing for `\r\n`.

use std::ops::Range;

use crate::text::lines;

/// The byte ranges at which text occurs, left to right, none overlapping the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TextOccurrences {
    pub(super) ranges: Vec<Range<usize>>,
}

/// Finds the occurrences of the text that an edit names.
///
/// An exact match wins over one that differs in line endings. For `replace_all` both kinds count, so that no occurrence
/// is missed in a file of mixed endings; text that contains `\r` itself is taken literally if it occurs so.
pub(super) fn find_occurrences(content: &[u8], wanted: &str, replace_all: bool) -> TextOccurrences {
    let loose = || find_loosely(content, wanted);
    if replace_all && wanted.contains('\n') && !wanted.contains('\r') {
        return loose();
    }
    let exact = find_exactly(content, wanted);
    if exact.ranges.is_empty() && wanted.contains('\n') {
        loose()
    } else {
        exact
    }
}

/// Confirms that the one occurrence has none overlapping it (`aa` occurs twice in `aaa`); otherwise returns both.
pub(super) fn check_unique(
    content: &[u8],
    found: TextOccurrences,
    wanted: &str,
) -> Result<TextOccurrences, TextOccurrences> {
    let only = found.ranges[0].clone();
    let is_exact = content[only.clone()] == *wanted.as_bytes();
    // One byte further would be inside a `\r\n`, and its `\n` alone would look like another occurrence.
    let step = if content[only.clone()].starts_with(b"\r\n") {
        2
    } else {
        1
    };
    // An overlapping occurrence ends at most one length of the text after this one, with a byte more for each newline.
    let from = only.start + step;
    let to = (only.end + 2 * wanted.len()).min(content.len());
    let rest = find_occurrences(&content[from..to], wanted, false);
    let second = rest.ranges.first().map(|range| range.start + from..range.end + from);
    // An exact occurrence stays unique beside one that differs in line endings.
    match second {
        Some(second) if !is_exact || content[second.clone()] == *wanted.as_bytes() => Err(TextOccurrences {
            ranges: vec![only, second],
        }),
        _ => Ok(found),
    }
}

fn find_exactly(content: &[u8], wanted: &str) -> TextOccurrences {
    // A match that begins between `\r` and `\n` would split a line ending; the loose search matches all of it.
    let tears = |at: usize| wanted.starts_with('\n') && at > 0 && content[at - 1] == b'\r';
    let starts = lines::find_all(content, wanted).filter(|at| !tears(*at));
    TextOccurrences {
        ranges: starts.map(|at| at..at + wanted.len()).collect(),
    }
}

fn find_loosely(content: &[u8], wanted: &str) -> TextOccurrences {
    let plain = wanted.replace("\r\n", "\n");
    let unified = UnifiedContent::new(content);
    let starts = lines::find_all(&unified.bytes, &plain);
    TextOccurrences {
        ranges: starts
            .map(|at| unified.original_offset(at)..unified.original_offset(at + plain.len()))
            .collect(),
    }
}

/// A file with every `\r\n` replaced by `\n`, and the map back to the original offsets.
struct UnifiedContent {
    bytes: Vec<u8>,
    /// The offsets in `bytes` of the newlines that lost their carriage return, ascending.
    shortened: Vec<usize>,
}

impl UnifiedContent {
    fn new(content: &[u8]) -> Self {
        let mut unified = UnifiedContent {
            bytes: Vec::with_capacity(content.len()),
            shortened: Vec::new(),
        };
        for line in lines::split_lines(content) {
            unified.bytes.extend_from_slice(line.text);
            if line.ending == lines::LineEnding::CrLf {
                unified.shortened.push(unified.bytes.len());
            }
            if line.ending != lines::LineEnding::None {
                unified.bytes.push(b'\n');
            }
        }
        unified
    }

    /// Returns the original offset; for a newline that lost its carriage return, the offset of the carriage return.
    fn original_offset(&self, offset: usize) -> usize {
        offset + self.shortened.partition_point(|shortened| *shortened < offset)
    }
}
