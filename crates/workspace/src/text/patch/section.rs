//! The part of a patch for one file while it is read: its headers and hunks, and the change that they describe.

use super::header::{PatchFileName, strip_git_prefixes};
use super::{FilePatch, Hunk, PatchAction, PatchError, PatchProblem};

/// The headers and hunks of one file.
#[derive(Debug, Default)]
pub(super) struct PatchSection {
    pub(super) patch_line: usize,
    /// The names of the `diff --git` line, with their prefixes.
    pub(super) git_names: Option<(String, String)>,
    pub(super) is_git: bool,
    pub(super) old: Option<PatchFileName>,
    pub(super) new: Option<PatchFileName>,
    pub(super) rename: (Option<String>, Option<String>),
    pub(super) copy: (Option<String>, Option<String>),
    pub(super) is_new: bool,
    pub(super) is_deleted: bool,
    pub(super) is_binary: bool,
    pub(super) mode: Option<u32>,
    pub(super) hunks: Vec<Hunk>,
}

const FILE_TYPE: u32 = 0o170_000;
const REGULAR: u32 = 0o100_000;

impl PatchSection {
    /// Derives the kind of change and the names from the headers, and refuses headers that contradict each other.
    pub(super) fn into_file_patch(self) -> Result<FilePatch, PatchError> {
        let action = self.derive_action()?;
        let (old_path, new_path) = self.derive_paths(action);
        let named = |path: Option<String>| path.filter(|path| !path.is_empty());
        let (old_path, new_path) = (named(old_path), named(new_path));
        let sides = match action {
            PatchAction::Create => new_path.is_some(),
            PatchAction::Delete => old_path.is_some(),
            _ => old_path.is_some() && new_path.is_some(),
        };
        if !sides {
            return Err(PatchError::malformed(self.patch_line, "the file has no name"));
        }
        let file = FilePatch {
            old_path: old_path.filter(|_| action != PatchAction::Create),
            new_path: new_path.filter(|_| action != PatchAction::Delete),
            action,
            new_mode: self
                .mode
                .map(|mode| mode & 0o7777)
                .filter(|_| action != PatchAction::Delete),
            hunks: Vec::new(),
        };
        self.check_content(file.path())?;
        Ok(FilePatch {
            hunks: self.hunks,
            ..file
        })
    }

    /// Returns whether a `---` line of this name belongs to this section.
    pub(super) fn accepts_old_name(&self, old: &PatchFileName) -> bool {
        // A rename or copy is complete without a `---` line, so another name begins another file.
        match (self.rename.0.as_ref().or(self.copy.0.as_ref()), old) {
            (Some(from), PatchFileName::Path { path, .. }) => path == from || path.ends_with(&format!("/{from}")),
            (Some(_), PatchFileName::DevNull) => false,
            (None, _) => true,
        }
    }

    fn derive_action(&self) -> Result<PatchAction, PatchError> {
        let is_nothing = |name: &Option<PatchFileName>| matches!(name, Some(PatchFileName::DevNull));
        match (&self.rename, &self.copy) {
            ((Some(_), Some(_)), _) => return Ok(PatchAction::Rename),
            (_, (Some(_), Some(_))) => return Ok(PatchAction::Copy),
            ((None, None), (None, None)) => {}
            _ => {
                return Err(PatchError::malformed(
                    self.patch_line,
                    "a rename or copy names only one side",
                ));
            }
        }
        let creates = self.is_new || is_nothing(&self.old) || self.is_absent_before();
        let deletes = self.is_deleted || is_nothing(&self.new) || self.is_absent_after();
        match (creates, deletes) {
            (true, true) => Err(PatchError::malformed(
                self.patch_line,
                "the file is both created and deleted",
            )),
            (true, false) => Ok(PatchAction::Create),
            (false, true) => Ok(PatchAction::Delete),
            (false, false) => Ok(PatchAction::Modify),
        }
    }

    /// Returns whether the file did not exist before: `diff -N` writes the epoch as the time of an absent file.
    fn is_absent_before(&self) -> bool {
        // A file that exists may have that time, too, so the hunks must agree.
        let is_empty = |hunk: &Hunk| hunk.old_start == Some(0) && hunk.old_lines().next().is_none();
        self.old.as_ref().is_some_and(PatchFileName::is_epoch) && self.hunks.iter().all(is_empty)
    }

    fn is_absent_after(&self) -> bool {
        let is_empty = |hunk: &Hunk| hunk.new_start == Some(0) && hunk.new_lines().next().is_none();
        self.new.as_ref().is_some_and(PatchFileName::is_epoch) && self.hunks.iter().all(is_empty)
    }

    fn derive_paths(&self, action: PatchAction) -> (Option<String>, Option<String>) {
        match action {
            PatchAction::Rename => self.rename.clone(),
            PatchAction::Copy => self.copy.clone(),
            _ => self.header_paths(),
        }
    }

    fn header_paths(&self) -> (Option<String>, Option<String>) {
        let name = |name: &Option<PatchFileName>| name.as_ref().and_then(PatchFileName::path).map(str::to_owned);
        let (old, new) = (name(&self.old), name(&self.new));
        match &self.git_names {
            Some((git_old, git_new)) => {
                // The prefixes of the `diff --git` line are those of the `---` and `+++` lines, too.
                let is_prefixed = strip_git_prefixes(git_old, git_new).is_some();
                let strip = |path: String| {
                    if is_prefixed { strip_component(path) } else { path }
                };
                // The `diff --git` line has two names even if the file is created or deleted, so the other lines come
                // first.
                let from_git = self.old.is_none() && self.new.is_none();
                let old = old.or_else(|| from_git.then(|| git_old.clone()));
                let new = new.or_else(|| from_git.then(|| git_new.clone()));
                (old.map(strip), new.map(strip))
            }
            None => strip_usual_prefixes(old, new),
        }
    }

    fn check_content(&self, path: &str) -> Result<(), PatchError> {
        if self.is_binary {
            return Err(PatchProblem::Binary.in_file(path));
        }
        if self.mode.is_some_and(|mode| !matches!(mode & FILE_TYPE, REGULAR | 0)) {
            return Err(PatchProblem::NotAFile.in_file(path));
        }
        // Each of these is a change even without a hunk.
        let says_enough =
            self.is_new || self.is_deleted || self.rename.0.is_some() || self.copy.0.is_some() || self.mode.is_some();
        if self.hunks.is_empty() && !says_enough {
            let patch_line = self.patch_line;
            return Err(PatchProblem::NoHunks { patch_line }.in_file(path));
        }
        let changes = self.hunks.is_empty() || self.hunks.iter().any(Hunk::has_changes);
        if changes {
            Ok(())
        } else {
            Err(PatchProblem::ChangesNothing.in_file(path))
        }
    }
}

fn strip_component(path: String) -> String {
    path.split_once('/').map_or(path.clone(), |(_, rest)| rest.to_owned())
}

/// Takes `a/` and `b/` off the names. Without a `diff --git` line only these are known to be prefixes, and only as a
/// pair.
fn strip_usual_prefixes(old: Option<String>, new: Option<String>) -> (Option<String>, Option<String>) {
    let stripped = |path: &Option<String>, prefix: &str| match path {
        None => Some(None),
        Some(path) => path.strip_prefix(prefix).map(|path| Some(path.to_owned())),
    };
    match (stripped(&old, "a/"), stripped(&new, "b/")) {
        (Some(old), Some(new)) => (old, new),
        _ => (old, new),
    }
}
