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
    /// The name of the last conflict branch for effects on the layer. The branch may not exist: it is recorded before
    /// it is made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::shell) branch: Option<String>,
}

/// The place of the note on one layer.
#[derive(Debug, Clone)]
pub(in crate::shell) struct LayerNotePlace(PathBuf);

impl LayerNote {
    fn new(basis: &EffectBasis, command: &str) -> Self {
        Self {
            head: basis.head,
            at: basis.at,
            command: command.to_owned(),
            branch: None,
        }
    }

    /// Returns the basis of the effects on the layer. Without a note it is not known, so every change since the first
    /// one counts as one by others.
    pub(in crate::shell) fn basis_or_first(note: Option<&Self>) -> EffectBasis {
        note.map_or_else(EffectBasis::before_first_change, |note| EffectBasis {
            head: note.head,
            at: note.at,
        })
    }

    fn encode_json(&self) -> Result<Vec<u8>> {
        serde_json::to_vec(self).map_err(|_| note_write_error())
    }
}

impl LayerNotePlace {
    /// Returns the place of the note on the layer `id`.
    pub(in crate::shell) fn new(state: &BenchState, id: &str) -> Self {
        // The sandbox chooses the ids. Whatever characters an id has, it must name a file in this directory.
        let name: String = id
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
            .collect();
        Self(state.scratch.join("notes").join(format!("{name}.json")))
    }

    /// Writes the first note of the layer. It is not atomic: a crash may tear it, but then no command has run on the
    /// layer yet.
    pub(in crate::shell) fn write_note(&self, basis: &EffectBasis, command: &str) -> Result<()> {
        let text = LayerNote::new(basis, command).encode_json()?;
        // To reuse a file is cheaper than to create one. If there is no spare file, or another process took it, a new
        // one is created below.
        let _ = std::fs::rename(self.spare_path(), &self.0);
        let written = match overwrite_file(&self.0, &text) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                make_private_directory(self.0.parent().unwrap_or(&self.0)).and_then(|()| overwrite_file(&self.0, &text))
            }
            written => written,
        };
        written.map_err(|_| note_write_error())
    }

    /// Moves the basis in the note. The name of the conflict branch stays.
    pub(in crate::shell) fn replace_basis(&self, basis: &EffectBasis, command: &str) -> Result<()> {
        self.replace_note(&LayerNote {
            branch: self.read_note().and_then(|note| note.branch),
            ..LayerNote::new(basis, command)
        })
    }

    /// Records the name of the conflict branch that the effects on the layer are about to go on.
    pub(in crate::shell) fn record_branch(&self, basis: &EffectBasis, command: Option<&str>, branch: &str) {
        let known = self.read_note();
        let note = LayerNote {
            branch: Some(branch.to_owned()),
            ..known.unwrap_or_else(|| LayerNote::new(basis, command.unwrap_or_default()))
        };
        // The name is of use after a crash only. It is no reason to leave the effects unsaved, as on a full disk.
        let _ = self.replace_note(&note);
    }

    /// Replaces the note. The new note takes the place of the old one whole or not at all.
    fn replace_note(&self, note: &LayerNote) -> Result<()> {
        let (text, beside) = (note.encode_json()?, self.0.with_extension("new"));
        let written = write_private(&beside, &text).and_then(|()| std::fs::rename(&beside, &self.0));
        written.map_err(|_| note_write_error())
    }

    /// Returns the note; `None` if there is none that can be read.
    pub(in crate::shell) fn read_note(&self) -> Option<LayerNote> {
        let text = std::fs::read(&self.0).ok()?;
        // Only the first value counts: behind it may be the end of a longer note that the file held before.
        serde_json::Deserializer::from_slice(&text).into_iter().next()?.ok()
    }

    /// Removes the note.
    pub(in crate::shell) fn remove_note(&self) {
        // Renamed and not deleted: to create and delete a file for each command takes a good part of the time of a
        // short one. A note that stays is harmless, since its layer is gone and nobody asks for it.
        let _ = std::fs::rename(&self.0, self.spare_path());
    }

    fn spare_path(&self) -> PathBuf {
        self.0.with_file_name("spare")
    }
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

fn note_write_error() -> Error {
    Error::new(
        garret_core::ErrorKind::Unavailable,
        "the directory for commands in the home cannot be written",
    )
    .hint("check that the home can be written and has free space")
}
