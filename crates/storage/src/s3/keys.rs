//! Conversion of paths into keys and back.
//!
//! A file at `path` is the object `prefix/path`; a directory that must exist by itself is the object `prefix/path/`.
//! Other programs may put keys there that are no paths: every key below the prefix is classified here, and no list
//! shows a key that is no path, no operation can name it, and a check reports it.

use std::borrow::Cow;

use garret_core::{Error, ErrorKind, Result, WsPath};

/// The directory below the prefix for Garret's own objects.
pub(super) const RESERVED: &str = ".garret";
/// The largest number of bytes in a key.
const MAX_KEY: usize = 1_024;
/// The character that stands for a backslash in keys.
const SPARED: &str = "\u{f05c}";

/// The prefix of a workspace in its bucket, empty or with `/` at its end, and the spelling of its keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Layout {
    prefix: String,
    spares_backslash: bool,
}

/// The meaning of a key below the prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Meaning {
    /// The object of a file or link.
    File(WsPath),
    /// The marker of a directory; a marker of the root has no meaning.
    Directory(WsPath),
    /// An object of Garret's own.
    Reserved,
    /// No path; holds the part of the key after the prefix.
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

    /// Returns the layout for a server that takes a backslash for a slash, as SeaweedFS does. In its keys a backslash
    /// is written as the character that Cygwin and WSL use for it, so that the file `a\b` is not the file `b` in `a`.
    pub(super) fn sparing_backslash(self, spares_backslash: bool) -> Self {
        Self {
            spares_backslash,
            ..self
        }
    }

    /// Returns a path in the spelling of keys.
    fn written<'a>(&self, path: &'a WsPath) -> Cow<'a, str> {
        if self.spares_backslash && path.as_str().contains('\\') {
            path.as_str().replace('\\', SPARED).into()
        } else {
            path.as_str().into()
        }
    }

    /// Returns a part of a key in the spelling of paths.
    pub(super) fn plain(&self, key: &str) -> String {
        if self.spares_backslash {
            key.replace(SPARED, "\\")
        } else {
            key.to_owned()
        }
    }

    /// Returns the prefix, with its slash.
    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Returns the key of the file at `path`; the root has none.
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

    /// Returns the prefix of every key below the directory, which is also the key of its marker.
    pub(super) fn directory(&self, path: &WsPath) -> String {
        if path.is_root() {
            return self.prefix.clone();
        }
        format!("{}{}/", self.prefix, self.written(path))
    }

    /// Returns the key of one of Garret's own objects.
    pub(super) fn reserved(&self, name: &str) -> String {
        format!("{}{RESERVED}/{name}", self.prefix)
    }

    /// Classifies `key`, which begins with the prefix.
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
            // Parsing accepts several spellings of a path; only the canonical one is a key, or two keys would be one
            // file.
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

/// Refuses a path that is reserved for Garret.
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
