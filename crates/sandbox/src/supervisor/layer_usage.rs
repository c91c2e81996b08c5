//! Compares the bytes stored in a layer with the bytes that the counters of its commands say they wrote.
//!
//! Both count the same bytes. If the layer stores more than was counted, some process wrote without being counted, and
//! the difference is charged to every command on the layer. Bytes that were there before, and bytes that Garret itself
//! places, are charged to none.

#![cfg(target_os = "linux")]

use garret_handles::open_child;
use rustix::fs::CWD;
use std::time::{Duration, Instant};

use super::clock::current_time;
use super::layer_walk::LayerWalk;
use super::sandbox_root::LAYERS;

/// The longest time that one piece of a walk takes.
const PIECE: Duration = Duration::from_millis(5);
/// The rest after a piece, as a multiple of the time the piece took: walking takes a twentieth of the time at most.
const REST_FACTOR: u32 = 20;

/// The bytes stored in a layer, found by walking it in pieces.
#[derive(Debug)]
pub(super) struct LayerUsage {
    layer: String,
    walk: Option<LayerWalk>,
    next: Option<Instant>,
    /// The bytes that the last complete walk found.
    last: u64,
    /// The point of comparison; `None` until the next complete walk.
    base: Option<LayerUsageBaseline>,
    is_blind: bool,
}

/// Both counts at the moment from which on they are compared.
#[derive(Debug, Clone, Copy)]
struct LayerUsageBaseline {
    held: u64,
    counted: u64,
}

impl LayerUsage {
    /// Begins with an empty layer.
    pub(super) fn for_empty_layer(layer: &str) -> Self {
        let base = LayerUsageBaseline { held: 0, counted: 0 };
        Self {
            base: Some(base),
            ..Self::for_unknown_layer(layer)
        }
    }

    /// Begins with a layer whose content is not known; the first complete walk finds it.
    pub(super) fn for_unknown_layer(layer: &str) -> Self {
        Self {
            layer: layer.to_owned(),
            walk: None,
            next: None,
            last: 0,
            base: None,
            is_blind: false,
        }
    }

    /// Begins the comparison anew at the next complete walk: bytes stored until then are not charged to the commands
    /// that run now.
    pub(super) fn restart_comparison(&mut self) {
        self.base = None;
        self.walk = None;
    }

    /// Records that Garret itself placed this many bytes in the layer.
    pub(super) fn record_placed(&mut self, bytes: u64) {
        if let Some(base) = &mut self.base {
            base.held += bytes;
        }
    }

    /// Continues the walk if it is due; `counted` is the sum of the bytes that all commands on the layer wrote by their
    /// counters.
    pub(super) fn check_layer(&mut self, counted: u64) {
        let begun = current_time();
        if self.next.is_some_and(|next| begun < next) {
            return;
        }
        self.continue_walk(counted);
        let end = current_time();
        // In proportion to the time taken: on a slow disk, too, the server keeps most of its time for the commands.
        self.next = Some(end + end.saturating_duration_since(begun) * REST_FACTOR);
    }

    fn continue_walk(&mut self, counted: u64) {
        let Some(mut walk) = self.walk.take().or_else(|| self.begin_walk()) else {
            self.is_blind = true;
            return;
        };
        if !walk.continue_for(PIECE) {
            self.walk = Some(walk);
            return;
        }
        self.is_blind |= walk.is_blind();
        self.last = walk.bytes();
        let held = self.last;
        self.base.get_or_insert(LayerUsageBaseline { held, counted });
    }

    fn begin_walk(&self) -> Option<LayerWalk> {
        let top = open_child(CWD, format!("{LAYERS}/{}/upper", self.layer));
        top.ok().map(LayerWalk::new)
    }

    /// Returns the bytes stored in the layer that no counter explains.
    pub(super) fn unexplained_bytes(&self, counted: u64) -> u64 {
        let Some(base) = self.base else { return 0 };
        // A walk under way counts as soon as it has found more than the last one, so that a fast writer is noticed
        // early.
        let found = self.walk.as_ref().map_or(0, LayerWalk::bytes).max(self.last);
        let grown = found.saturating_sub(base.held);
        grown.saturating_sub(counted.saturating_sub(base.counted))
    }

    /// Returns whether a part of the layer could not be read.
    pub(super) fn is_blind(&self) -> bool {
        self.is_blind
    }
}

/// Returns the bytes in use on the file system that holds the layers.
pub(super) fn layer_file_system_bytes() -> u64 {
    file_system_bytes(LAYERS)
}

/// Returns the bytes that the files in `/tmp` and `/dev/shm`, which lie in memory, hold.
pub(super) fn memory_file_bytes() -> u64 {
    file_system_bytes("/tmp") + file_system_bytes("/dev/shm")
}

/// Returns the bytes in use on the file system that holds `path`.
pub(super) fn file_system_bytes(path: &str) -> u64 {
    rustix::fs::statfs(path).map_or(0, |stat| {
        stat.f_blocks.saturating_sub(stat.f_bfree) * stat.f_bsize.unsigned_abs()
    })
}
