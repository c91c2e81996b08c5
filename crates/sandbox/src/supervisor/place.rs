//! Places files on a layer while processes work on it.
//!
//! Every write goes through the mounted layer, as the processes see it, and never into the upper directory behind the
//! kernel's back.

#![cfg(target_os = "linux")]

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::Timespec;

use super::protocol::{Failure, Item};
use crate::placing::{self, Draft};

/// A file that is being placed and whose bytes still arrive.
#[derive(Debug)]
pub(super) struct Arriving {
    draft: Draft,
    left: u64,
    modified: Option<(i64, i64)>,
}

/// Places an item at a path; returns a file that still needs its bytes.
pub(super) fn place(base: &OwnedFd, path: &[u8], item: &Item) -> Result<Option<Arriving>, Failure> {
    let top = base.as_fd();
    let placed = match item {
        Item::Nothing => placing::remove(top, path),
        Item::Directory { mode } => placing::make_directory(top, path, *mode),
        Item::Symlink { target } => placing::make_link(top, path, target),
        Item::File { mode, size, modified } => {
            let draft = Draft::begin(top, path, *mode).map_err(failed)?;
            let arriving = Arriving {
                draft,
                left: *size,
                modified: *modified,
            };
            return arriving.add(&[]);
        }
    };
    placed.map(|()| None).map_err(failed)
}

fn failed(error: rustix::io::Errno) -> Failure {
    Failure::new("placing a file", error)
}

impl Arriving {
    /// Adds bytes; returns the file unless they were its last. A file that fails leaves nothing behind.
    pub(super) fn add(mut self, bytes: &[u8]) -> Result<Option<Self>, Failure> {
        self.draft.write(bytes).map_err(failed)?;
        self.left = self.left.saturating_sub(bytes.len() as u64);
        if self.left > 0 {
            return Ok(Some(self));
        }
        let modified = self.modified.map(|(seconds, nanos)| Timespec {
            tv_sec: seconds,
            tv_nsec: nanos as _,
        });
        self.draft.finish(modified).map(|()| None).map_err(failed)
    }
}
