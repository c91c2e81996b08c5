//! Places effects in a copy in which processes work.

#![cfg(target_os = "linux")]

use std::os::fd::BorrowedFd;

use garret_core::{Content, Effect, Error, Placed, Result, Timestamp};
use rustix::fs::Timespec;

use crate::effects::error::At;
use crate::placing::{self, Draft};

const PIECE: usize = 256 * 1024;

/// Places the effects in their order.
pub(super) fn place(top: BorrowedFd<'_>, effects: &[Effect]) -> Result<()> {
    effects.iter().try_for_each(|effect| place_one(top, effect))
}

/// Removes the entry at `path`, if there is one.
pub(super) fn remove(top: BorrowedFd<'_>, path: &[u8]) -> Result<()> {
    placing::remove(top, path).at(path)
}

fn place_one(top: BorrowedFd<'_>, effect: &Effect) -> Result<()> {
    let path = effect.path.as_bytes();
    match &effect.placed {
        Placed::Nothing => remove(top, path),
        Placed::Image(_) => {
            Err(Error::invalid("a sandbox cannot read content from history").hint("pass the content itself"))
        }
        Placed::Directory { mode } => placing::make_directory(top, path, *mode).at(path),
        Placed::Symlink { target } => placing::make_link(top, path, target).at(path),
        Placed::File { content, mode } => {
            let mut draft = Draft::begin(top, path, *mode).at(path)?;
            write(&mut draft, content, path)?;
            draft.finish(effect.modified.map(timespec)).at(path)
        }
    }
}

fn write(draft: &mut Draft, content: &Content, path: &[u8]) -> Result<()> {
    let mut reader = content.open()?;
    let mut piece = Vec::new();
    while reader.append_to(&mut piece, PIECE)? > 0 {
        draft.write(&piece).at(path)?;
        piece.clear();
    }
    Ok(())
}

fn timespec(time: Timestamp) -> Timespec {
    let nanoseconds = time.as_nanosecond();
    Timespec {
        tv_sec: nanoseconds.div_euclid(1_000_000_000) as _,
        tv_nsec: nanoseconds.rem_euclid(1_000_000_000) as _,
    }
}
