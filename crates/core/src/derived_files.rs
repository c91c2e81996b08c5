//! Derived files: what commands make from other files and can make again, such as `__pycache__/` and `target/`.
//!
//! They are recorded as all files are. A change that a command or code made to nothing else has the kind
//! [`ChangeKind::Derived`](crate::ChangeKind::Derived), which plain undo steps over.

use crate::{EntryKind, Exclusions, PathChange, Result};

/// The derived files of a workspace, as checked and compiled patterns. The default has none.
#[derive(Debug, Clone, Default)]
pub struct DerivedFiles {
    patterns: Exclusions,
}

impl DerivedFiles {
    /// The patterns of a workspace that configures none: directories whose names programs reserve for what they make.
    pub const DEFAULT_PATTERNS: [&str; 7] = [
        "__pycache__/",
        ".pytest_cache/",
        ".mypy_cache/",
        ".ruff_cache/",
        ".venv/",
        "node_modules/",
        "target/",
    ];

    /// Returns the default patterns as a configuration has them.
    pub fn default_patterns() -> Vec<String> {
        Self::DEFAULT_PATTERNS.map(str::to_owned).into()
    }

    /// Returns whether `patterns` are the default ones.
    pub fn are_default_patterns(patterns: &[String]) -> bool {
        patterns == Self::DEFAULT_PATTERNS
    }

    /// Compiles the patterns of the option `derived`; a wrong pattern is an `invalid` error that names it.
    pub fn new(patterns: &[String]) -> Result<Self> {
        Ok(Self {
            patterns: Exclusions::of_option("derived", patterns)?,
        })
    }

    /// Returns whether every one of `changes` is of a derived file, before and after. No change at all is not.
    pub fn cover_changes(&self, changes: &[PathChange]) -> bool {
        !changes.is_empty() && changes.iter().all(|change| self.covers_change(change))
    }

    fn covers_change(&self, change: &PathChange) -> bool {
        let images = [&change.before, &change.after];
        let mut kinds = images.into_iter().flatten().map(|image| image.kind);
        kinds.all(|kind| self.patterns.covers_path(&change.path, kind == EntryKind::Directory))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EntryPath, PathImage};

    fn image(kind: EntryKind) -> PathImage {
        PathImage {
            kind,
            mode: 0o644,
            size: 0,
            version: None,
            target: None,
            content: None,
        }
    }

    fn change(path: &str, before: Option<EntryKind>, after: Option<EntryKind>) -> PathChange {
        PathChange {
            path: EntryPath::from_bytes(path.as_bytes().to_vec()),
            before: before.map(image),
            after: after.map(image),
        }
    }

    fn covers(changes: &[PathChange]) -> bool {
        let derived = DerivedFiles::new(&DerivedFiles::default_patterns()).unwrap();
        derived.cover_changes(changes)
    }

    #[test]
    fn a_change_is_derived_if_all_of_its_paths_are() {
        let (directory, file) = (Some(EntryKind::Directory), Some(EntryKind::File));
        let cache = [
            change("pkg/__pycache__", None, directory),
            change("pkg/__pycache__/a.pyc", None, file),
        ];
        assert!(covers(&cache));
        assert!(covers(&[change("node_modules", directory, None)]), "a removal, too");
        let [one, other] = cache;
        assert!(!covers(&[one, other, change("a.py", file, file)]));
        assert!(!covers(&[]));
    }

    #[test]
    fn a_file_with_the_name_of_a_derived_directory_is_not_derived() {
        let (directory, file) = (Some(EntryKind::Directory), Some(EntryKind::File));
        assert!(!covers(&[change("target", None, file)]));
        assert!(!covers(&[change("target", file, directory)]));
        assert!(!covers(&[change("target", directory, file)]));
    }

    #[test]
    fn a_wrong_pattern_is_named_with_its_option() {
        let error = DerivedFiles::new(&["!keep".into()]).unwrap_err();
        assert!(
            error.message().starts_with("`derived` has an invalid pattern"),
            "{error}"
        );
    }
}
