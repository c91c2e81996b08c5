//! The hidden paths of a layer, recorded in its directory: for the supervisor, and for the reader of the layer after a
//! crash.

use std::os::fd::{BorrowedFd, OwnedFd};

use garret_core::path::split_path;
use garret_core::{Effect, EntryPath, PlacedEntry};
use garret_handles::{create_file, write_all};
use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;

use super::filter_listing::is_at_or_below;

const NAME: &str = "hidden";

/// The topmost paths that a layer hides.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct HiddenRecord(pub(crate) Vec<Vec<u8>>);

impl HiddenRecord {
    /// Writes the record into the directory of a layer.
    pub(crate) fn write(&self, layer: &OwnedFd) -> Result<(), Errno> {
        let file = create_file(layer, NAME, 0o644)?;
        let text: Vec<u8> = self.0.iter().flat_map(|path| [path, &b"\0"[..]].concat()).collect();
        write_all(&file, &text)
    }

    /// Reads the record from the directory of a layer; empty if that has none.
    pub(crate) fn read(layer: BorrowedFd<'_>) -> Result<Self, Errno> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = match openat(layer, NAME, flags, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(Self::default()),
            file => file?,
        };
        let mut text = Vec::new();
        std::io::Read::read_to_end(&mut std::fs::File::from(file), &mut text)
            .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        let paths = text.split(|byte| *byte == 0).filter(|path| !path.is_empty());
        Ok(Self(paths.map(<[u8]>::to_vec).collect()))
    }
}

/// Corrects the effects that were read by comparing a copy without the hidden paths with its bench. A hidden entry is
/// missing in the copy but was not removed by the command, so its removal is dropped. If the command removed or
/// replaced the directory above it, the removal is an effect, and the policy judges it.
pub(crate) fn keep_hidden(effects: &mut Vec<Effect>, hidden: &HiddenRecord) {
    if hidden.0.is_empty() {
        return;
    }
    let is_gone = |effect: &Effect| effect.placed == PlacedEntry::Nothing;
    let is_hidden = |effect: &Effect| hidden.0.iter().any(|top| is_at_or_below(effect.path.as_bytes(), top));
    effects.retain(|effect| !is_gone(effect) || !is_hidden(effect));
    let has_no_directory = |top: &&Vec<u8>| {
        let above = split_path(top).0;
        let is_directory = |effect: &Effect| matches!(effect.placed, PlacedEntry::Directory { .. });
        let is_above = |effect: &Effect| effect.path.as_bytes() == above && !above.is_empty();
        effects.iter().any(|effect| is_above(effect) && !is_directory(effect))
    };
    let taken: Vec<_> = hidden.0.iter().filter(has_no_directory).cloned().collect();
    effects.extend(taken.into_iter().map(|path| Effect {
        path: EntryPath::from_bytes(path),
        placed: PlacedEntry::Nothing,
        modified: None,
        is_lost_below: false,
    }));
    effects.sort_by(|one, other| one.path.cmp(&other.path));
}
