//! Paths inside a workspace.
//!
//! A [`WsPath`] is parsed once, at the door, and trusted from there on: it cannot leave the root by its text. (A
//! symbolic link may still lead a storage outside; each storage guards against that itself.) Names on disk need not be
//! UTF-8, so a storage *lists* entries by [`EntryPath`], which holds a `WsPath` if the name is UTF-8.

use std::borrow::{Borrow, Cow};
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{Error, Result};

pub(crate) const MAX_PATH_BYTES: usize = 4096;
const MAX_NAME_BYTES: usize = 255;

/// The directory at which commands see the workspace; a path that begins with it names the same file in every tool.
pub const MOUNT_POINT: &str = "/workspace";

/// The treatment of a path whose text would leave the workspace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnEscape {
    /// It is a `path_escape` error.
    #[default]
    Reject,
    /// It stops at the root.
    Clamp,
}

/// A normalised path relative to the root of a workspace; the root itself is the empty path.
///
/// Holds after parsing: UTF-8 without NUL, `/`-separated, no empty, `.` or `..` component, no component over 255 bytes,
/// at most 4096 bytes in all. Ordered by its bytes, which is the order of every list. Cheap to clone: clones share the
/// text.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WsPath(Arc<str>);

impl WsPath {
    /// Returns the root of the workspace.
    pub fn root() -> Self {
        Self(Arc::default())
    }

    /// Parses the path that a caller wrote; a path that would leave the root is a `path_escape` error.
    pub fn parse(text: &str) -> Result<Self> {
        Self::parse_with(text, OnEscape::Reject)
    }

    /// Parses the path that a caller wrote: a leading `/` or `/workspace/` means the root, `.` and empty components
    /// vanish, `..` is resolved lexically.
    pub fn parse_with(text: &str, on_escape: OnEscape) -> Result<Self> {
        if is_normalised(text) {
            return Self::from_normal_text(text.to_owned());
        }
        let mut parts: Vec<&str> = Vec::new();
        for part in strip_mount_point(text).split('/') {
            match part {
                "" | "." => {}
                ".." if parts.pop().is_some() || on_escape == OnEscape::Clamp => {}
                ".." => return Err(Error::escape_text(text)),
                name => parts.push(name),
            }
        }
        Self::from_normal_text(parts.join("/"))
    }

    fn from_normal_text(text: String) -> Result<Self> {
        if text.contains('\0') {
            return Err(Error::invalid("a path cannot contain a NUL character"));
        }
        if text.len() > MAX_PATH_BYTES {
            return Err(Error::invalid(format!(
                "a path can have at most {MAX_PATH_BYTES} bytes; this path has {}",
                text.len()
            )));
        }
        if let Some(long) = text.split('/').find(|name| name.len() > MAX_NAME_BYTES) {
            return Err(Error::invalid(format!(
                "a file name can have at most {MAX_NAME_BYTES} bytes; one in this path has {}",
                long.len()
            )));
        }
        Ok(Self(text.into()))
    }

    /// Returns the path of the entry `name` in this directory. Fails if `name` is not a single name or the path becomes
    /// too long.
    pub fn child(&self, name: &str) -> Result<Self> {
        if name.is_empty() || name == "." || name == ".." || name.contains('/') {
            return Err(Error::invalid(format!("{} is not a file name", quote(name))));
        }
        Self::from_normal_text(if self.is_root() {
            name.to_owned()
        } else {
            format!("{}/{name}", self.0)
        })
    }

    /// Returns this path below `base`. Fails only if the result would be too long.
    pub fn rebase_below(&self, base: &WsPath) -> Result<Self> {
        match (base.is_root(), self.is_root()) {
            (true, _) => Ok(self.clone()),
            (_, true) => Ok(base.clone()),
            _ => Self::from_normal_text(format!("{}/{}", base.0, self.0)),
        }
    }

    /// Returns the directory that holds this entry; `None` for the root.
    pub fn parent(&self) -> Option<Self> {
        if self.is_root() {
            return None;
        }
        Some(Self(
            self.0
                .rfind('/')
                .map_or_else(Arc::default, |slash| self.0[..slash].into()),
        ))
    }

    /// Returns the last component; `None` for the root.
    pub fn name(&self) -> Option<&str> {
        self.components().next_back()
    }

    /// Returns whether this is the root.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the components from the top.
    pub fn components(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.0.split('/').filter(|name| !name.is_empty())
    }

    /// Returns every path from the first component down to this one.
    pub fn ancestry(&self) -> impl Iterator<Item = WsPath> + '_ {
        let cuts = self.0.match_indices('/').map(|(slash, _)| slash);
        let ends = cuts.chain((!self.is_root()).then_some(self.0.len()));
        ends.map(|end| Self(self.0[..end].into()))
    }

    /// Returns whether this is `base` or lies below it.
    pub fn is_within(&self, base: &WsPath) -> bool {
        self.relative_to(base).is_some()
    }

    /// Returns the part of this path below `base`; `None` if it does not lie there.
    pub fn relative_to(&self, base: &WsPath) -> Option<WsPath> {
        if base.is_root() {
            return Some(self.clone());
        }
        // A common beginning is not enough: `ab` does not lie within `a`.
        let rest = self.0.strip_prefix(&*base.0)?;
        if rest.is_empty() {
            return Some(Self::root());
        }
        rest.strip_prefix('/').map(|rest| Self(rest.into()))
    }

    /// Returns the text: no leading slash, empty for the root.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the path in backquotes, with control characters escaped, for messages.
    pub fn to_quoted(&self) -> String {
        quote(if self.is_root() { "/" } else { &self.0 })
    }
}

/// Returns whether `text` is already a normal relative path, so that it need not be split.
fn is_normalised(text: &str) -> bool {
    let odd = |part: &str| part.is_empty() || part == "." || part == "..";
    !text.split('/').any(odd)
}

/// Returns whether `text` is an absolute path at the mount point of the workspace: `/workspace`, or something below.
pub fn is_at_mount_point(text: &str) -> bool {
    text.starts_with('/') && after_mount_point(strip_leading_root(text)).is_some()
}

/// Returns the text after a leading `/workspace`, so that it is read relative to the root.
fn strip_mount_point(text: &str) -> &str {
    if !text.starts_with('/') {
        return text;
    }
    let rest = strip_leading_root(text);
    after_mount_point(rest).unwrap_or(rest)
}

/// Returns an absolute path without the slashes and dots that it begins with.
fn strip_leading_root(text: &str) -> &str {
    let mut rest = text.trim_start_matches('/');
    while let Some(after) = rest.strip_prefix("./") {
        rest = after.trim_start_matches('/');
    }
    rest
}

fn after_mount_point(below_root: &str) -> Option<&str> {
    let after = below_root.strip_prefix(&MOUNT_POINT[1..])?;
    (after.is_empty() || after.starts_with('/')).then_some(after)
}

/// Checks that a symbolic link can point to `target`: 1 to 4095 bytes without a NUL.
pub fn check_target(target: &str) -> Result<()> {
    // No system makes a link with any other target.
    if target.is_empty() || target.len() >= MAX_PATH_BYTES || target.contains('\0') {
        return Err(
            Error::invalid("a symbolic link cannot point there").hint("a target has 1 to 4095 bytes and no NUL byte")
        );
    }
    Ok(())
}

/// Returns `text` in backquotes with control characters escaped, so that a name cannot forge a line of output.
pub fn quote(text: &str) -> String {
    format!("`{}`", escape_unprintable(text))
}

/// Returns `text` with control characters escaped; borrowed if there are none.
pub fn escape_unprintable(text: &str) -> Cow<'_, str> {
    if !text.contains(is_unprintable) {
        return Cow::Borrowed(text);
    }
    let escape = |c: char| {
        if is_unprintable(c) {
            c.escape_default().collect()
        } else {
            c.to_string()
        }
    };
    Cow::Owned(text.chars().map(escape).collect())
}

/// Returns whether `c` is a control character, a line separator, or a mark that turns the direction of the text.
fn is_unprintable(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

impl fmt::Display for WsPath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl fmt::Debug for WsPath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "WsPath({:?})", self.0)
    }
}

impl Serialize for WsPath {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl Borrow<str> for WsPath {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl<'de> Deserialize<'de> for WsPath {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        Self::parse(&text).map_err(|error| serde::de::Error::custom(error.message()))
    }
}

/// The path of an entry that a storage lists: a [`WsPath`], or raw bytes if a name is not UTF-8 (or too long for one).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum EntryPath {
    /// A path that every operation takes.
    Valid(WsPath),
    /// A path that is listed in escaped form and that no tool can open.
    Raw(Vec<u8>),
}

/// Writes the path in the form of [`EntryPath::display_path`].
impl Serialize for EntryPath {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.display_path())
    }
}

impl EntryPath {
    /// Returns the path of the entry at `bytes`, a normalised path below the root.
    pub fn from_bytes(bytes: Vec<u8>) -> Self {
        match String::from_utf8(bytes) {
            // A name too long for a `WsPath` is kept as raw bytes, so that it can still be listed.
            Ok(text) => {
                WsPath::from_normal_text(text.clone()).map_or_else(|_| Self::Raw(text.into_bytes()), Self::Valid)
            }
            Err(error) => Self::Raw(error.into_bytes()),
        }
    }

    /// Returns the path of the entry `name` in this directory.
    pub fn child(&self, name: &[u8]) -> Self {
        let mut bytes = self.as_bytes().to_vec();
        if !bytes.is_empty() {
            bytes.push(b'/');
        }
        bytes.extend_from_slice(name);
        Self::from_bytes(bytes)
    }

    /// Returns the path as bytes.
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Valid(path) => path.as_str().as_bytes(),
            Self::Raw(bytes) => bytes,
        }
    }

    /// Returns the path in the form that every operation takes; `None` if a name is not UTF-8.
    pub fn as_path(&self) -> Option<&WsPath> {
        match self {
            Self::Valid(path) => Some(path),
            Self::Raw(_) => None,
        }
    }

    /// Returns whether the shown form is an escaped one, which no operation takes.
    pub fn is_escaped(&self) -> bool {
        self.as_path().is_none()
    }

    /// Returns the last component as bytes.
    pub fn name_bytes(&self) -> &[u8] {
        self.as_bytes().rsplit(|byte| *byte == b'/').next().unwrap_or_default()
    }

    /// Returns the last component for display: bytes that are not UTF-8 become `\xFF`.
    pub fn display_name(&self) -> String {
        escape_bytes(self.name_bytes())
    }

    /// Returns the whole path for display: bytes that are not UTF-8 become `\xFF`.
    pub fn display_path(&self) -> String {
        escape_bytes(self.as_bytes())
    }

    /// Returns the path as a token for a cursor; [`EntryPath::from_token`] reads it back.
    pub fn to_token(&self) -> String {
        let mut token = String::new();
        for chunk in self.as_bytes().utf8_chunks() {
            // The escape character itself must be escaped, too.
            token.push_str(&chunk.valid().replace('%', "%25"));
            chunk
                .invalid()
                .iter()
                .for_each(|byte| token.push_str(&format!("%{byte:02X}")));
        }
        token
    }

    /// Reads a token of [`EntryPath::to_token`]; a token that spells a path in any but its normal form is `invalid`.
    pub fn from_token(token: &str) -> Result<Self> {
        let wrong = || {
            Error::invalid("this cursor was not made by Garret")
                .hint("pass `next_cursor` of the page before, unchanged")
        };
        let mut bytes = Vec::with_capacity(token.len());
        let mut rest = token.as_bytes();
        while let Some((&byte, after)) = rest.split_first() {
            rest = after;
            if byte != b'%' {
                bytes.push(byte);
                continue;
            }
            let digits = rest
                .get(..2)
                .and_then(|pair| std::str::from_utf8(pair).ok())
                .ok_or_else(wrong)?;
            bytes.push(u8::from_str_radix(digits, 16).map_err(|_| wrong())?);
            rest = &rest[2..];
        }
        // A token comes from a caller: `..` in a cursor must lead nowhere.
        let is_odd = |name: &[u8]| matches!(name, b"" | b"." | b"..");
        if !bytes.is_empty() && bytes.split(|byte| *byte == b'/').any(is_odd) {
            return Err(wrong());
        }
        Ok(Self::from_bytes(bytes))
    }
}

impl From<WsPath> for EntryPath {
    fn from(path: WsPath) -> Self {
        Self::Valid(path)
    }
}

impl PartialOrd for EntryPath {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for EntryPath {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.as_bytes().cmp(other.as_bytes())
    }
}

fn escape_bytes(bytes: &[u8]) -> String {
    let mut shown = String::new();
    for chunk in bytes.utf8_chunks() {
        shown.push_str(chunk.valid());
        chunk
            .invalid()
            .iter()
            .for_each(|byte| shown.push_str(&format!("\\x{byte:02X}")));
    }
    shown
}

/// Splits a path at its last slash into the path of the directory above, and the name in it.
pub fn split_path(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(slash) => (&path[..slash], &path[slash + 1..]),
        None => (b"", path),
    }
}

/// Returns the path of the entry `name` in the directory at `path`.
pub fn join_path(path: &[u8], name: &[u8]) -> Vec<u8> {
    if path.is_empty() {
        name.to_vec()
    } else {
        [path, b"/", name].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    fn parse(text: &str) -> String {
        WsPath::parse(text).unwrap().to_string()
    }

    #[test]
    fn spellings_of_one_file_are_one_path() {
        for text in [
            "a/b",
            "/a/b",
            "./a//b",
            "a/./b/",
            "a/x/../b",
            "/workspace/a/b",
            "//workspace/a/b",
            "/./workspace/a/b",
        ] {
            assert_eq!(parse(text), "a/b", "{text}");
        }
    }

    #[test]
    fn only_an_absolute_workspace_prefix_is_the_root() {
        assert_eq!(parse("workspace/a"), "workspace/a");
        assert_eq!(parse("/workspaces/a"), "workspaces/a");
        assert_eq!(parse("/workspace"), "");
    }

    #[test]
    fn the_mount_point_is_told_from_other_absolute_paths() {
        for text in ["/workspace", "//workspace/", "/./workspace/a", "/workspace/../a"] {
            assert!(is_at_mount_point(text), "{text}");
        }
        for text in ["workspace/a", "/workspaces/a", "/a/workspace", "/", ""] {
            assert!(!is_at_mount_point(text), "{text}");
        }
    }

    #[test]
    fn leaving_the_mount_point_is_an_escape() {
        assert_eq!(
            WsPath::parse("/workspace/../etc").unwrap_err().kind(),
            ErrorKind::PathEscape
        );
    }

    #[test]
    fn clamping_stops_at_the_root() {
        assert_eq!(
            WsPath::parse_with("a/../../../etc", OnEscape::Clamp).unwrap().as_str(),
            "etc"
        );
    }

    #[test]
    fn ancestry_goes_from_the_top_down() {
        let path = WsPath::parse("a/b/c").unwrap();
        let all: Vec<_> = path.ancestry().map(|path| path.to_string()).collect();
        assert_eq!(all, ["a", "a/b", "a/b/c"]);
        assert_eq!(WsPath::root().ancestry().count(), 0);
    }

    #[test]
    fn relative_paths_end_at_component_borders() {
        let base = WsPath::parse("a/b").unwrap();
        assert_eq!(
            WsPath::parse("a/b/c").unwrap().relative_to(&base).unwrap().as_str(),
            "c"
        );
        assert!(WsPath::parse("a/bc").unwrap().relative_to(&base).is_none());
    }

    #[test]
    fn a_name_that_is_not_utf8_is_shown_escaped_and_survives_a_cursor() {
        let path = EntryPath::from_bytes(b"dir/caf\xe9%.txt".to_vec());
        assert_eq!(path.display_path(), "dir/caf\\xE9%.txt");
        assert!(path.is_escaped());
        assert_eq!(EntryPath::from_token(&path.to_token()).unwrap(), path);
    }

    #[test]
    fn a_cursor_cannot_climb() {
        for token in [
            "..",
            "../bob",
            "a/../../bob",
            "%2E%2E/bob",
            "./a",
            "/a",
            "a//b",
            "a/",
            "%FF/..",
        ] {
            assert_eq!(
                EntryPath::from_token(token).unwrap_err().kind(),
                ErrorKind::Invalid,
                "{token}"
            );
        }
        assert_eq!(EntryPath::from_token("a/..b").unwrap().display_path(), "a/..b");
    }

    #[test]
    fn a_quoted_name_cannot_forge_a_line() {
        assert_eq!(quote("a\nb"), "`a\\nb`");
    }

    #[test]
    fn a_path_is_taken_apart_as_it_was_put_together() {
        for (above, name) in [(&b""[..], &b"a"[..]), (b"a", b"b"), (b"a/b", b"\xff\n")] {
            assert_eq!(split_path(&join_path(above, name)), (above, name));
        }
    }
}
