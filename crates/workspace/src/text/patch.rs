//! `apply_patch` as pure functions: a unified diff read into values, and one file changed by its part of it.
//!
//! Reading is tolerant, because models write diffs by hand: prose and code fences around it, hunk headers that miscount
//! or carry no numbers, blank context lines that lost their space. Applying is strict: every context and removed line
//! must be in the file as the patch has it. A hunk may have moved; it is looked for by its content, nearest to the line
//! that it names, and two places equally near are an error. There is no fuzz.
//!
//! Line endings are not content: a patch with `\n` applies to a file with `\r\n`, and added lines end as the lines
//! around them do. If the endings agree, the patch is taken to the byte.

mod apply;
mod error;
mod header;
mod hunk;
mod locate;
mod parse;
mod section;

pub use apply::{FilePatchOutcome, apply_file};
pub use error::{HunkMismatch, PatchError, PatchProblem, PlaceProblem};
pub use parse::parse_patch;

use super::lines::LineEnding;

/// A patch that was read: one part for each file, in the order of the patch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patch {
    /// At least one file; no two of the same name on the same side.
    pub files: Vec<FilePatch>,
}

/// The part of a patch that changes one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePatch {
    /// The name before; `None` when the file is created. As the patch has it, without the `a/` of git.
    pub old_path: Option<String>,
    /// The name after; `None` when the file is deleted. As the patch has it, without the `b/` of git.
    pub new_path: Option<String>,
    /// The kind of change.
    pub action: PatchAction,
    /// The new permission bits, if the patch names them.
    pub new_mode: Option<u32>,
    /// The changes to its content, in the order of the patch.
    pub hunks: Vec<Hunk>,
}

/// The kind of change that a patch makes to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchAction {
    /// It must not exist, and does afterwards.
    Create,
    /// Its content, its mode, or both change in place.
    Modify,
    /// Its whole content must be as the patch has it; it does not exist afterwards.
    Delete,
    /// It goes from `old_path` to `new_path`, its content changed by the hunks, if any.
    Rename,
    /// `new_path` becomes `old_path` changed by the hunks, if any; `old_path` stays.
    Copy,
}

/// One block of changed lines with the lines around it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hunk {
    /// Its 1-based number within the file.
    pub number: usize,
    /// The 1-based line of the patch with its `@@`.
    pub patch_line: usize,
    /// The old line it says it begins at; `None` for a bare `@@`.
    pub old_start: Option<usize>,
    /// The new line it says it begins at; `None` for a bare `@@`.
    pub new_start: Option<usize>,
    /// Its lines.
    pub lines: Vec<HunkLine>,
    /// The number of blank lines without a prefix at its end, which may be context or not belong to the hunk at all.
    pub(crate) bare_tail: usize,
}

/// One line of a hunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HunkLine {
    /// The role of the line.
    pub kind: LineKind,
    /// Its bytes, without prefix and ending.
    pub text: Vec<u8>,
    /// How it ends.
    pub ending: LineEnding,
    /// The 1-based line of the patch.
    pub patch_line: usize,
}

/// The role of a line in a hunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineKind {
    /// The line is in the file and stays.
    Context,
    /// The line is in the file and is removed.
    Remove,
    /// The line is added.
    Add,
}

impl FilePatch {
    /// Returns the name under which this part of the patch is reported: the new one, or the old one of a deleted file.
    pub fn path(&self) -> &str {
        let path = self.new_path.as_deref().or(self.old_path.as_deref());
        path.expect("the parser refuses a file without a name")
    }

    /// Returns the other name of a file that is changed in place, as `diff -u before.txt after.txt` gives one.
    ///
    /// The patch then belongs to the one of the two that exists; if both do, the caller has to ask.
    pub fn alternate_path(&self) -> Option<&str> {
        let old = self.old_path.as_deref().filter(|_| self.action == PatchAction::Modify);
        old.filter(|old| Some(*old) != self.new_path.as_deref())
    }
}

impl Hunk {
    /// Yields the lines that must be in the file: context and removed ones.
    pub fn old_lines(&self) -> impl Iterator<Item = &HunkLine> {
        self.lines.iter().filter(|line| line.kind != LineKind::Add)
    }

    /// Yields the lines that are in the file afterwards: context and added ones.
    pub fn new_lines(&self) -> impl Iterator<Item = &HunkLine> {
        self.lines.iter().filter(|line| line.kind != LineKind::Remove)
    }

    /// Returns whether any line is added or removed.
    pub fn has_changes(&self) -> bool {
        self.lines.iter().any(|line| line.kind != LineKind::Context)
    }
}

#[cfg(test)]
mod tests;
