//! `apply_patch` as pure functions: a unified diff read into values, and one file changed by its part of it.
//!
//! Reading is tolerant, because models write diffs by hand: prose and code fences around it, hunk headers that miscount
//! or carry no numbers, blank context lines that lost their space. Applying is strict: every context and removed line
//! must be in the file as the patch has it. A hunk may have moved; it is looked for by its content, nearest to where it
//! says, and two places equally near are an error. There is no fuzz.
//!
//! Line endings are not content: a patch with `\n` applies to a file with `\r\n`, and what it adds ends as the lines
//! around it do. Where the endings agree, the patch is taken to the byte.

mod apply;
mod error;
mod header;
mod hunk;
mod locate;
mod parse;
mod section;

pub use apply::{Applied, AppliedHunk, apply_file};
pub use error::{Mismatch, PatchError};
pub use parse::parse;

use super::lines::Ending;

/// A patch: what it does to each file, in the order it names them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patch {
    /// At least one file; no two of the same name on the same side.
    pub files: Vec<FilePatch>,
}

/// What a patch does to one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePatch {
    /// The name before; `None` when the file is created. As the patch has it, without the `a/` of git.
    pub old_path: Option<String>,
    /// The name after; `None` when the file is deleted. As the patch has it, without the `b/` of git.
    pub new_path: Option<String>,
    /// What happens to the file.
    pub action: Action,
    /// The permission bits the file gets, where the patch says so.
    pub new_mode: Option<u32>,
    /// The changes to its content, in the order of the patch.
    pub hunks: Vec<Hunk>,
}

/// What happens to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
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
    /// How many lines at its end are blank lines without a prefix, which may be context or nothing at all.
    pub(crate) bare_tail: usize,
}

/// One line of a hunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HunkLine {
    /// What the line is for.
    pub kind: LineKind,
    /// Its bytes, without prefix and ending.
    pub text: Vec<u8>,
    /// How it ends.
    pub ending: Ending,
    /// The 1-based line of the patch.
    pub patch_line: usize,
}

/// What a line of a hunk is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineKind {
    /// The line is in the file and stays.
    Context,
    /// The line is in the file and goes.
    Remove,
    /// The line comes.
    Add,
}

impl FilePatch {
    /// Returns the name that speaks for this part of the patch: the new one, or the old one of a deleted file.
    pub fn path(&self) -> &str {
        let path = self.new_path.as_deref().or(self.old_path.as_deref());
        path.expect("the parser refuses a file without a name")
    }

    /// Returns the other name of a file that is changed in place, as `diff -u before.txt after.txt` gives one.
    ///
    /// The patch then belongs to whichever of the two exists; when both do, it is for the caller to ask.
    pub fn alternate_path(&self) -> Option<&str> {
        let old = self.old_path.as_deref().filter(|_| self.action == Action::Modify);
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

    /// Returns whether any line comes or goes.
    pub fn changes(&self) -> bool {
        self.lines.iter().any(|line| line.kind != LineKind::Context)
    }
}

#[cfg(test)]
mod tests;
