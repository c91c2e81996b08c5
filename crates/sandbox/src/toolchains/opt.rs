//! The directories of `/opt`, whose layout is not known: all of them is shown but entries whose names are those of files
//! with credentials.

use std::path::{Path, PathBuf};

use super::user_disk;

/// How many directories deep entries are looked at.
const DEPTH: usize = 2;

/// Names of files and directories that programs keep credentials in.
const CREDENTIAL_NAMES: [&str; 30] = [
    ".aws",
    ".azure",
    ".cargo",
    ".condarc",
    ".config",
    ".docker",
    ".env",
    ".git",
    ".git-credentials",
    ".gnupg",
    ".kube",
    ".netrc",
    ".npmrc",
    ".pip",
    ".pypirc",
    ".ssh",
    ".yarnrc",
    ".yarnrc.yml",
    "_netrc",
    "auth.json",
    "credentials",
    "credentials.json",
    "credentials.toml",
    "gradle.properties",
    "npmrc",
    "pip.conf",
    "secrets",
    "settings.xml",
    "token",
    "tokens",
];

/// Returns the directories and files below `opt` that commands may see.
pub(super) fn shown_parts(opt: &Path) -> Vec<PathBuf> {
    let mut parts = Vec::new();
    for child in user_disk::child_directories(opt) {
        if !is_credential(&child) {
            add_without_credentials(child, DEPTH, &mut parts);
        }
    }
    parts
}

/// Adds the directory as a whole if nothing in it has the name of a credential; else each of its other entries.
fn add_without_credentials(directory: PathBuf, depth: usize, parts: &mut Vec<PathBuf>) {
    if depth == 0 || !holds_credential(&directory, depth) {
        parts.push(directory);
        return;
    }
    for entry in user_disk::child_entries(&directory) {
        if !is_credential(&entry) {
            add_without_credentials(entry, depth - 1, parts);
        }
    }
}

fn holds_credential(directory: &Path, depth: usize) -> bool {
    let entries = user_disk::child_entries(directory);
    entries.iter().any(|entry| is_credential(entry))
        || depth > 1 && entries.iter().any(|entry| holds_credential(entry, depth - 1))
}

fn is_credential(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| CREDENTIAL_NAMES.contains(&name.to_ascii_lowercase().as_str()))
}
