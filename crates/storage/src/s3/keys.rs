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
pub(super) struct KeyLayout {
    prefix: String,
    spares_backslash: bool,
}

/// The meaning of a key below the prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum KeyMeaning {
    /// The object of a file or link.
    File(WsPath),
    /// The marker of a directory; a marker of the root has no meaning.
    Directory(WsPath),
    /// An object of Garret's own.
    Reserved,
    /// No path; holds the part of the key after the prefix.
    NotAPath(String),
}

impl KeyLayout {
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
    pub(super) fn with_backslash_replaced(self, spares_backslash: bool) -> Self {
        Self {
            spares_backslash,
            ..self
        }
    }

    /// Returns a path in the spelling of keys.
    fn spell_as_key<'a>(&self, path: &'a WsPath) -> Cow<'a, str> {
        if self.spares_backslash && path.as_str().contains('\\') {
            path.as_str().replace('\\', SPARED).into()
        } else {
            path.as_str().into()
        }
    }

    /// Returns a part of a key in the spelling of paths.
    pub(super) fn spell_as_path(&self, key: &str) -> String {
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
    pub(super) fn file_key(&self, path: &WsPath) -> Result<String> {
        if path.is_root() {
            return Err(Error::is_a_directory(path));
        }
        refuse_reserved(path)?;
        if self.spares_backslash && path.as_str().contains(SPARED) {
            return Err(Error::invalid(format!(
                "{} has a character that Garret uses for `\\` in keys",
                path.to_quoted()
            ))
            .at_path(path));
        }
        let key = format!("{}{}", self.prefix, self.spell_as_key(path));
        if key.len() > MAX_KEY {
            let message = format!("the S3 key would have {} bytes, including the prefix", key.len());
            return Err(Error::invalid(message)
                .at_path(path)
                .hint(format!("a key can have at most {MAX_KEY} bytes; use shorter names")));
        }
        Ok(key)
    }

    /// Returns the prefix of every key below the directory, which is also the key of its marker.
    pub(super) fn directory_key(&self, path: &WsPath) -> String {
        if path.is_root() {
            return self.prefix.clone();
        }
        format!("{}{}/", self.prefix, self.spell_as_key(path))
    }

    /// Returns the key of one of Garret's own objects.
    pub(super) fn reserved_key(&self, name: &str) -> String {
        format!("{}{RESERVED}/{name}", self.prefix)
    }

    /// Classifies `key`, which begins with the prefix.
    pub(super) fn classify_key(&self, key: &str) -> KeyMeaning {
        let rest = self.spell_as_path(key.strip_prefix(&self.prefix).unwrap_or(key));
        let rest = rest.as_str();
        if is_reserved(rest) {
            return KeyMeaning::Reserved;
        }
        let (text, is_marker) = match rest.strip_suffix('/') {
            Some(directory) => (directory, true),
            None => (rest, false),
        };
        match WsPath::parse(text) {
            // Parsing accepts several spellings of a path; only the canonical one is a key, or two keys would be one
            // file.
            Ok(path) if path.as_str() == text && !path.is_root() && is_marker => KeyMeaning::Directory(path),
            Ok(path) if path.as_str() == text && !path.is_root() => KeyMeaning::File(path),
            Ok(path) if path.is_root() && rest.is_empty() => KeyMeaning::Directory(path),
            _ => KeyMeaning::NotAPath(rest.to_owned()),
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
    Err(Error::new(
        ErrorKind::Denied,
        format!("{} is reserved for Garret", path.to_quoted()),
    )
    .at_path(path)
    .hint("choose another name"))
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
            assert_eq!(KeyLayout::new(prefix).unwrap().prefix(), "a/b/");
        }
        for prefix in ["", "/"] {
            assert_eq!(KeyLayout::new(prefix).unwrap().prefix(), "");
        }
        for prefix in ["a//b", "../a", "a/.", "a\0"] {
            assert!(KeyLayout::new(prefix).is_err(), "{prefix:?}");
        }
    }

    #[test]
    fn a_key_is_below_the_prefix() {
        let layout = KeyLayout::new("p").unwrap();
        assert_eq!(layout.file_key(&path("a/b")).unwrap(), "p/a/b");
        assert_eq!(layout.directory_key(&path("a")), "p/a/");
        assert_eq!(layout.directory_key(&WsPath::root()), "p/");
    }

    #[test]
    fn the_root_has_no_key() {
        for text in ["", ".", "/", "a/.."] {
            let error = KeyLayout::new("p").unwrap().file_key(&path(text)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::IsADirectory);
        }
    }

    #[test]
    fn a_key_that_is_too_long_is_refused_before_it_is_sent() {
        let long = ["n".repeat(200).as_str(); 6].join("/");
        let error = KeyLayout::new("p").unwrap().file_key(&path(&long)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
    }

    #[test]
    fn a_backslash_is_spared_where_a_server_takes_it_for_a_slash() {
        let layout = KeyLayout::new("p").unwrap().with_backslash_replaced(true);
        let key = layout.file_key(&path("a\\b")).unwrap();
        assert_eq!(key, "p/a\u{f05c}b");
        assert_eq!(layout.classify_key(&key), KeyMeaning::File(path("a\\b")));
        assert!(layout.file_key(&path("\u{f05c}")).is_err());
        assert_eq!(KeyLayout::new("p").unwrap().file_key(&path("a\\b")).unwrap(), "p/a\\b");
    }

    #[test]
    fn what_is_garret_s_own_is_refused() {
        let layout = KeyLayout::new("p").unwrap();
        for text in [".garret", ".garret/moves/1"] {
            assert_eq!(layout.file_key(&path(text)).unwrap_err().kind(), ErrorKind::Denied);
        }
        assert!(layout.file_key(&path(".garrett")).is_ok());
        assert!(layout.file_key(&path("a/.garret")).is_ok());
    }

    #[test]
    fn keys_are_sorted_out() {
        let layout = KeyLayout::new("p").unwrap();
        assert_eq!(layout.classify_key("p/a/b"), KeyMeaning::File(path("a/b")));
        assert_eq!(layout.classify_key("p/a/"), KeyMeaning::Directory(path("a")));
        assert_eq!(layout.classify_key("p/"), KeyMeaning::Directory(WsPath::root()));
        assert_eq!(layout.classify_key("p/.garret/x"), KeyMeaning::Reserved);
        for odd in ["a//b", "../x", "a/./b", "/a", "a//", "/", "a/../b", "/workspace/x"] {
            assert_eq!(
                layout.classify_key(&format!("p/{odd}")),
                KeyMeaning::NotAPath(odd.to_owned()),
                "{odd}"
            );
        }
    }
}
