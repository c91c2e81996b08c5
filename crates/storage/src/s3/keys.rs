//! Paths as keys and back.
//!
//! A file at `path` is the object `prefix/path`, a directory that must exist by itself the object `prefix/path/`. Keys that others put
//! there need not be paths: each key below the prefix is sorted out here, once, and what is no path is [`Meaning::Odd`]: no list shows it,
//! no operation can name it, and a check reports it.

use std::borrow::Cow;

use garret_core::{Error, ErrorKind, Result, WsPath};

/// The directory below the prefix in which Garret keeps what is its own.
pub(super) const RESERVED: &str = ".garret";
/// The most bytes in a key.
const MAX_KEY: usize = 1_024;
/// What stands for a backslash.
const SPARED: &str = "\u{f05c}";

/// Where a workspace lies in its bucket: empty, or ends with `/`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Layout {
    prefix: String,
    spares_backslash: bool,
}

/// What a key below the prefix stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Meaning {
    /// The object of a file or link.
    File(WsPath),
    /// The marker of a directory; the root's own is nothing to anybody.
    Directory(WsPath),
    /// Something of Garret's.
    Reserved,
    /// No path at all: what comes after the prefix.
    Odd(String),
}

impl Layout {
    /// Reads the option `prefix`: one slash at either end makes no difference, and a part that is no name is refused.
    pub(super) fn new(prefix: &str) -> Result<Self> {
        let trimmed = prefix.strip_prefix('/').unwrap_or(prefix);
        let trimmed = trimmed.strip_suffix('/').unwrap_or(trimmed);
        if trimmed.is_empty() {
            return Ok(Self {
                prefix: String::new(),
                spares_backslash: false,
            });
        }
        let wrong = |part: &str| matches!(part, "" | "." | "..") || part.contains('\0');
        if trimmed.split('/').any(wrong) {
            return Err(Error::invalid("`prefix` has a part that is empty, `.` or `..`")
                .hint("write it as `a/b`, or `\"\"` for the whole bucket"));
        }
        Ok(Self {
            prefix: format!("{trimmed}/"),
            spares_backslash: false,
        })
    }

    /// The same for a server that takes a backslash for a slash (SeaweedFS does): in a key it is written as the character that Cygwin and
    /// WSL use for it, so that the file `a\b` is not the file `b` in `a`.
    pub(super) fn sparing_backslash(self, spares_backslash: bool) -> Self {
        Self {
            spares_backslash,
            ..self
        }
    }

    /// A path as it is written in a key.
    fn written<'a>(&self, path: &'a WsPath) -> Cow<'a, str> {
        match self.spares_backslash && path.as_str().contains('\\') {
            true => path.as_str().replace('\\', SPARED).into(),
            false => path.as_str().into(),
        }
    }

    /// A part of a key as it is written in a path.
    pub(super) fn plain(&self, key: &str) -> String {
        match self.spares_backslash {
            true => key.replace(SPARED, "\\"),
            false => key.to_owned(),
        }
    }

    /// The prefix, with its slash.
    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The key of the file at `path`; the root has none.
    pub(super) fn file(&self, path: &WsPath) -> Result<String> {
        if path.is_root() {
            return Err(Error::is_a_directory(path));
        }
        refuse_reserved(path)?;
        if self.spares_backslash && path.as_str().contains(SPARED) {
            return Err(Error::invalid(format!(
                "{} has a character that Garret uses for `\\` in keys",
                path.quoted()
            ))
            .at(path));
        }
        let key = format!("{}{}", self.prefix, self.written(path));
        if key.len() > MAX_KEY {
            let message = format!("the S3 key would have {} bytes, including the prefix", key.len());
            return Err(Error::invalid(message)
                .at(path)
                .hint(format!("a key can have at most {MAX_KEY} bytes; use shorter names")));
        }
        Ok(key)
    }

    /// What every key below the directory begins with; its marker is exactly that.
    pub(super) fn directory(&self, path: &WsPath) -> String {
        if path.is_root() {
            return self.prefix.clone();
        }
        format!("{}{}/", self.prefix, self.written(path))
    }

    /// The key of something of Garret's own.
    pub(super) fn reserved(&self, name: &str) -> String {
        format!("{}{RESERVED}/{name}", self.prefix)
    }

    /// What `key`, which begins with the prefix, stands for.
    pub(super) fn meaning(&self, key: &str) -> Meaning {
        let rest = self.plain(key.strip_prefix(&self.prefix).unwrap_or(key));
        let rest = rest.as_str();
        if is_reserved(rest) {
            return Meaning::Reserved;
        }
        let (text, is_marker) = match rest.strip_suffix('/') {
            Some(directory) => (directory, true),
            None => (rest, false),
        };
        match WsPath::parse(text) {
            // Parsing forgives much; a key is the one spelling of its path or none.
            Ok(path) if path.as_str() == text && !path.is_root() && is_marker => Meaning::Directory(path),
            Ok(path) if path.as_str() == text && !path.is_root() => Meaning::File(path),
            Ok(path) if path.is_root() && rest.is_empty() => Meaning::Directory(path),
            _ => Meaning::Odd(rest.to_owned()),
        }
    }
}

fn is_reserved(rest: &str) -> bool {
    rest.strip_prefix(RESERVED)
        .is_some_and(|after| after.is_empty() || after.starts_with('/'))
}

/// Refuses a path that is Garret's own.
pub(super) fn refuse_reserved(path: &WsPath) -> Result<()> {
    if !is_reserved(path.as_str()) {
        return Ok(());
    }
    Err(
        Error::new(ErrorKind::Denied, format!("{} is reserved for Garret", path.quoted()))
            .at(path)
            .hint("choose another name"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> WsPath {
        WsPath::parse(text).unwrap()
    }

    #[test]
    fn a_prefix_is_a_directory_however_it_is_written() {
        for prefix in ["a/b", "/a/b", "a/b/", "/a/b/"] {
            assert_eq!(Layout::new(prefix).unwrap().prefix(), "a/b/");
        }
        for prefix in ["", "/"] {
            assert_eq!(Layout::new(prefix).unwrap().prefix(), "");
        }
        for prefix in ["a//b", "../a", "a/.", "a\0"] {
            assert!(Layout::new(prefix).is_err(), "{prefix:?}");
        }
    }

    #[test]
    fn a_key_is_below_the_prefix() {
        let layout = Layout::new("p").unwrap();
        assert_eq!(layout.file(&path("a/b")).unwrap(), "p/a/b");
        assert_eq!(layout.directory(&path("a")), "p/a/");
        assert_eq!(layout.directory(&WsPath::root()), "p/");
    }

    #[test]
    fn the_root_has_no_key() {
        for text in ["", ".", "/", "a/.."] {
            let error = Layout::new("p").unwrap().file(&path(text)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::IsADirectory);
        }
    }

    #[test]
    fn a_key_that_is_too_long_is_refused_before_it_is_sent() {
        let long = ["n".repeat(200).as_str(); 6].join("/");
        let error = Layout::new("p").unwrap().file(&path(&long)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
    }

    #[test]
    fn a_backslash_is_spared_where_a_server_takes_it_for_a_slash() {
        let layout = Layout::new("p").unwrap().sparing_backslash(true);
        let key = layout.file(&path("a\\b")).unwrap();
        assert_eq!(key, "p/a\u{f05c}b");
        assert_eq!(layout.meaning(&key), Meaning::File(path("a\\b")));
        assert!(layout.file(&path("\u{f05c}")).is_err());
        assert_eq!(Layout::new("p").unwrap().file(&path("a\\b")).unwrap(), "p/a\\b");
    }

    #[test]
    fn what_is_garret_s_own_is_refused() {
        let layout = Layout::new("p").unwrap();
        for text in [".garret", ".garret/moves/1"] {
            assert_eq!(layout.file(&path(text)).unwrap_err().kind(), ErrorKind::Denied);
        }
        assert!(layout.file(&path(".garrett")).is_ok());
        assert!(layout.file(&path("a/.garret")).is_ok());
    }

    #[test]
    fn keys_are_sorted_out() {
        let layout = Layout::new("p").unwrap();
        assert_eq!(layout.meaning("p/a/b"), Meaning::File(path("a/b")));
        assert_eq!(layout.meaning("p/a/"), Meaning::Directory(path("a")));
        assert_eq!(layout.meaning("p/"), Meaning::Directory(WsPath::root()));
        assert_eq!(layout.meaning("p/.garret/x"), Meaning::Reserved);
        for odd in ["a//b", "../x", "a/./b", "/a", "a//", "/", "a/../b", "/workspace/x"] {
            assert_eq!(
                layout.meaning(&format!("p/{odd}")),
                Meaning::Odd(odd.to_owned()),
                "{odd}"
            );
        }
    }
}
