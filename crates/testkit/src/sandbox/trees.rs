//! Directories as values, to compare what a sandbox says with what a plain directory shows.

#![allow(clippy::disallowed_methods, reason = "it reads the directories of a test")]

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use garret_core::{Effect, PlacedEntry};

/// What is in a directory, by path.
pub(super) type Files = BTreeMap<Vec<u8>, Kind>;

/// What is at a path.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Kind {
    Directory(u32),
    File(u32, Vec<u8>),
    Link(Vec<u8>),
}

impl std::fmt::Debug for Kind {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Directory(mode) => write!(formatter, "directory {mode:o}"),
            Self::File(mode, bytes) if bytes.len() < 60 => {
                write!(formatter, "file {mode:o} {:?}", bytes.escape_ascii().to_string())
            }
            Self::File(mode, bytes) => write!(formatter, "file {mode:o} of {} bytes", bytes.len()),
            Self::Link(target) => write!(formatter, "link {}", target.escape_ascii()),
        }
    }
}

/// Runs a script in a plain directory, without any sandbox.
pub(super) fn run_plainly(directory: &Path, script: &str) {
    let mut command = Command::new("sh");
    command
        .args(["-c", &format!("set -e; umask 022\n{script}")])
        .current_dir(directory);
    let output = command.output().expect("a test machine has a shell");
    assert!(
        output.status.success(),
        "{script}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Everything in `directory`.
pub(super) fn tree_of(directory: &Path) -> Files {
    let mut files = Files::new();
    add(directory, &[], &mut files);
    files
}

fn add(directory: &Path, above: &[u8], files: &mut Files) {
    for entry in std::fs::read_dir(directory).expect("it can be read") {
        let entry = entry.expect("it can be read");
        let mut path = above.to_vec();
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(entry.file_name().as_bytes());
        let metadata = entry.metadata().expect("it is there");
        let mode = metadata.permissions().mode() & 0o777;
        let kind = match () {
            () if metadata.is_symlink() => Kind::Link(
                std::fs::read_link(entry.path())
                    .expect("a link")
                    .as_os_str()
                    .as_bytes()
                    .to_vec(),
            ),
            () if metadata.is_dir() => {
                add(&entry.path(), &path, files);
                Kind::Directory(mode)
            }
            () => Kind::File(mode, std::fs::read(entry.path()).expect("it can be read")),
        };
        files.insert(path, kind);
    }
}

/// Does to `files` what the effects say, and nothing else: what goes with its directory must be named by itself.
pub(super) fn apply(files: &mut Files, effects: &[Effect]) {
    for effect in effects {
        let path = effect.path.as_bytes().to_vec();
        let kind = match &effect.placed {
            PlacedEntry::Nothing => {
                files.remove(&path);
                continue;
            }
            PlacedEntry::File { content, mode } => {
                Kind::File(*mode & 0o777, content.to_bytes().expect("it can be read").to_vec())
            }
            PlacedEntry::Directory { mode } => Kind::Directory(*mode & 0o777),
            PlacedEntry::Symlink { target } => Kind::Link(target.as_bytes().to_vec()),
            PlacedEntry::Image(_) => panic!("a sandbox cannot read content from history"),
        };
        files.insert(path, kind);
    }
}
