//! `edit_file` as a pure function: replace text that is there exactly once, or say why not.
//!
//! Text is matched exactly and replaced literally. The one liberty is the line ending: `\n` in the text asked for also
//! matches `\r\n`, since a model never sees the difference, and the new lines then end as the lines they stand for do.
//! Everything else survives as it is: the final newline or its absence, a byte order mark, bytes that are not UTF-8.

mod error;
mod line_endings;
mod occurrences;

pub use error::{EditError, EditProblem};

use std::borrow::Cow;

use self::line_endings::LineEndingLookup;
use self::occurrences::TextOccurrences;
use super::lines;
use super::nearest::find_nearest;

/// The largest size of a result if the caller sets no limit.
pub const MAX_RESULT_BYTES: usize = 256 << 20;

const MAX_LISTED_LINES: usize = 10;

/// One replacement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edit {
    /// The text to find. It must not be empty.
    pub old_text: String,
    /// The text to put in its place, taken literally: `$1` and `\1` mean nothing special.
    pub new_text: String,
    /// Whether every occurrence is replaced; otherwise there must be exactly one.
    pub replace_all: bool,
    /// How many occurrences there must be. `None` and `Some(0)` leave it open.
    pub expected_replacements: Option<usize>,
    /// The most occurrences that are replaced, from the first on; the others stay. `None` and `Some(0)` set no limit.
    pub max_replacements: Option<usize>,
}

/// The outcome of edits that all applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EditedText {
    /// The new content of the whole file.
    pub content: Vec<u8>,
    /// The number of replacements, all edits together.
    pub replacements: usize,
    /// The occurrences that stay because of `max_replacements`, all edits together.
    pub occurrences_left: usize,
}

/// Applies edits in order, each to the result of the one before; all of them or none.
///
/// Fails as [`EditError`] with the number of the edit at fault. A result beyond [`MAX_RESULT_BYTES`] is refused before
/// it is built.
pub fn apply_edits(original: &[u8], edits: &[Edit]) -> Result<EditedText, EditError> {
    apply_edits_within(original, edits, MAX_RESULT_BYTES)
}

/// Applies edits in order, each to the result of the one before; all of them or none.
///
/// Fails as [`EditError`] with the number of the edit at fault. A result beyond `max_bytes` is refused.
pub fn apply_edits_within(original: &[u8], edits: &[Edit], max_bytes: usize) -> Result<EditedText, EditError> {
    if edits.is_empty() {
        return Err(EditError {
            number: 0,
            of: 0,
            problem: EditProblem::NoEdits,
        });
    }
    let mut content = Cow::Borrowed(original);
    let (mut replacements, mut occurrences_left) = (0, 0);
    for (index, edit) in edits.iter().enumerate() {
        let fail = |problem| EditError {
            number: index + 1,
            of: edits.len(),
            problem,
        };
        let mut chosen = choose_occurrences(&content, edit)
            .map_err(|problem| fail(blame_earlier_edit(problem, original, edit, index)))?;
        if let Some(most) = edit.max_replacements.filter(|most| *most > 0) {
            occurrences_left += chosen.ranges.len().saturating_sub(most);
            chosen.ranges.truncate(most);
        }
        content = replace_occurrences(&content, &chosen, edit, max_bytes)
            .map_err(fail)?
            .into();
        replacements += chosen.ranges.len();
    }
    Ok(EditedText {
        content: content.into_owned(),
        replacements,
        occurrences_left,
    })
}

/// Picks the occurrences to replace.
fn choose_occurrences(content: &[u8], edit: &Edit) -> Result<TextOccurrences, EditProblem> {
    if edit.old_text.is_empty() {
        return Err(EditProblem::EmptyOldText {
            file_is_empty: content.is_empty(),
        });
    }
    if edit.old_text == edit.new_text {
        return Err(EditProblem::SameText);
    }
    // A caller that sets a limit wants the first occurrences, however many there are.
    let replace_all = edit.replace_all || edit.max_replacements.is_some_and(|most| most > 0);
    let found = occurrences::find_occurrences(content, &edit.old_text, replace_all);
    let expected = edit.expected_replacements.filter(|count| *count > 0);
    match (found.ranges.len(), expected) {
        (0, _) => Err(not_found_problem(content, edit)),
        (count, Some(expected)) if count != expected => Err(EditProblem::WrongCount {
            expected,
            found: count,
            lines: first_line_numbers(content, &found),
        }),
        // Occurrences are counted without overlap, so a single one may still be ambiguous.
        (1, _) if !replace_all => {
            occurrences::check_unique(content, found, &edit.old_text).map_err(|both| ambiguity_problem(content, &both))
        }
        (_, None) if !replace_all => Err(ambiguity_problem(content, &found)),
        _ => Ok(found),
    }
}

fn ambiguity_problem(content: &[u8], found: &TextOccurrences) -> EditProblem {
    EditProblem::NotUnique {
        found: found.ranges.len(),
        lines: first_line_numbers(content, found),
    }
}

fn first_line_numbers(content: &[u8], found: &TextOccurrences) -> Vec<usize> {
    let mut listed = Vec::new();
    let (mut line, mut passed) = (1, 0);
    for range in found.ranges.iter().take(MAX_LISTED_LINES) {
        line += lines::count_newlines(&content[passed..range.start]);
        passed = range.start;
        listed.push(line);
    }
    listed
}

fn not_found_problem(content: &[u8], edit: &Edit) -> EditProblem {
    // Short text is in most files by chance; only longer text shows that the edit was made before.
    let telling = edit.new_text.trim().len() >= 12;
    let already_at = lines::find_all(content, &edit.new_text).next().filter(|_| telling);
    EditProblem::NotFound {
        nearest: find_nearest(content, &edit.old_text),
        new_text_at_line: already_at.map(|at| lines::line_number_at(content, at)),
        was_there_before: false,
        is_binary: content.contains(&0),
    }
}

/// Notes that the text was in the file until an earlier edit of the same call changed it.
fn blame_earlier_edit(mut problem: EditProblem, original: &[u8], edit: &Edit, index: usize) -> EditProblem {
    if let EditProblem::NotFound { was_there_before, .. } = &mut problem {
        let before = occurrences::find_occurrences(original, &edit.old_text, false);
        *was_there_before = index > 0 && !before.ranges.is_empty();
    }
    problem
}

fn replace_occurrences(
    content: &[u8],
    chosen: &TextOccurrences,
    edit: &Edit,
    max_bytes: usize,
) -> Result<Vec<u8>, EditProblem> {
    let old_size: usize = chosen.ranges.iter().map(ExactSizeIterator::len).sum();
    // Checked before the result is allocated: one call can ask for terabytes. Each line of the new text may still gain a
    // carriage return, so the size is checked again below.
    let new_size = edit.new_text.len().saturating_mul(chosen.ranges.len());
    let size = (content.len() - old_size).saturating_add(new_size);
    if size > max_bytes {
        return Err(EditProblem::TooLarge { size, max_bytes });
    }
    let mut out = Vec::with_capacity(size);
    let mut passed = 0;
    let mut line_endings = LineEndingLookup::for_content(content);
    for range in &chosen.ranges {
        out.extend_from_slice(&content[passed..range.start]);
        line_endings::write_replacement(&mut out, &mut line_endings, range, edit);
        passed = range.end;
    }
    out.extend_from_slice(&content[passed..]);
    if out.len() > max_bytes {
        return Err(EditProblem::TooLarge {
            size: out.len(),
            max_bytes,
        });
    }
    // New text that differs from the old only in its line endings may come out the same.
    if out == content {
        Err(EditProblem::SameText)
    } else {
        Ok(out)
    }
}

#[cfg(test)]
mod tests;
