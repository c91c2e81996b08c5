//! Globs on paths, as everywhere in Garret: `*` and `?` stay within a name, `**` crosses slashes.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use garret_core::path::quote;
use garret_core::policy::{compile_glob, strip_glob_root};
use garret_core::{Error, Result};
use globset::{GlobMatcher, GlobSet, GlobSetBuilder};

/// A glob on the path below the directory that is searched.
#[derive(Debug)]
pub(super) struct PathGlob {
    whole: GlobSet,
    /// One matcher for each component, `None` for `**`; they decide which directories can hold a match.
    components: Vec<Option<GlobMatcher>>,
    /// The directories that every match lies below, by name.
    literal: Vec<String>,
}

impl PathGlob {
    /// Reads a pattern; one that is not a glob, or would lead above its directory, is `invalid`.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let pattern = normalize_pattern(text)?;
        let wrong = |why: String| wrong_glob("pattern", text, &why);
        let mut whole = GlobSetBuilder::new();
        whole.add(compile_glob(pattern).map_err(wrong)?.glob().clone());
        let component = |part: &str| match part {
            "**" => Ok(None),
            part => compile_glob(part).map(Some),
        };
        // A brace or a class may hold a slash, and then the parts are not globs by themselves: a match may be anywhere.
        let parts = pattern.split('/').map(component).collect::<Result<_, _>>();
        let components = parts.unwrap_or_else(|_| vec![None]);
        // A set of one, because sets have shortcuts for common shapes such as `**/*.rs`.
        let whole = whole.build().map_err(|error| wrong(error.kind().to_string()))?;
        let literal = literal_directories(pattern);
        Ok(Self {
            whole,
            components,
            literal,
        })
    }

    /// Returns the part of the tree that holds every match.
    pub(super) fn search_area(&self) -> SearchArea {
        // One component names the entry itself; more of them, or a `**`, lead into further directories.
        let rest = &self.components[self.literal.len().min(self.components.len())..];
        SearchArea {
            directories: self.literal.clone(),
            is_deep: rest.len() != 1 || rest.iter().any(Option::is_none),
        }
    }

    pub(super) fn is_match(&self, path: &[u8]) -> bool {
        self.whole.is_match(as_path(path))
    }

    /// Returns whether a path below the directory `path` can match.
    pub(super) fn reaches_below(&self, path: &[u8]) -> bool {
        let mut components = self.components.iter();
        for name in path.split(|byte| *byte == b'/') {
            match components.next() {
                Some(Some(glob)) if glob.is_match(as_path(name)) => {}
                Some(None) => return true,
                _ => return false,
            }
        }
        components.next().is_some()
    }
}

/// The part of the tree, below the start of a search, that can hold a match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SearchArea {
    /// The names of the directories that lead to the directory that holds every match.
    pub(super) directories: Vec<String>,
    /// Whether matches may also lie in directories below that one.
    pub(super) is_deep: bool,
}

impl SearchArea {
    /// Returns the whole tree below the start.
    pub(super) fn whole_tree() -> Self {
        Self {
            directories: Vec::new(),
            is_deep: true,
        }
    }
}

/// Returns the leading directories of a glob that are plain names.
fn literal_directories(pattern: &str) -> Vec<String> {
    let is_plain =
        |part: &&str| !part.is_empty() && *part != "." && !part.contains(['*', '?', '[', ']', '{', '}', '\\']);
    let directories = match pattern.rsplit_once('/') {
        Some((directories, _)) => directories,
        None => return Vec::new(),
    };
    directories.split('/').take_while(is_plain).map(str::to_owned).collect()
}

/// The globs that select the files of a search by content. A glob without a slash matches names at any depth, one with
/// a slash paths below the directory that is searched; an excluded directory excludes everything inside it.
#[derive(Debug)]
pub(super) struct FileSelection {
    include: Option<SelectionGlobs>,
    exclude: Option<SelectionGlobs>,
}

impl FileSelection {
    /// Reads the globs; a wrong one is `invalid` and named.
    pub(super) fn parse(include: &[String], exclude: &[String]) -> Result<Self> {
        Ok(Self {
            include: SelectionGlobs::parse("include", include)?,
            exclude: SelectionGlobs::parse("exclude", exclude)?,
        })
    }

    /// Returns the part of the tree that holds all files which the globs of `include` select.
    pub(super) fn search_area(include: &[String]) -> SearchArea {
        let mut narrow = SearchArea::whole_tree();
        let mut patterns = include.iter().map(|text| {
            if text.trim_end_matches('/').contains('/') {
                literal_directories(strip_glob_root(text))
            } else {
                // A glob without a slash matches names at any depth.
                Vec::new()
            }
        });
        narrow.directories = patterns.next().unwrap_or_default();
        // One list has to hold the matches of all globs, so only the directories that they have in common count.
        for directories in patterns {
            let common = narrow
                .directories
                .iter()
                .zip(&directories)
                .take_while(|(one, other)| one == other);
            let common = common.count();
            narrow.directories.truncate(common);
        }
        narrow
    }

    pub(super) fn takes_file(&self, relative: &[u8], name: &[u8]) -> bool {
        self.include.as_ref().is_none_or(|globs| globs.is_match(relative, name))
            && self.enters_directory(relative, name)
    }

    pub(super) fn enters_directory(&self, relative: &[u8], name: &[u8]) -> bool {
        !self
            .exclude
            .as_ref()
            .is_some_and(|globs| globs.is_match(relative, name))
    }
}

#[derive(Debug)]
struct SelectionGlobs {
    names: GlobSet,
    paths: GlobSet,
}

impl SelectionGlobs {
    fn parse(key: &str, patterns: &[String]) -> Result<Option<Self>> {
        if patterns.is_empty() {
            return Ok(None);
        }
        let (mut names, mut paths) = (GlobSetBuilder::new(), GlobSetBuilder::new());
        for text in patterns {
            let pattern = normalize_pattern(text)?;
            let glob = compile_glob(pattern).map_err(|why| wrong_glob(key, text, &why))?;
            let says_where = text.trim_end_matches('/').contains('/');
            let set = if says_where { &mut paths } else { &mut names };
            set.add(glob.glob().clone());
        }
        let build = |set: GlobSetBuilder| {
            set.build()
                .map_err(|error| wrong_glob(key, &patterns.join(", "), &error.kind().to_string()))
        };
        Ok(Some(Self {
            names: build(names)?,
            paths: build(paths)?,
        }))
    }

    fn is_match(&self, relative: &[u8], name: &[u8]) -> bool {
        (!self.names.is_empty() && self.names.is_match(as_path(name)))
            || (!self.paths.is_empty() && self.paths.is_match(as_path(relative)))
    }
}

/// Returns the pattern without a prefix that means the root and without a trailing slash; refuses `..` and an empty
/// pattern.
fn normalize_pattern(text: &str) -> Result<&str> {
    let pattern = strip_glob_root(text);
    if pattern.split('/').any(|part| part == "..") {
        return Err(Error::invalid(format!("the glob {} has a `..`", quote(text)))
            .hint("a glob matches paths below `path`; choose another `path` to search elsewhere"));
    }
    if pattern.is_empty() {
        return Err(Error::invalid("a glob cannot be empty").hint("use `**` for everything, `*` for one level"));
    }
    Ok(pattern)
}

fn wrong_glob(key: &str, text: &str, why: &str) -> Error {
    Error::invalid(format!("`{key}`: {} is not a glob: {why}", quote(text)))
        .hint("globs have `*`, `**`, `?`, `[ab]`, `[!ab]` and `{a,b}`; a backslash makes the next character ordinary")
}

fn as_path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn glob(text: &str) -> PathGlob {
        PathGlob::parse(text).unwrap()
    }

    #[test]
    fn a_star_stays_within_a_name_and_two_do_not() {
        assert!(glob("*.rs").is_match(b"a.rs"));
        assert!(!glob("*.rs").is_match(b"src/a.rs"));
        assert!(glob("**/*.rs").is_match(b"a.rs"));
        assert!(glob("**/*.rs").is_match(b"src/deep/a.rs"));
    }

    #[test]
    fn a_way_to_say_the_root_changes_nothing() {
        for text in [
            "src/*.rs",
            "/src/*.rs",
            "./src/*.rs",
            "/workspace/src/*.rs",
            ".//src/*.rs",
        ] {
            assert!(glob(text).is_match(b"src/a.rs"), "{text}");
        }
        assert!(glob("workspace/x").is_match(b"workspace/x"));
    }

    #[test]
    fn only_directories_that_can_hold_a_match_are_entered() {
        let reached = |text: &str, path: &[u8]| glob(text).reaches_below(path);
        assert!(reached("src/*/x.rs", b"src"));
        assert!(reached("src/*/x.rs", b"src/a"));
        assert!(!reached("src/*/x.rs", b"src/a/b"));
        assert!(!reached("src/*.rs", b"lib"));
        assert!(!reached("*.rs", b"src"));
        assert!(reached("**/x", b"a/b/c"));
        assert!(reached("src/**", b"src/a/b"));
        assert!(reached("{a/b,c}/x", b"a/b"), "a brace may hold a slash");
    }

    #[test]
    fn a_glob_is_narrowed_to_the_directories_that_it_names() {
        let narrow = |text: &str| {
            let narrow = glob(text).search_area();
            (narrow.directories.join("/"), narrow.is_deep)
        };
        assert_eq!(narrow("src/deep/*.rs"), ("src/deep".into(), false));
        assert_eq!(narrow("/workspace/src/**/*.rs"), ("src".into(), true));
        assert_eq!(narrow("*.rs"), (String::new(), false));
        assert_eq!(narrow("**"), (String::new(), true));
        assert_eq!(narrow("a/*/c/d"), ("a".into(), true));
        assert_eq!(narrow("a/b.txt"), ("a".into(), false));
        assert_eq!(narrow("a/{b/c,d}"), ("a".into(), true), "a brace may hold a slash");
        assert_eq!(narrow("{a/b,c}/x"), (String::new(), true));
        assert_eq!(narrow("[a]/x/y"), (String::new(), true));
        assert_eq!(narrow("a\\*b/x"), (String::new(), true));
    }

    #[test]
    fn a_selection_is_narrowed_to_what_all_of_its_globs_name() {
        let narrow = |globs: &[&str]| {
            let globs: Vec<_> = globs.iter().map(|glob| (*glob).to_owned()).collect();
            FileSelection::search_area(&globs).directories.join("/")
        };
        assert_eq!(narrow(&[]), "");
        assert_eq!(narrow(&["src/a/*.rs"]), "src/a");
        assert_eq!(narrow(&["src/a/*.rs", "src/b/**"]), "src");
        assert_eq!(narrow(&["src/a/*.rs", "*.md"]), "", "a name may be anywhere");
        assert_eq!(narrow(&["src/a/", "src/b/c"]), "src");
    }

    #[test]
    fn a_pattern_that_leads_above_is_refused() {
        let error = PathGlob::parse("../*.rs").unwrap_err();
        assert_eq!(error.message(), "the glob `../*.rs` has a `..`");
        assert!(PathGlob::parse("a..b/[...slug]").is_ok(), "dots in a name are ordinary");
        assert!(PathGlob::parse("/").is_err());
        assert!(
            PathGlob::parse("a[b")
                .unwrap_err()
                .message()
                .starts_with("`pattern`: `a[b` is not a glob")
        );
    }

    #[test]
    fn a_glob_without_a_slash_selects_names_at_any_depth() {
        let selection = FileSelection::parse(&["*.rs".into(), "docs/*.md".into()], &["target".into()]).unwrap();
        assert!(selection.takes_file(b"a/b/c.rs", b"c.rs"));
        assert!(selection.takes_file(b"docs/a.md", b"a.md"));
        assert!(!selection.takes_file(b"other/docs/a.md", b"a.md"));
        assert!(!selection.enters_directory(b"a/target", b"target"));
        assert!(selection.enters_directory(b"a/src", b"src"));
    }
}
