//! What must hold of any text given as a path, and of any bytes given as an entry or a cursor.

use garret_core::{EntryPath, ErrorKind, OnEscape, WsPath};

/// Parses `data` as a path and as an entry, and checks what must hold of both.
pub fn path(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data) {
        check_parse(text);
        check_token_text(text);
    }
    check_entry(data);
}

fn check_parse(text: &str) {
    let clamped = WsPath::parse_with(text, OnEscape::Clamp);
    match WsPath::parse(text) {
        Ok(path) => {
            check_normal(&path);
            assert_eq!(
                clamped.as_ref().ok(),
                Some(&path),
                "{text:?} stays inside, so clamping changes nothing"
            );
        }
        Err(error) => assert!(
            matches!(error.kind(), ErrorKind::PathEscape | ErrorKind::Invalid),
            "{error:?}"
        ),
    }
    match clamped {
        Ok(path) => {
            check_normal(&path);
            assert_eq!(path.as_str(), expected(text), "{text:?}");
        }
        Err(error) => assert_eq!(error.kind(), ErrorKind::Invalid, "{text:?}: clamping leaves no escape"),
    }
}

/// The normal form, put together in the plainest way: a stack of names that never goes below empty.
fn expected(text: &str) -> String {
    let mut names: Vec<&str> = Vec::new();
    let mut may_be_mount_point = text.starts_with('/');
    for name in text.split('/').filter(|name| !matches!(*name, "" | ".")) {
        match name {
            "workspace" if may_be_mount_point => {}
            ".." => drop(names.pop()),
            name => names.push(name),
        }
        may_be_mount_point = false;
    }
    names.join("/")
}

fn check_normal(path: &WsPath) {
    let text = path.as_str();
    assert!(text.len() <= 4_096 && !text.contains('\0'), "{text:?}");
    if !path.is_root() {
        for name in text.split('/') {
            assert!(!matches!(name, "" | "." | "..") && name.len() <= 255, "{text:?}");
        }
    }
    assert_eq!(
        WsPath::parse(text).ok().as_ref(),
        Some(path),
        "a normal path is read as itself"
    );
    let spelled_out = format!("/workspace/{text}");
    assert_eq!(
        WsPath::parse(&spelled_out).ok().as_ref(),
        Some(path),
        "the mount point is the root"
    );
    let rebuilt = path
        .components()
        .try_fold(WsPath::root(), |above, name| above.child(name));
    assert_eq!(rebuilt.ok().as_ref(), Some(path), "a path is its components");
    assert!(path.is_within(&WsPath::root()));
    assert!(path.parent().is_none_or(|parent| path.is_within(&parent)));
    assert_eq!(path.ancestry().last().unwrap_or_else(WsPath::root), *path);
}

fn check_entry(bytes: &[u8]) {
    let entry = EntryPath::from_bytes(bytes.to_vec());
    assert_eq!(entry.as_bytes(), bytes);
    assert_eq!(entry.is_escaped(), entry.as_path().is_none());
    assert!(entry.display_path().ends_with(&entry.display_name()));
    let token = entry.to_token();
    let back = EntryPath::from_token(&token).ok();
    assert_eq!(back, is_normal(bytes).then_some(entry), "{token:?}");
}

fn is_normal(bytes: &[u8]) -> bool {
    let is_odd = |name: &[u8]| matches!(name, b"" | b"." | b"..");
    bytes.is_empty() || !bytes.split(|byte| *byte == b'/').any(is_odd)
}

fn check_token_text(token: &str) {
    if let Ok(entry) = EntryPath::from_token(token) {
        entry.as_path().into_iter().for_each(check_normal);
        let again = EntryPath::from_token(&entry.to_token()).expect("a token that was made can be read");
        assert_eq!(again, entry);
    }
}

#[cfg(test)]
mod tests {
    use super::path;
    use crate::fuzz::Random;

    const PIECES: [&[u8]; 22] = [
        b"/",
        b"//",
        b"..",
        b"../",
        b".",
        b"./",
        b"a",
        b"b",
        b"workspace",
        b"/workspace/",
        b"etc",
        b"...",
        b"a..b",
        b"%",
        b"%2e",
        b"%2E%2E%2F",
        b"\\",
        b"\0",
        b"\xff",
        "é".as_bytes(),
        b" ",
        b"~",
    ];

    #[test]
    fn paths_hold_their_promises_on_random_input() {
        let mut random = Random::new(1);
        for _ in 0..5_000 {
            path(&random.bytes_from(&PIECES, 40));
        }
        for _ in 0..200 {
            path(&random.bytes_from(&[b"a", b"b", b"a", b"c", b"/"], 400));
            path(&random.bytes_from(&[b"abcdefgh", b"abcdefgh/", b"../", b"x"], 6_000));
        }
    }
}
