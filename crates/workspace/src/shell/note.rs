//! What is written down beside a layer, so that its work can still be judged after a crash: which state of the files it was laid over.

#![allow(
    clippy::disallowed_methods,
    reason = "this file keeps notes in the private directory of a bench, beside the layers"
)]

use std::io::{self, ErrorKind, Write};
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

/// Writes the note of the layer `id`. A first one that is torn says nothing, and nothing was done on its layer yet; a later one is replaced
/// whole or not at all.
pub(super) fn write(state: &BenchState, id: &str, basis: &Basis, command: &str) -> Result<()> {
    let note = Note {
        head: basis.head,
        at: basis.at,
        command: command.to_owned(),
    };
    let text = serde_json::to_vec(&note).map_err(|_| failed())?;
    let place = place(state, id);
    let written = match write_new(&place, &text) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            std::fs::create_dir_all(place.parent().unwrap_or(&place)).and_then(|()| write_new(&place, &text))
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            let beside = place.with_extension("new");
            std::fs::write(&beside, &text).and_then(|()| std::fs::rename(&beside, &place))
        }
        written => written,
    };
    written.map_err(|_| failed())
}

fn write_new(place: &Path, text: &[u8]) -> io::Result<()> {
    let mut file = std::fs::File::create_new(place)?;
    file.write_all(text)
}

/// The note of the layer `id`, where there is one that can be read.
pub(super) fn read(state: &BenchState, id: &str) -> Option<Note> {
    let text = std::fs::read(place(state, id)).ok()?;
    serde_json::from_slice(&text).ok()
}

/// Takes the note of the layer `id` away.
pub(super) fn remove(state: &BenchState, id: &str) {
    // One that stays tells of a layer that no longer is, and nobody asks for it.
    let _ = std::fs::remove_file(place(state, id));
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
    Error::new(garret_core::ErrorKind::Unavailable, "the bench cannot be written")
        .hint("see whether the disk of the home is full, or may not be written")
}
