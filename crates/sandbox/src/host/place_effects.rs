//! Places effects in a copy in which processes work.

#![cfg(target_os = "linux")]

use std::os::fd::BorrowedFd;

use garret_core::{Content, Effect, Error, PlacedEntry, Result};

use crate::effects::path_error::ErrnoAtPath;
use crate::file_times::to_timespec;
use crate::layer_placement::{self, DraftFile};

const PIECE: usize = 256 * 1024;

/// Places the effects in their order.
pub(super) fn place_effects(top: BorrowedFd<'_>, effects: &[Effect]) -> Result<()> {
    effects.iter().try_for_each(|effect| place_effect(top, effect))
}

fn place_effect(top: BorrowedFd<'_>, effect: &Effect) -> Result<()> {
    let path = effect.path.as_bytes();
    match &effect.placed {
        PlacedEntry::Nothing => layer_placement::remove_path(top, path).at_path(path),
        PlacedEntry::Image(_) => {
            Err(Error::invalid("a sandbox cannot read content from history").hint("pass the content itself"))
        }
        PlacedEntry::Directory { mode } => layer_placement::make_directory(top, path, *mode).at_path(path),
        PlacedEntry::Symlink { target } => layer_placement::make_link(top, path, target).at_path(path),
        PlacedEntry::File { content, mode } => {
            let mut draft = DraftFile::begin(top, path, *mode).at_path(path)?;
            write_content(&mut draft, content, path)?;
            draft.finish(effect.modified.map(to_timespec)).at_path(path)
        }
    }
}

fn write_content(draft: &mut DraftFile, content: &Content, path: &[u8]) -> Result<()> {
    let mut reader = content.open()?;
    let mut piece = Vec::new();
    while reader.append_to(&mut piece, PIECE)? > 0 {
        draft.write(&piece).at_path(path)?;
        piece.clear();
    }
    Ok(())
}
