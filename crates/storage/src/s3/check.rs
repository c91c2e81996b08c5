//! Finding keys below the prefix that no path can name.
//!
//! Other programs may put any key there. Such keys are never hit by accident: no list shows them and no operation names
//! them. They are reported here, so that their author can be asked.

use std::collections::BTreeSet;

use garret_core::{Error, Result, WsPath};

use super::S3Context;
use super::keys::KeyMeaning;
use super::wire::failure::S3RequestError;

/// The problem with a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyTrouble {
    /// It is no path: an empty name, `.`, `..`, or a name that is too long.
    NoPath,
    /// It lies below a file: `k` and `k/sub` are both objects.
    BelowAFile,
    /// It is a marker of a directory and has content.
    MarkerWithContent,
}

impl KeyTrouble {
    /// Returns the problem in a sentence.
    pub fn message(self) -> &'static str {
        match self {
            Self::NoPath => "the key is not a valid path, so no tool can name it",
            Self::BelowAFile => "the key lies below an object that is a file, so no list shows it",
            Self::MarkerWithContent => "the key is the marker of a directory, and its content is ignored",
        }
    }
}

/// A key with a problem.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
pub struct Finding {
    /// The key after the prefix, control characters escaped.
    pub key: String,
    /// The problem with the key.
    pub trouble: KeyTrouble,
}

/// Checks every key below the prefix.
pub(super) async fn check_keys(shared: &S3Context) -> Result<Vec<Finding>> {
    let page = shared.bucket.list_all(shared.layout.prefix(), false).await;
    let objects = page
        .map_err(S3RequestError::into_error)
        .map_err(|error: Error| error.at_path(&WsPath::root()))?
        .objects;
    let mut findings = Vec::new();
    let mut files = BTreeSet::new();
    let mut paths = Vec::new();
    for object in objects {
        match shared.layout.classify_key(&object.key) {
            KeyMeaning::NotAPath(key) => findings.push(make_finding(&key, KeyTrouble::NoPath)),
            KeyMeaning::Directory(path) if object.size > 0 => {
                findings.push(make_finding(&format!("{path}/"), KeyTrouble::MarkerWithContent));
            }
            KeyMeaning::Directory(path) => paths.push(path),
            KeyMeaning::File(path) => {
                files.insert(path.clone());
                paths.push(path);
            }
            KeyMeaning::Reserved => {}
        }
    }
    findings.extend(find_shadowed(&files, &paths));
    findings.sort();
    Ok(findings)
}

fn find_shadowed(files: &BTreeSet<WsPath>, paths: &[WsPath]) -> Vec<Finding> {
    let is_below = |path: &&WsPath| path.ancestry().any(|above| above != **path && files.contains(&above));
    let below = paths.iter().filter(is_below);
    below
        .map(|path| make_finding(path.as_str(), KeyTrouble::BelowAFile))
        .collect()
}

fn make_finding(key: &str, trouble: KeyTrouble) -> Finding {
    Finding {
        key: garret_core::path::escape_unprintable(key).into_owned(),
        trouble,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_below_a_file_is_found() {
        let path = |text: &str| WsPath::parse(text).unwrap();
        let files = BTreeSet::from([path("k"), path("d/f")]);
        let paths = [path("k"), path("k/sub"), path("d/f"), path("kk")];
        assert_eq!(
            find_shadowed(&files, &paths),
            [make_finding("k/sub", KeyTrouble::BelowAFile)]
        );
    }
}
