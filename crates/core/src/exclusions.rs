//! The exclusions of history: patterns as in a `.gitignore`, such as `target/` and `node_modules/`.
//!
//! A pattern without a slash (except one at its end) matches a name at any depth; any other pattern is relative to the
//! root of the workspace. A pattern that ends with a slash matches directories only. Everything below a match is
//! excluded with it.

use globset::GlobMatcher;

use crate::path::quote;
use crate::policy::{compile_glob, strip_glob_root};
use crate::{EntryPath, Error, Result};

/// The paths that history excludes, as checked and compiled patterns. The default excludes nothing.
#[derive(Debug, Clone, Default)]
pub struct Exclusions {
    patterns: Vec<ExclusionPattern>,
}

#[derive(Debug, Clone)]
struct ExclusionPattern {
    glob: GlobMatcher,
    is_anchored: bool,
    only_directories: bool,
}

impl Exclusions {
    /// Compiles the patterns of the option `exclude`; a wrong pattern is an `invalid` error that names it.
    pub fn new(patterns: &[String]) -> Result<Self> {
        Self::of_option("exclude", patterns)
    }

    /// Compiles patterns; the error for a wrong one names `option`, the option that they are from.
    pub(crate) fn of_option(option: &str, patterns: &[String]) -> Result<Self> {
        let patterns = patterns
            .iter()
            .map(|text| ExclusionPattern::new(option, text))
            .collect::<Result<_>>()?;
        Ok(Self { patterns })
    }

    /// Returns whether nothing is excluded.
    pub fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }

    /// Returns whether `path` is excluded, by itself or because a directory above it is.
    pub fn covers_path(&self, path: &EntryPath, is_directory: bool) -> bool {
        self.covers_bytes(path.as_bytes(), is_directory)
    }

    /// Returns whether the path with these bytes, relative to the root, is excluded; its name need not be UTF-8.
    pub fn covers_bytes(&self, path: &[u8], is_directory: bool) -> bool {
        self.excluded_ancestor(path, is_directory).is_some()
    }

    /// Returns the part of `path` that a pattern matches; everything below that part is excluded with it.
    pub fn excluded_ancestor<'a>(&self, path: &'a [u8], is_directory: bool) -> Option<&'a [u8]> {
        if self.is_empty() || path.is_empty() {
            return None;
        }
        // Every part above the path has entries, so it is a directory.
        let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        let above = slashes.map(|(end, _)| (&path[..end], true));
        above
            .chain([(path, is_directory)])
            .find(|(part, is_directory)| self.patterns.iter().any(|one| one.matches_path(part, *is_directory)))
            .map(|(part, _)| part)
    }
}

impl ExclusionPattern {
    fn new(option: &str, text: &str) -> Result<Self> {
        let wrong = |why: &str| {
            Error::invalid(format!("`{option}` has an invalid pattern {}: {why}", quote(text)))
                .hint("write patterns as in a `.gitignore`: `target/`, `node_modules/`, `*.log`")
        };
        // Everything below an excluded directory is excluded with it, so an exception could not hold there.
        if text.starts_with('!') {
            return Err(wrong("it cannot take paths out of the other patterns"));
        }
        let glob = strip_glob_root(text);
        if glob.is_empty() || glob == "**" {
            return Err(wrong("it would match every path, or none"));
        }
        Ok(Self {
            glob: compile_glob(glob).map_err(|why| wrong(&why))?,
            is_anchored: text.trim_end_matches('/').contains('/'),
            only_directories: text.ends_with('/'),
        })
    }

    fn matches_path(&self, path: &[u8], is_directory: bool) -> bool {
        if self.only_directories && !is_directory {
            return false;
        }
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
        let subject = if self.is_anchored { path } else { name };
        // The bytes of a name need not be UTF-8; the readable rest of such a name can still match.
        self.glob.is_match(&*String::from_utf8_lossy(subject))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn covers(pattern: &str, path: &str, is_directory: bool) -> bool {
        let all = Exclusions::new(&[pattern.to_owned()]).unwrap();
        all.covers_bytes(path.as_bytes(), is_directory)
    }

    #[test]
    fn a_name_matches_at_any_depth_with_all_below_it() {
        assert!(covers("target/", "target", true));
        assert!(covers("target/", "target/debug/a", false));
        assert!(covers("target/", "crates/x/target/a", false));
        assert!(covers("*.log", "a/b.log", false));
        assert!(!covers("target/", "targets/a", false));
    }

    #[test]
    fn a_slash_at_the_end_means_directories_alone() {
        assert!(!covers("target/", "target", false));
        assert!(covers("target", "target", false));
    }

    #[test]
    fn a_slash_elsewhere_means_from_the_root() {
        assert!(covers("/build", "build/a", false));
        assert!(!covers("/build", "x/build/a", false));
        assert!(covers("web/dist/", "web/dist/a", false));
        assert!(covers("a/**/cache", "a/b/c/cache", false));
    }

    #[test]
    fn the_part_that_matches_is_told() {
        let all = Exclusions::new(&["node_modules/".into()]).unwrap();
        assert_eq!(
            all.excluded_ancestor(b"web/node_modules/x/y", false),
            Some(&b"web/node_modules"[..])
        );
        assert_eq!(all.excluded_ancestor(b"web/src/y", false), None);
    }

    #[test]
    fn a_pattern_that_cannot_be_meant_is_refused() {
        for text in ["", "/", "!keep", "**", "a[b"] {
            let error = Exclusions::new(&[text.to_owned()]).unwrap_err();
            assert!(
                error.message().starts_with("`exclude` has an invalid pattern"),
                "{error}"
            );
        }
    }
}
