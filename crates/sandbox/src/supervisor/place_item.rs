//! Places files on a layer while processes work on it.
//!
//! Every write goes through the mounted layer, as the processes see it, and never into the upper directory behind the
//! kernel's back.

#![cfg(target_os = "linux")]

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::Timespec;

use super::protocol::{LayerItem, StepFailure};
use crate::layer_placement::{self, DraftFile};

/// A file that is being placed and whose bytes still arrive.
#[derive(Debug)]
pub(super) struct ArrivingFile {
    draft: DraftFile,
    left: u64,
    modified: Option<(i64, i64)>,
}

/// Places an item at a path; returns a file that still needs its bytes.
pub(super) fn place_item(base: &OwnedFd, path: &[u8], item: &LayerItem) -> Result<Option<ArrivingFile>, StepFailure> {
    let top = base.as_fd();
    let placed = match item {
        LayerItem::Nothing => layer_placement::remove_path(top, path),
        LayerItem::Directory { mode } => layer_placement::make_directory(top, path, *mode),
        LayerItem::Symlink { target } => layer_placement::make_link(top, path, target),
        LayerItem::File { mode, size, modified } => {
            let draft = DraftFile::begin(top, path, *mode).map_err(placing_failure)?;
            let arriving = ArrivingFile {
                draft,
                left: *size,
                modified: *modified,
            };
            return arriving.add_bytes(&[]);
        }
    };
    placed.map(|()| None).map_err(placing_failure)
}

fn placing_failure(error: rustix::io::Errno) -> StepFailure {
    StepFailure::new("placing a file", error)
}

impl ArrivingFile {
    /// Adds bytes; returns the file unless they were its last. A file that fails leaves nothing behind.
    pub(super) fn add_bytes(mut self, bytes: &[u8]) -> Result<Option<Self>, StepFailure> {
        self.draft.write(bytes).map_err(placing_failure)?;
        self.left = self.left.saturating_sub(bytes.len() as u64);
        if self.left > 0 {
            return Ok(Some(self));
        }
        let modified = self.modified.map(|(seconds, nanos)| Timespec {
            tv_sec: seconds,
            tv_nsec: nanos as _,
        });
        self.draft.finish(modified).map(|()| None).map_err(placing_failure)
    }
}
