//! The published path cases: what each spelling names, and which are refused.

use std::collections::BTreeMap;

use garret_core::{Error, ErrorKind, OnEscape, WsPath};
use serde::Deserialize;

/// The cases of `testdata/vectors/paths.json`.
#[derive(Debug, Clone, Deserialize)]
pub struct PathVectors {
    /// Spellings that leave the root.
    pub escape: Vec<String>,
    /// Spellings that stay inside, with what they name.
    pub inside: BTreeMap<String, String>,
    /// Spellings that are no paths.
    pub refuse: Vec<String>,
}

/// The cases of `testdata/vectors/file-operations.json`.
#[derive(Debug, Clone, Deserialize)]
pub struct FileOperations {
    /// The cases.
    pub cases: Vec<FileOperation>,
}

/// A file operation that public systems get wrong.
#[derive(Debug, Clone, Deserialize)]
pub struct FileOperation {
    /// What is done.
    pub case: String,
    /// What must hold.
    pub must: String,
}

/// Loads the path cases.
pub fn paths() -> PathVectors {
    let text = include_str!("../../../testdata/vectors/paths.json");
    serde_json::from_str(text).expect("the path cases have their shape")
}

/// Loads the file operations.
pub fn file_operations() -> FileOperations {
    let text = include_str!("../../../testdata/vectors/file-operations.json");
    serde_json::from_str(text).expect("the file operations have their shape")
}

impl PathVectors {
    /// Checks every case with both ways of treating an escape.
    pub fn check(&self) {
        self.escape.iter().for_each(|text| check_escape(text));
        self.inside.iter().for_each(|(text, wanted)| check_inside(text, wanted));
        self.refuse.iter().for_each(|text| check_refused(text));
    }
}

fn kind(outcome: Result<WsPath, Error>) -> Option<ErrorKind> {
    outcome.err().map(|error| error.kind())
}

fn check_escape(text: &str) {
    assert_eq!(kind(WsPath::parse(text)), Some(ErrorKind::PathEscape), "{text:?}");
    let clamped = WsPath::parse_with(text, OnEscape::Clamp).expect("a clamped path is a path");
    assert_eq!(clamped.as_str(), stops_at_the_root(text), "{text:?}");
}

/// What is left of a path when `..` at the root goes nowhere.
fn stops_at_the_root(text: &str) -> String {
    let mut names = Vec::new();
    for name in text.split('/') {
        if name == ".." {
            names.pop();
        } else {
            names.push(name);
        }
    }
    names.join("/")
}

fn check_inside(text: &str, wanted: &str) {
    for on_escape in [OnEscape::Reject, OnEscape::Clamp] {
        let path = WsPath::parse_with(text, on_escape).unwrap_or_else(|error| panic!("{text:?} is inside: {error}"));
        assert_eq!(path.as_str(), wanted, "{text:?}");
    }
}

fn check_refused(text: &str) {
    for on_escape in [OnEscape::Reject, OnEscape::Clamp] {
        assert_eq!(
            kind(WsPath::parse_with(text, on_escape)),
            Some(ErrorKind::Invalid),
            "{text:?}"
        );
    }
}
