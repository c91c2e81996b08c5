//! Layer notes. A note is stored beside each layer, and holds the state of the files that the layer was laid over.
//! After a crash it is needed to find conflicts before the effects on the layer are committed.

#![allow(
    clippy::disallowed_methods,
    reason = "this file keeps notes in the private directory of a bench, beside the layers"
)]

use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use garret_core::{BenchState, Error, Result, Timestamp};
use serde::{Deserialize, Serialize};

use crate::shell::effects::commit_effects::EffectBasis;

/// The note on one layer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::shell) struct LayerNote {
    head: u64,
    at: Timestamp,
    /// The commands that ran on the layer, without secrets.
    pub(in crate::shell) command: String,
}

impl LayerNote {
    pub(in crate::shell) fn basis(&self) -> EffectBasis {
        EffectBasis {
            head: self.head,
            at: self.at,
        }
    }
}

/// Writes the first note of the layer `id`. It is not atomic: a crash may tear it, but then no command has run on the
/// layer yet.
pub(in crate::shell) fn write_note(state: &BenchState, id: &str, basis: &EffectBasis, command: &str) -> Result<()> {
    let (place, text) = (note_path(state, id), encode_note(basis, command)?);
    // To reuse a file is cheaper than to create one. If there is no spare file, or another process took it, a new one
    // is created below.
    let _ = std::fs::rename(spare_path(&place), &place);
    let written = match overwrite_file(&place, &text) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            make_private_directory(place.parent().unwrap_or(&place)).and_then(|()| overwrite_file(&place, &text))
        }
        written => written,
    };
    written.map_err(|_| note_write_error())
}

/// Writes `text` over the beginning of a file. If the file was longer, its old end stays, and readers stop after the
/// first JSON value.
fn overwrite_file(place: &Path, text: &[u8]) -> io::Result<()> {
    // Not truncated: some file systems flush a file that was truncated and written to the disk at once, which is slow.
    let mut options = private_file_options();
    let mut file = options.create(true).truncate(false).open(place)?;
    file.write_all(text)
}

/// Makes a directory that only its owner may open, whatever the umask.
pub(in crate::shell) fn make_private_directory(place: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(place)
}

/// Writes a file that only its owner may open, whatever the umask.
pub(in crate::shell) fn write_private(place: &Path, text: &[u8]) -> io::Result<()> {
    private_file_options()
        .create(true)
        .truncate(true)
        .open(place)?
        .write_all(text)
}

fn private_file_options() -> std::fs::OpenOptions {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).mode(0o600);
    options
}

/// Replaces the note of the layer `id`. The new note takes the place of the old one whole or not at all.
pub(in crate::shell) fn replace_note(state: &BenchState, id: &str, basis: &EffectBasis, command: &str) -> Result<()> {
    let (place, text) = (note_path(state, id), encode_note(basis, command)?);
    let beside = place.with_extension("new");
    let written = write_private(&beside, &text).and_then(|()| std::fs::rename(&beside, &place));
    written.map_err(|_| note_write_error())
}

fn encode_note(basis: &EffectBasis, command: &str) -> Result<Vec<u8>> {
    let note = LayerNote {
        head: basis.head,
        at: basis.at,
        command: command.to_owned(),
    };
    serde_json::to_vec(&note).map_err(|_| note_write_error())
}

/// Returns the note of the layer `id`; `None` if there is none that can be read.
pub(in crate::shell) fn read_note(state: &BenchState, id: &str) -> Option<LayerNote> {
    let text = std::fs::read(note_path(state, id)).ok()?;
    // Only the first value counts: behind it may be the end of a longer note that the file held before.
    serde_json::Deserializer::from_slice(&text).into_iter().next()?.ok()
}

/// Removes the note of the layer `id`.
pub(in crate::shell) fn remove_note(state: &BenchState, id: &str) {
    let place = note_path(state, id);
    // Renamed and not deleted: to create and delete a file for each command takes a good part of the time of a short
    // one. A note that stays is harmless, since its layer is gone and nobody asks for it.
    let _ = std::fs::rename(&place, spare_path(&place));
}

fn spare_path(place: &Path) -> PathBuf {
    place.with_file_name("spare")
}

fn note_path(state: &BenchState, id: &str) -> PathBuf {
    // The sandbox chooses the ids. Whatever characters an id has, it must name a file in this directory.
    let name: String = id
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .collect();
    state.scratch.join("notes").join(format!("{name}.json"))
}

fn note_write_error() -> Error {
    Error::new(
        garret_core::ErrorKind::Unavailable,
        "the directory for commands in the home cannot be written",
    )
    .hint("check that the home can be written and has free space")
}
