//! Watches the size of the home directory while commands write to it.
//!
//! The home is walked in short pieces, as a layer is, because counters of writes do not show what a file system
//! allocates without a write.

#![cfg(target_os = "linux")]

use std::time::{Duration, Instant};

use garret_handles::open_child;
use rustix::fs::CWD;

use super::clock::current_time;
use super::layer_usage::file_system_bytes;
use super::layer_walk::LayerWalk;

/// The longest time that one piece of a walk takes.
const PIECE: Duration = Duration::from_millis(5);
/// The rest after a piece, as a multiple of the time the piece took.
const REST_FACTOR: u32 = 20;
/// The shortest time between two walks.
const REST: Duration = Duration::from_millis(200);

/// The size of the home directory.
#[derive(Debug)]
pub(super) struct HomeSizeWatch {
    path: String,
    limit: u64,
    walk: Option<LayerWalk>,
    next: Option<Instant>,
    /// The bytes that the last complete walk found.
    last: u64,
    is_blind: bool,
    /// The bytes in use on its file system when the sandbox was opened.
    in_use: u64,
}

impl HomeSizeWatch {
    /// Begins to watch the home at `path`.
    pub(super) fn new(path: &str, limit: u64) -> Self {
        Self {
            path: path.to_owned(),
            limit,
            walk: None,
            next: None,
            last: 0,
            is_blind: false,
            in_use: file_system_bytes(path),
        }
    }

    /// Continues the walk if it is due, and returns whether the home holds more than its limit.
    pub(super) fn is_over_limit(&mut self) -> bool {
        let begun = current_time();
        if self.next.is_none_or(|next| begun >= next) {
            let is_complete = self.continue_walk();
            let end = current_time();
            let rest = end.saturating_duration_since(begun) * REST_FACTOR;
            self.next = Some(end + if is_complete { rest.max(REST) } else { rest });
        }
        let found = self.walk.as_ref().map_or(0, LayerWalk::bytes).max(self.last);
        // A command can make a directory unreadable. Then only the growth of the file system is known.
        let hidden = if self.is_blind {
            file_system_bytes(&self.path).saturating_sub(self.in_use)
        } else {
            0
        };
        found.max(hidden) > self.limit
    }

    /// Returns whether the walk came to its end.
    fn continue_walk(&mut self) -> bool {
        let Some(mut walk) = self.walk.take().or_else(|| self.begin_walk()) else {
            self.is_blind = true;
            return true;
        };
        if !walk.continue_for(PIECE) {
            self.walk = Some(walk);
            return false;
        }
        self.is_blind = walk.is_blind();
        self.last = walk.bytes();
        true
    }

    fn begin_walk(&self) -> Option<LayerWalk> {
        open_child(CWD, &self.path).ok().map(LayerWalk::new)
    }
}
