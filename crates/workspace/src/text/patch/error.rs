//! The failures of a patch, in words made for a model.

use std::fmt;

use garret_core::ErrorKind;

use super::{Hunk, PatchAction};
use crate::text::lines::list_numbers;
use crate::text::nearest::NearMatches;

/// The shape a patch must have, as shown to a model that sent something else.
const SHAPE: &str = "\
--- a/path/to/file
+++ b/path/to/file
@@ -1,3 +1,3 @@
 an unchanged line
-a removed line
+an added line
 an unchanged line";

/// A patch that cannot be read, or does not apply. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatchError {
    /// The file at fault, as the patch names it.
    pub path: Option<String>,
    /// The reason for the failure.
    pub problem: PatchProblem,
}

/// The reason for which a patch cannot be read, or does not apply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PatchProblem {
    /// No file is named.
    NoFiles,
    /// It is a patch, in another format.
    OtherFormat {
        /// The line of the patch that shows it.
        patch_line: usize,
        /// The name of the format.
        name: &'static str,
    },
    /// A line of the patch makes no sense.
    Malformed {
        /// The line of the patch.
        patch_line: usize,
        /// The defect of that line.
        what: &'static str,
    },
    /// A hunk comes before any file is named.
    NoFileBeforeHunk {
        /// The line of the patch.
        patch_line: usize,
    },
    /// A line inside a hunk begins with none of ` `, `+` and `-`.
    Unprefixed {
        /// The line of the patch.
        patch_line: usize,
        /// The line itself.
        text: String,
    },
    /// A file is named, and nothing is said about it.
    NoHunks {
        /// The line of the patch.
        patch_line: usize,
    },
    /// The file would stay as it is.
    ChangesNothing,
    /// The patch of a binary file.
    Binary,
    /// The patch of a link or a submodule.
    NotAFile,
    /// Two parts of the patch contradict each other about one file.
    NamedTwice,
    /// The file to change does not exist.
    Missing,
    /// The file to create exists.
    AlreadyExists,
    /// A created file has lines that were there before, or a deleted one has lines that stay.
    NotWhole {
        /// The line of the patch.
        patch_line: usize,
        /// The kind of change that the patch makes to the file.
        action: PatchAction,
    },
    /// A file to delete has more lines than the patch shows.
    DeletesMore {
        /// The number of lines that the patch shows.
        shown: usize,
        /// The number of lines that the file has.
        lines: usize,
    },
    /// The file is not as the hunk has it.
    Mismatch(Box<HunkMismatch>),
    /// The hunk has no place, or no certain one.
    Misplaced {
        /// The number of the hunk within the file.
        hunk: usize,
        /// The line of the patch.
        patch_line: usize,
        /// The reason.
        problem: PlaceProblem,
    },
}

/// The reason for which a hunk cannot be put into its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlaceProblem {
    /// The hunk fits several places equally well.
    Ambiguous {
        /// The first few lines of the file at which it fits.
        lines: Vec<usize>,
        /// The number of all such lines.
        count: usize,
        /// Whether the hunk names its line.
        has_numbers: bool,
    },
    /// The hunk overlaps the one before it, or belongs before it.
    OutOfOrder {
        /// The line of the file at which it belongs.
        line: usize,
    },
    /// The hunk only adds lines, and names no line of the file for them.
    NoPlace,
    /// The hunk only adds lines, beyond the end of the file.
    PastEnd {
        /// The line of the file after which the hunk puts them.
        line: usize,
        /// The number of lines that the file has.
        lines: usize,
    },
}

/// A line of a hunk that is not in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HunkMismatch {
    /// The number of the hunk within the file.
    pub hunk: usize,
    /// The line of the patch that does not fit.
    pub patch_line: usize,
    /// The line of the file at which it was expected, if the hunk is put at the place that agrees best with it.
    pub line: usize,
    /// The line as the patch has it, quoted.
    pub wanted: String,
    /// The line as the file has it, quoted; `None` past its end.
    pub found: Option<String>,
    /// Whether the patch says that the file ends there without a newline.
    pub wants_no_newline: bool,
    /// The lines of the file around that line, each with its number.
    pub around: Vec<(usize, String)>,
    /// The places of the file that come nearest to the hunk.
    pub nearest: NearMatches,
    /// The line at which the file already has the result of the hunk.
    pub applied_at_line: Option<usize>,
}

impl PatchProblem {
    pub(super) fn in_file(self, path: &str) -> PatchError {
        PatchError {
            path: Some(path.to_owned()),
            problem: self,
        }
    }
}

impl PlaceProblem {
    pub(super) fn of_hunk(self, hunk: &Hunk) -> PatchProblem {
        PatchProblem::Misplaced {
            hunk: hunk.number,
            patch_line: hunk.patch_line,
            problem: self,
        }
    }
}

impl From<PatchProblem> for PatchError {
    fn from(problem: PatchProblem) -> Self {
        PatchError { path: None, problem }
    }
}

impl PatchError {
    pub(super) fn malformed(patch_line: usize, what: &'static str) -> Self {
        PatchProblem::Malformed { patch_line, what }.into()
    }

    /// Returns the kind of failure, which decides the next step of the caller.
    pub fn kind(&self) -> ErrorKind {
        match self.problem {
            PatchProblem::Binary | PatchProblem::NotAFile => ErrorKind::Unsupported,
            PatchProblem::Missing => ErrorKind::NotFound,
            PatchProblem::AlreadyExists => ErrorKind::AlreadyExists,
            _ => ErrorKind::Invalid,
        }
    }

    /// Returns advice for the next attempt.
    pub fn hint(&self) -> String {
        let hint = match &self.problem {
            PatchProblem::NoFiles
            | PatchProblem::OtherFormat { .. }
            | PatchProblem::NoFileBeforeHunk { .. }
            | PatchProblem::NoHunks { .. } => return format!("Send a unified diff:\n{SHAPE}"),
            PatchProblem::Mismatch(mismatch) => return mismatch.hint(),
            PatchProblem::Malformed { .. } => "Correct that line of the patch.",
            PatchProblem::Unprefixed { .. } => {
                "Begin each line of a hunk with a space (unchanged), - (removed) or + (added)."
            }
            PatchProblem::ChangesNothing => "Leave this file out, or give the lines to remove and add.",
            PatchProblem::Binary => "Write the file with write_file and encoding base64.",
            PatchProblem::NotAFile => "Leave this file out: only regular files are patched.",
            PatchProblem::NamedTwice => "Name each file once, with one action.",
            PatchProblem::Missing => "Check the path; to create the file, use /dev/null as the old name.",
            PatchProblem::AlreadyExists => "Read the file and send a diff against its content, or delete it first.",
            PatchProblem::NotWhole {
                action: PatchAction::Create,
                ..
            } => "Begin every line of a new file with +.",
            PatchProblem::NotWhole { .. } => {
                "To delete a file, begin every line with -; to keep some, name the file after +++ instead of /dev/null."
            }
            PatchProblem::DeletesMore { .. } => "Give the whole content as removed lines (-), or use rm.",
            PatchProblem::Misplaced { problem, .. } => problem.hint(),
        };
        hint.to_owned()
    }
}

impl PlaceProblem {
    fn hint(&self) -> &'static str {
        match self {
            PlaceProblem::Ambiguous { has_numbers: true, .. } => {
                "Correct the line number after @@, or add context lines until the place is unique."
            }
            PlaceProblem::Ambiguous { .. } => {
                "Give the line number after @@, or add context lines until the place is unique."
            }
            PlaceProblem::OutOfOrder { .. } => "Put the hunks in the order of the file, and join hunks that overlap.",
            PlaceProblem::NoPlace | PlaceProblem::PastEnd { .. } => {
                "Add context lines, or give the line number: @@ -LINE,0 +LINE,COUNT @@."
            }
        }
    }
}

impl HunkMismatch {
    fn hint(&self) -> String {
        match self.applied_at_line {
            Some(line) => format!(
                "The file already has the result of this hunk at line {line}: the patch may have been applied before."
            ),
            None => "Read the file again and make the hunk from its current lines.".to_owned(),
        }
    }
}

impl fmt::Display for PatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.as_deref().unwrap_or_default();
        // The sentence about a file without hunks names the file itself.
        if self.path.is_some() && !matches!(self.problem, PatchProblem::NoHunks { .. }) {
            write!(f, "{path}: ")?;
        }
        match &self.problem {
            PatchProblem::NoFiles => {
                f.write_str("the patch names no file: there is no \"--- \" line followed by a \"+++ \" line")
            }
            PatchProblem::OtherFormat { patch_line, name } => write!(
                f,
                "line {patch_line} of the patch belongs to {name}, and only unified diffs are supported"
            ),
            PatchProblem::Malformed { patch_line, what } => {
                write!(f, "line {patch_line} of the patch: {what}")
            }
            PatchProblem::NoFileBeforeHunk { patch_line } => write!(
                f,
                "line {patch_line} of the patch begins a hunk, but no file was named before it"
            ),
            PatchProblem::Unprefixed { patch_line, text } => {
                write!(f, "line {patch_line} of the patch has no prefix: {text:?}")
            }
            PatchProblem::NoHunks { patch_line } => {
                write!(f, "line {patch_line} of the patch names {path}, but no hunk follows")
            }
            PatchProblem::ChangesNothing => f.write_str("nothing would change"),
            PatchProblem::Binary => f.write_str("the patch is binary"),
            PatchProblem::NotAFile => f.write_str("the patch makes a link or a submodule"),
            PatchProblem::NamedTwice => f.write_str("the patch names the file twice, with conflicting actions"),
            PatchProblem::Missing => f.write_str("the file to patch does not exist"),
            PatchProblem::AlreadyExists => f.write_str("the patch creates the file, but it exists already"),
            PatchProblem::NotWhole { patch_line, action } => {
                let why = match action {
                    PatchAction::Create => "creates the file, but this is not an added line",
                    _ => "deletes the file, but this is not a removed line",
                };
                write!(f, "line {patch_line} of the patch: the patch {why}")
            }
            PatchProblem::DeletesMore { shown, lines } => write!(
                f,
                "the patch deletes the file and shows {shown} line(s) of it, but the file has {lines}"
            ),
            PatchProblem::Mismatch(mismatch) => mismatch.fmt(f),
            PatchProblem::Misplaced {
                hunk,
                patch_line,
                problem,
            } => write!(f, "hunk {hunk} (line {patch_line} of the patch) {problem}"),
        }
    }
}

impl fmt::Display for PlaceProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlaceProblem::Ambiguous { lines, count, .. } => {
                let lines = list_numbers(lines, *count);
                write!(f, "fits {count} places equally well, at lines {lines}")
            }
            PlaceProblem::OutOfOrder { line } => write!(
                f,
                "belongs at line {line}, which is before the end of the hunk before it"
            ),
            PlaceProblem::NoPlace => f.write_str("adds lines and does not say where"),
            PlaceProblem::PastEnd { line, lines } => {
                write!(f, "adds lines after line {line}, and the file has {lines}")
            }
        }
    }
}

impl fmt::Display for HunkMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let HunkMismatch {
            hunk,
            patch_line,
            line,
            wanted,
            ..
        } = self;
        writeln!(
            f,
            "hunk {hunk} does not apply: line {patch_line} of the patch is not line {line} of the file"
        )?;
        writeln!(f, "  the patch: {wanted}")?;
        match &self.found {
            Some(found) if found == wanted && self.wants_no_newline => {
                f.write_str("  the file:  the same, and a newline, which the patch says is missing")
            }
            Some(found) => self.fmt_context(f, found),
            None => self.fmt_context(f, "ends before it"),
        }
    }
}

impl HunkMismatch {
    /// Shows the line of the file, and the lines nearest to the hunk, or else the lines around it.
    fn fmt_context(&self, f: &mut fmt::Formatter<'_>, found: &str) -> fmt::Result {
        write!(f, "  the file:  {found}")?;
        if !self.nearest.candidates.is_empty() {
            return write!(f, "\n{}", self.nearest);
        }
        if !self.around.is_empty() {
            f.write_str("\nThe file around it:")?;
        }
        self.around
            .iter()
            .try_for_each(|(number, line)| write!(f, "\n{number:>6}\t{line}"))
    }
}

impl std::error::Error for PatchError {}
