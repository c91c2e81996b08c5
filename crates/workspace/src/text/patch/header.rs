//! File names as patches write them: after `---` and `+++` or on the `diff --git` line, quoted, or followed by a time.

/// The name after `---` or `+++`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PatchFileName {
    /// `/dev/null`: there is no such file on this side.
    DevNull,
    /// A path. `diff -N` marks an absent file by the epoch as its time.
    Path { path: String, is_epoch: bool },
}

impl PatchFileName {
    /// Reads the rest of a line after `--- ` or `+++ `.
    pub(super) fn parse(bytes: &[u8]) -> Option<PatchFileName> {
        let text = std::str::from_utf8(bytes).ok()?;
        let (path, rest) = match unquote_name(text) {
            Some((path, rest)) => (path, rest),
            None => {
                let (path, rest) = text.split_once('\t').unwrap_or((text, ""));
                (path.trim_end().to_owned(), rest)
            }
        };
        if path == "/dev/null" {
            return Some(PatchFileName::DevNull);
        }
        let time = rest.trim();
        // West of Greenwich, the epoch is on the day before.
        let is_epoch = time.starts_with("1970-01-01") || time.starts_with("1969-12-31");
        (!path.is_empty()).then_some(PatchFileName::Path { path, is_epoch })
    }

    pub(super) fn path(&self) -> Option<&str> {
        match self {
            PatchFileName::DevNull => None,
            PatchFileName::Path { path, .. } => Some(path),
        }
    }

    pub(super) fn is_epoch(&self) -> bool {
        matches!(self, PatchFileName::Path { is_epoch: true, .. })
    }
}

/// Reads the rest of a line that is one path, such as that of `rename from`.
pub(super) fn parse_path(bytes: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(bytes).ok()?;
    match unquote_name(text) {
        Some((path, _)) => Some(path),
        None => Some(text.to_owned()),
    }
    .filter(|path| !path.is_empty())
}

/// Reads the two names after `diff --git `, with their prefixes.
pub(super) fn parse_git_names(bytes: &[u8]) -> Option<(String, String)> {
    let text = std::str::from_utf8(bytes).ok()?.trim_end();
    if let Some((old, rest)) = unquote_name(text) {
        let new = rest.strip_prefix(' ')?;
        return Some((old, unquote_name(new).map_or_else(|| new.to_owned(), |(new, _)| new)));
    }
    // Git quotes each name on its own, so the second may be quoted and the first not.
    if text.ends_with('"') {
        let at = text.find(" \"")?;
        return Some((text[..at].to_owned(), unquote_name(&text[at + 1..])?.0));
    }
    split_equal_names(text)
}

/// Splits `a/x y b/x y` at the space that gives two names which agree, since names may contain spaces. Names that
/// differ are split only if there is one space.
fn split_equal_names(text: &str) -> Option<(String, String)> {
    let cuts = || text.match_indices(' ').map(|(at, _)| (&text[..at], &text[at + 1..]));
    let twins = cuts().find(|(old, new)| bare_names(old, new).is_some_and(|(old, new)| old == new));
    let only = || cuts().next().filter(|_| cuts().count() == 1);
    twins.or_else(only).map(|(old, new)| (old.to_owned(), new.to_owned()))
}

fn bare_names<'a>(old: &'a str, new: &'a str) -> Option<(&'a str, &'a str)> {
    strip_git_prefixes(old, new).or(Some((old, new)))
}

/// The pairs git puts before names: the usual one, its reverse, and those of `diff.mnemonicPrefix`.
const GIT_PREFIXES: [(&str, &str); 8] = [
    ("a/", "b/"),
    ("b/", "a/"),
    ("i/", "w/"),
    ("c/", "i/"),
    ("c/", "w/"),
    ("o/", "w/"),
    ("w/", "i/"),
    ("1/", "2/"),
];

/// Takes git's prefixes off, when both names carry a pair of them.
pub(super) fn strip_git_prefixes<'a>(old: &'a str, new: &'a str) -> Option<(&'a str, &'a str)> {
    GIT_PREFIXES
        .iter()
        .find_map(|(a, b)| Some((old.strip_prefix(a)?, new.strip_prefix(b)?)))
}

/// Reads a C-quoted name at the front of `text`; returns the name and the rest of the text.
fn unquote_name(text: &str) -> Option<(String, &str)> {
    let inner = text.strip_prefix('"')?;
    let mut bytes = Vec::new();
    let mut at = 0;
    loop {
        match inner.as_bytes().get(at)? {
            b'"' => return Some((String::from_utf8(bytes).ok()?, &inner[at + 1..])),
            b'\\' => {
                let (byte, length) = unescape_byte(&inner.as_bytes()[at + 1..])?;
                bytes.push(byte);
                at += 1 + length;
            }
            byte => {
                bytes.push(*byte);
                at += 1;
            }
        }
    }
}

fn unescape_byte(after: &[u8]) -> Option<(u8, usize)> {
    Some(match after.first()? {
        b'a' => (7, 1),
        b'b' => (8, 1),
        b't' => (b'\t', 1),
        b'n' => (b'\n', 1),
        b'v' => (11, 1),
        b'f' => (12, 1),
        b'r' => (b'\r', 1),
        same @ (b'"' | b'\\') => (*same, 1),
        b'0'..=b'3' => {
            let digits = std::str::from_utf8(after.get(..3)?).ok()?;
            (u8::from_str_radix(digits, 8).ok()?, 3)
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quoted_name_is_read_with_its_octal_escapes() {
        let name = PatchFileName::parse(br#""b/caf\303\251 \"x\"\t.txt""#).expect("it is well formed");
        assert_eq!(name.path(), Some("b/café \"x\"\t.txt"));
        assert_eq!(
            PatchFileName::parse(br#""b/\377""#),
            Some(PatchFileName::Path {
                path: r#""b/\377""#.to_owned(),
                is_epoch: false
            })
        );
    }

    #[test]
    fn a_time_behind_a_tab_is_not_part_of_the_name() {
        let name =
            PatchFileName::parse(b"my file.txt\t2026-01-02 03:04:05.000000000 +0000").expect("it is well formed");
        assert_eq!((name.path(), name.is_epoch()), (Some("my file.txt"), false));
        assert!(
            PatchFileName::parse(b"x\t1970-01-01 00:00:00.000000000 +0000")
                .expect("it is well formed")
                .is_epoch()
        );
    }

    #[test]
    fn names_with_spaces_are_split_where_they_agree() {
        let both = |old: &str, new: &str| Some((old.to_owned(), new.to_owned()));
        assert_eq!(parse_git_names(b"a/x y b/x y"), both("a/x y", "b/x y"));
        assert_eq!(parse_git_names(b"b/x b/x"), both("b/x", "b/x"));
        assert_eq!(parse_git_names(b"a/old b/new"), both("a/old", "b/new"));
        assert_eq!(parse_git_names(b"a/o n b/n o"), None);
        assert_eq!(parse_git_names(br#""a/\303\251" b/e"#), both("a/é", "b/e"));
        assert_eq!(parse_git_names(br#"a/e "b/\303\251""#), both("a/e", "b/é"));
    }
}
