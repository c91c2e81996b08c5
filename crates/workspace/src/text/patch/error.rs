//! The failures of a patch, in words made for a model.

use std::fmt;

use super::PatchAction;
use crate::text::TextErrorClass;
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
pub enum PatchError {
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
        /// The file.
        path: String,
        /// The line of the patch.
        patch_line: usize,
    },
    /// The file would stay as it is.
    ChangesNothing {
        /// The file.
        path: String,
    },
    /// The patch of a binary file.
    Binary {
        /// The file.
        path: String,
    },
    /// The patch of a link or a submodule.
    NotAFile {
        /// The file.
        path: String,
    },
    /// Two parts of the patch contradict each other about one file.
    NamedTwice {
        /// The file.
        path: String,
    },
    /// The file to change does not exist.
    Missing {
        /// The file.
        path: String,
    },
    /// The file to create exists.
    AlreadyExists {
        /// The file.
        path: String,
    },
    /// A created file has lines that were there before, or a deleted one has lines that stay.
    NotWhole {
        /// The file.
        path: String,
        /// The line of the patch.
        patch_line: usize,
        /// The kind of change that the patch makes to the file.
        action: PatchAction,
    },
    /// A file to delete has more lines than the patch shows.
    DeletesMore {
        /// The file.
        path: String,
        /// The number of lines that the patch shows.
        shown: usize,
        /// The number of lines that the file has.
        lines: usize,
    },
    /// The file is not as the hunk has it.
    Mismatch(Box<HunkMismatch>),
    /// The hunk fits several places equally well.
    Ambiguous {
        /// The file.
        path: String,
        /// The number of the hunk within the file.
        hunk: usize,
        /// The line of the patch.
        patch_line: usize,
        /// The first few lines of the file at which it fits.
        lines: Vec<usize>,
        /// The number of all such lines.
        count: usize,
        /// Whether the hunk names its line.
        has_numbers: bool,
    },
    /// The hunk overlaps the one before it, or belongs before it.
    OutOfOrder {
        /// The file.
        path: String,
        /// The number of the hunk within the file.
        hunk: usize,
        /// The line of the patch.
        patch_line: usize,
        /// The line of the file at which it belongs.
        line: usize,
    },
    /// The hunk only adds lines, and names no line of the file for them.
    NoPlace {
        /// The file.
        path: String,
        /// The number of the hunk within the file.
        hunk: usize,
        /// The line of the patch.
        patch_line: usize,
    },
    /// The hunk only adds lines, beyond the end of the file.
    PastEnd {
        /// The file.
        path: String,
        /// The number of the hunk within the file.
        hunk: usize,
        /// The line of the patch.
        patch_line: usize,
        /// The line of the file after which the hunk puts them.
        line: usize,
        /// The number of lines that the file has.
        lines: usize,
    },
}

/// A line of a hunk that is not in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HunkMismatch {
    /// The file.
    pub path: String,
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

impl PatchError {
    pub(super) fn malformed(patch_line: usize, what: &'static str) -> Self {
        PatchError::Malformed { patch_line, what }
    }

    /// Returns the kind of failure, which decides the next step of the caller.
    pub fn class(&self) -> TextErrorClass {
        match self {
            PatchError::Binary { .. } | PatchError::NotAFile { .. } => TextErrorClass::Unsupported,
            PatchError::Missing { .. } => TextErrorClass::NotFound,
            PatchError::AlreadyExists { .. } => TextErrorClass::AlreadyExists,
            _ => TextErrorClass::Invalid,
        }
    }

    /// Returns the file at fault, as the patch names it.
    pub fn path(&self) -> Option<&str> {
        match self {
            PatchError::NoHunks { path, .. }
            | PatchError::ChangesNothing { path }
            | PatchError::Binary { path }
            | PatchError::NotAFile { path }
            | PatchError::NamedTwice { path }
            | PatchError::Missing { path }
            | PatchError::AlreadyExists { path }
            | PatchError::NotWhole { path, .. }
            | PatchError::DeletesMore { path, .. }
            | PatchError::Ambiguous { path, .. }
            | PatchError::OutOfOrder { path, .. }
            | PatchError::NoPlace { path, .. }
            | PatchError::PastEnd { path, .. } => Some(path),
            PatchError::Mismatch(mismatch) => Some(&mismatch.path),
            _ => None,
        }
    }

    /// Returns advice for the next attempt.
    pub fn hint(&self) -> String {
        match self {
            PatchError::NoFiles
            | PatchError::OtherFormat { .. }
            | PatchError::NoFileBeforeHunk { .. }
            | PatchError::NoHunks { .. } => {
                format!("Send a unified diff:\n{SHAPE}")
            }
            PatchError::Malformed { .. } => "Correct that line of the patch.".to_owned(),
            PatchError::Unprefixed { .. } => {
                "Begin each line of a hunk with a space (unchanged), - (removed) or + (added).".to_owned()
            }
            PatchError::ChangesNothing { .. } => "Leave this file out, or give the lines to remove and add.".to_owned(),
            PatchError::Binary { .. } => "Write the file with write_file and encoding base64.".to_owned(),
            PatchError::NotAFile { .. } => "Leave this file out: only regular files are patched.".to_owned(),
            PatchError::NamedTwice { .. } => "Name each file once, with one action.".to_owned(),
            PatchError::Missing { .. } => {
                "Check the path; to create the file, use /dev/null as the old name.".to_owned()
            }
            PatchError::AlreadyExists { .. } => {
                "Read the file and send a diff against its content, or delete it first.".to_owned()
            }
            PatchError::NotWhole {
                action: PatchAction::Create,
                ..
            } => "Begin every line of a new file with +.".to_owned(),
            PatchError::NotWhole { .. } => {
                "To delete a file, begin every line with -; to keep some, name the file after +++ instead of /dev/null."
                    .to_owned()
            }
            PatchError::DeletesMore { .. } => "Give the whole content as removed lines (-), or use rm.".to_owned(),
            PatchError::Mismatch(mismatch) => mismatch.hint(),
            PatchError::Ambiguous { has_numbers: true, .. } => {
                "Correct the line number after @@, or add context lines until the place is unique.".to_owned()
            }
            PatchError::Ambiguous { .. } => {
                "Give the line number after @@, or add context lines until the place is unique.".to_owned()
            }
            PatchError::OutOfOrder { .. } => {
                "Put the hunks in the order of the file, and join hunks that overlap.".to_owned()
            }
            PatchError::NoPlace { .. } | PatchError::PastEnd { .. } => {
                "Add context lines, or give the line number: @@ -LINE,0 +LINE,COUNT @@.".to_owned()
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
        match self {
            PatchError::NoFiles => {
                f.write_str("the patch names no file: there is no \"--- \" line followed by a \"+++ \" line")
            }
            PatchError::OtherFormat { patch_line, name } => write!(
                f,
                "line {patch_line} of the patch belongs to {name}, and only unified diffs are supported"
            ),
            PatchError::Malformed { patch_line, what } => {
                write!(f, "line {patch_line} of the patch: {what}")
            }
            PatchError::NoFileBeforeHunk { patch_line } => write!(
                f,
                "line {patch_line} of the patch begins a hunk, but no file was named before it"
            ),
            PatchError::Unprefixed { patch_line, text } => {
                write!(f, "line {patch_line} of the patch has no prefix: {text:?}")
            }
            PatchError::NoHunks { path, patch_line } => {
                write!(f, "line {patch_line} of the patch names {path}, but no hunk follows")
            }
            PatchError::ChangesNothing { path } => write!(f, "{path}: nothing would change"),
            PatchError::Binary { path } => write!(f, "{path}: the patch is binary"),
            PatchError::NotAFile { path } => {
                write!(f, "{path}: the patch makes a link or a submodule")
            }
            PatchError::NamedTwice { path } => {
                write!(f, "{path}: the patch names the file twice, with conflicting actions")
            }
            PatchError::Missing { path } => write!(f, "{path}: the file to patch does not exist"),
            PatchError::AlreadyExists { path } => {
                write!(f, "{path}: the patch creates the file, but it exists already")
            }
            PatchError::NotWhole {
                path,
                patch_line,
                action,
            } => write_not_whole(f, path, *patch_line, *action),
            PatchError::DeletesMore { path, shown, lines } => {
                write!(
                    f,
                    "{path}: the patch deletes the file and shows {shown} line(s) of it, but the file has {lines}"
                )
            }
            PatchError::Mismatch(mismatch) => mismatch.fmt(f),
            PatchError::Ambiguous {
                path,
                hunk,
                patch_line,
                lines,
                count,
                ..
            } => write!(
                f,
                "{path}: hunk {hunk} (line {patch_line} of the patch) fits {count} places equally well, at lines {}",
                list_numbers(lines, *count)
            ),
            PatchError::OutOfOrder {
                path,
                hunk,
                patch_line,
                line,
            } => write!(
                f,
                "{path}: hunk {hunk} (line {patch_line} of the patch) belongs at line {line}, which is before the end of the hunk before it"
            ),
            PatchError::NoPlace { path, hunk, patch_line } => {
                write!(
                    f,
                    "{path}: hunk {hunk} (line {patch_line} of the patch) adds lines and does not say where"
                )
            }
            PatchError::PastEnd {
                path,
                hunk,
                patch_line,
                line,
                lines,
            } => write!(
                f,
                "{path}: hunk {hunk} (line {patch_line} of the patch) adds lines after line {line}, and the file has {lines}"
            ),
        }
    }
}

fn write_not_whole(f: &mut fmt::Formatter<'_>, path: &str, patch_line: usize, action: PatchAction) -> fmt::Result {
    let why = match action {
        PatchAction::Create => "creates the file, but this is not an added line",
        _ => "deletes the file, but this is not a removed line",
    };
    write!(f, "{path}: line {patch_line} of the patch: the patch {why}")
}

impl fmt::Display for HunkMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let HunkMismatch {
            path,
            hunk,
            patch_line,
            line,
            wanted,
            ..
        } = self;
        writeln!(
            f,
            "{path}: hunk {hunk} does not apply: line {patch_line} of the patch is not line {line} of the file"
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
