//! Patterns of what is kept out of history: it lives in the bench only.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use garret_core::path::quote;
use garret_core::policy::{from_root, matcher};
use garret_core::{EntryPath, Error, Result};
use globset::GlobMatcher;

use crate::effects::beneath::prefixes;

/// The patterns, ready for asking. A pattern is a glob on the path below the root; one that matches a directory covers everything in it.
#[derive(Debug, Clone, Default)]
pub struct Excluded {
    globs: Vec<GlobMatcher>,
}

impl Excluded {
    /// Checks the patterns; a wrong one is `invalid`.
    pub fn new(patterns: &[String]) -> Result<Self> {
        let glob = |text: &String| {
            let wrong = |why: String| Error::invalid(format!("`exclude` has a wrong glob {}: {why}", quote(text)));
            match from_root(text) {
                "" => Err(wrong("it names no path".to_owned())),
                glob => matcher(glob).map_err(wrong),
            }
        };
        let globs = patterns.iter().map(glob).collect::<Result<_>>()?;
        Ok(Self { globs })
    }

    /// Whether nothing is.
    pub fn is_empty(&self) -> bool {
        self.globs.is_empty()
    }

    /// Whether the path, or a directory above it, is kept out of history.
    pub fn covers(&self, path: &EntryPath) -> bool {
        self.covers_bytes(path.as_bytes())
    }

    pub(super) fn covers_bytes(&self, path: &[u8]) -> bool {
        let matches = |part: &[u8]| self.globs.iter().any(|glob| glob.is_match(OsStr::from_bytes(part)));
        !self.globs.is_empty() && prefixes(path).skip(1).any(matches)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn excluded(patterns: &[&str]) -> Excluded {
        let patterns: Vec<_> = patterns.iter().map(|pattern| (*pattern).to_owned()).collect();
        Excluded::new(&patterns).unwrap()
    }

    fn path(bytes: &[u8]) -> EntryPath {
        EntryPath::from_bytes(bytes.to_vec())
    }

    #[test]
    fn a_pattern_covers_a_directory_with_everything_in_it() {
        let excluded = excluded(&["target/", "**/node_modules"]);
        for inside in [
            &b"target"[..],
            b"target/debug/a",
            b"web/node_modules/x",
            b"node_modules",
            b"target/caf\xe9",
        ] {
            assert!(excluded.covers(&path(inside)), "{inside:?}");
        }
        for outside in [&b"targets"[..], b"src/target", b"", b"node_modules.txt"] {
            assert!(!excluded.covers(&path(outside)), "{outside:?}");
        }
    }

    #[test]
    fn a_pattern_that_names_nothing_is_refused() {
        assert!(Excluded::new(&["/".to_owned()]).is_err());
        assert!(Excluded::new(&["a[".to_owned()]).is_err());
    }
}
