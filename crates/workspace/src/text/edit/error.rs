//! The failures of an edit, in words made for a model.

use std::fmt;

use garret_core::ErrorKind;

use crate::text::lines::list_numbers;
use crate::text::nearest::{NearMatches, TextDifference};

/// An edit that did not apply. No edit of the same call did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EditError {
    /// The 1-based number of the edit at fault; 0 when there was none.
    pub number: usize,
    /// How many edits the call had.
    pub of: usize,
    /// The reason for the failure.
    pub problem: EditProblem,
}

/// The reason for which an edit did not apply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EditProblem {
    /// The call holds no edit.
    NoEdits,
    /// `old_text` is empty, so it names no place in the file.
    EmptyOldText {
        /// Whether the file has no content either.
        file_is_empty: bool,
    },
    /// The edit would change nothing.
    SameText,
    /// `old_text` is not in the file.
    NotFound {
        /// The places that come nearest.
        nearest: NearMatches,
        /// The line at which the file already has `new_text`.
        new_text_at_line: Option<usize>,
        /// Whether the file had the text until an earlier edit of the same call changed it.
        was_there_before: bool,
        /// Whether the file holds NUL bytes.
        is_binary: bool,
    },
    /// `old_text` is in the file more than once.
    NotUnique {
        /// The number of occurrences.
        found: usize,
        /// The lines of the first few occurrences.
        lines: Vec<usize>,
    },
    /// `old_text` is not in the file as often as expected.
    WrongCount {
        /// `expected_replacements`.
        expected: usize,
        /// The number of occurrences.
        found: usize,
        /// The lines of the first few occurrences.
        lines: Vec<usize>,
    },
    /// The result would pass the limit.
    TooLarge {
        /// The size of the result, in bytes.
        size: usize,
        /// The limit, in bytes.
        max_bytes: usize,
    },
}

impl EditError {
    /// Returns the kind of failure, which decides the next step of the caller.
    pub fn kind(&self) -> ErrorKind {
        match self.problem {
            EditProblem::TooLarge { .. } => ErrorKind::TooLarge,
            _ => ErrorKind::Invalid,
        }
    }

    /// Returns advice for the next attempt.
    pub fn hint(&self) -> String {
        match &self.problem {
            EditProblem::NoEdits => "Give at least one edit with old_text and new_text.".to_owned(),
            EditProblem::EmptyOldText { .. } => {
                "Use write_file to set the whole content, append_file to add at the end, or name text of the file next to which to insert.".to_owned()
            }
            EditProblem::SameText => "Leave this edit out, or give a new_text that differs.".to_owned(),
            EditProblem::NotFound { .. } => self.not_found_hint(),
            EditProblem::NotUnique { .. } => {
                "Add lines around it to old_text until it is unique, or set replace_all to true, or expected_replacements to the count.".to_owned()
            }
            EditProblem::WrongCount { .. } => {
                "Read those lines; correct expected_replacements, or narrow old_text with the lines around it.".to_owned()
            }
            EditProblem::TooLarge { .. } => "Replace fewer occurrences, or with shorter text.".to_owned(),
        }
    }

    fn not_found_hint(&self) -> String {
        let EditProblem::NotFound {
            nearest,
            new_text_at_line,
            was_there_before,
            is_binary,
        } = &self.problem
        else {
            return String::new();
        };
        // A known cause is better advice than the nearest lines, which only show a symptom of it.
        if *was_there_before {
            return "An earlier edit of this call changed that text; edits apply in order, each to the result of the one before.".to_owned();
        }
        if let Some(line) = new_text_at_line {
            return format!("new_text is already in the file at line {line}: this edit may have been made before.");
        }
        if *is_binary {
            return "The file holds NUL bytes: it is binary, or text in UTF-16. Read it as base64 and write it whole."
                .to_owned();
        }
        match nearest.candidates.first().and_then(|best| best.differences.first()) {
            None => "Read the file again and copy old_text from it.".to_owned(),
            Some(TextDifference::Text) => {
                "If that is the place, copy old_text from the lines above; otherwise read the file again.".to_owned()
            }
            Some(TextDifference::LineNumbers) => "Leave the line numbers out of old_text and new_text.".to_owned(),
            Some(TextDifference::Escapes) => {
                "Write real newlines, tabs and quotes in old_text and new_text.".to_owned()
            }
            Some(TextDifference::NoFinalNewline) => {
                "Leave out the newline at the end of old_text, and of new_text.".to_owned()
            }
            Some(_) => "Copy old_text exactly as the lines above have it, whitespace included.".to_owned(),
        }
    }
}

impl fmt::Display for EditError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.of > 1 {
            write!(f, "edit {} of {}: ", self.number, self.of)?;
        }
        write!(f, "{}", self.problem)?;
        if self.of > 1 {
            f.write_str("\nNone of the edits was applied.")
        } else {
            Ok(())
        }
    }
}

impl fmt::Display for EditProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EditProblem::NoEdits => f.write_str("there is no edit to apply"),
            EditProblem::EmptyOldText { file_is_empty: false } => {
                f.write_str("old_text is empty, so it names no place in the file")
            }
            EditProblem::EmptyOldText { file_is_empty: true } => f.write_str("old_text is empty, and so is the file"),
            EditProblem::SameText => f.write_str("nothing would change: new_text is the same as the text it replaces"),
            EditProblem::NotFound { nearest, .. } => write!(f, "old_text was not found. {nearest}"),
            EditProblem::NotUnique { found, lines } => {
                write!(
                    f,
                    "old_text occurs {found} times, at lines {}, and must be unique",
                    list_numbers(lines, *found)
                )
            }
            EditProblem::WrongCount { expected, found, lines } => write!(
                f,
                "old_text occurs {found} time(s), at line(s) {}, and {expected} replacement(s) were expected",
                list_numbers(lines, *found)
            ),
            EditProblem::TooLarge { size, max_bytes } => {
                write!(f, "the result would be {size} bytes, and the limit is {max_bytes}")
            }
        }
    }
}

impl std::error::Error for EditError {}
