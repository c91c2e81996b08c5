//! What is written down beside a layer, so that its work can still be judged after a crash: which state of the files it was laid over.

#![allow(
    clippy::disallowed_methods,
    reason = "this file keeps notes in the private directory of a bench, beside the layers"
)]

use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use garret_core::{BenchState, Error, Result, Timestamp};
use serde::{Deserialize, Serialize};

use super::keep::Basis;

/// What is known of a layer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Note {
    head: u64,
    at: Timestamp,
    /// Who worked on it; without secrets.
    pub(super) command: String,
}

impl Note {
    pub(super) fn basis(&self) -> Basis {
        Basis {
            head: self.head,
            at: self.at,
        }
    }
}

/// Writes the first note of the layer `id`. One that is torn says nothing, and nothing was done on its layer yet.
pub(super) fn write(state: &BenchState, id: &str, basis: &Basis, command: &str) -> Result<()> {
    let (place, text) = (place(state, id), text(basis, command)?);
    // Where there is none, or another process was quicker, one is made.
    let _ = std::fs::rename(spare(&place), &place);
    let written = match write_over(&place, &text) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            make_private_directory(place.parent().unwrap_or(&place)).and_then(|()| write_over(&place, &text))
        }
        written => written,
    };
    written.map_err(|_| failed())
}

/// Leaves the end of what was there, where that was longer: a file system may write a file that was emptied first to the disk at once.
fn write_over(place: &Path, text: &[u8]) -> io::Result<()> {
    let mut options = private_file();
    let mut file = options.create(true).truncate(false).open(place)?;
    file.write_all(text)
}

/// Makes a directory that nobody but its owner may look into, whatever the umask.
pub(super) fn make_private_directory(place: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(place)
}

/// Writes a file that nobody but its owner may open, whatever the umask.
pub(super) fn write_private(place: &Path, text: &[u8]) -> io::Result<()> {
    private_file().create(true).truncate(true).open(place)?.write_all(text)
}

fn private_file() -> std::fs::OpenOptions {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).mode(0o600);
    options
}

/// Writes another note of the layer `id`: it takes the place of the one before whole or not at all.
pub(super) fn replace(state: &BenchState, id: &str, basis: &Basis, command: &str) -> Result<()> {
    let (place, text) = (place(state, id), text(basis, command)?);
    let beside = place.with_extension("new");
    let written = write_private(&beside, &text).and_then(|()| std::fs::rename(&beside, &place));
    written.map_err(|_| failed())
}

fn text(basis: &Basis, command: &str) -> Result<Vec<u8>> {
    let note = Note {
        head: basis.head,
        at: basis.at,
        command: command.to_owned(),
    };
    serde_json::to_vec(&note).map_err(|_| failed())
}

/// The note of the layer `id`, where there is one that can be read.
pub(super) fn read(state: &BenchState, id: &str) -> Option<Note> {
    let text = std::fs::read(place(state, id)).ok()?;
    serde_json::Deserializer::from_slice(&text).into_iter().next()?.ok()
}

/// Takes the note of the layer `id` away. The file serves the next one: to make and remove one each time costs a good part of a short
/// command.
pub(super) fn remove(state: &BenchState, id: &str) {
    let place = place(state, id);
    // One that stays tells of a layer that no longer is, and nobody asks for it.
    let _ = std::fs::rename(&place, spare(&place));
}

fn spare(place: &Path) -> PathBuf {
    place.with_file_name("spare")
}

fn place(state: &BenchState, id: &str) -> PathBuf {
    // An id is the sandbox's own; whatever it has in it, it names one file here.
    let name: String = id
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .collect();
    state.scratch.join("notes").join(format!("{name}.json"))
}

fn failed() -> Error {
    Error::new(
        garret_core::ErrorKind::Unavailable,
        "the directory for commands in the home cannot be written",
    )
    .hint("check that the home can be written and has free space")
}
