//! What lies in a layer, beside what the counters of its commands say that they wrote.
//!
//! Both are counts of the same bytes. Where more lies there than was counted, somebody wrote without being counted, and everybody who
//! works on the layer answers for it. What was there before, and what Garret itself puts there, is nobody's.

#![cfg(target_os = "linux")]

use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};

use super::clock::now;
use super::root::LAYERS;
use super::walk::Walk;

/// How long one piece of a walk takes at most.
const PIECE: Duration = Duration::from_millis(5);
/// How many times as long as it took nothing is done after a piece: walking takes a twentieth of the time at most.
const REST: u32 = 20;

/// What lies in a layer.
#[derive(Debug)]
pub(super) struct Held {
    layer: String,
    walk: Option<Walk>,
    next: Option<Instant>,
    /// Bytes that the last whole walk found.
    last: u64,
    /// `None` until the next whole walk.
    base: Option<Base>,
    is_blind: bool,
}

/// A moment from which on bytes are compared.
#[derive(Debug, Clone, Copy)]
struct Base {
    held: u64,
    counted: u64,
}

impl Held {
    /// In a layer with nothing in it.
    pub(super) fn nothing(layer: &str) -> Self {
        let base = Base { held: 0, counted: 0 };
        Self {
            base: Some(base),
            ..Self::something(layer)
        }
    }

    /// In a layer of which nobody knows what is in it.
    pub(super) fn something(layer: &str) -> Self {
        Self {
            layer: layer.to_owned(),
            walk: None,
            next: None,
            last: 0,
            base: None,
            is_blind: false,
        }
    }

    /// Compares from the next whole walk on: what lies there until then is not laid to whoever works on the layer now.
    pub(super) fn begin_anew(&mut self) {
        self.base = None;
        self.walk = None;
    }

    /// Takes note of what Garret put there itself.
    pub(super) fn put(&mut self, bytes: u64) {
        if let Some(base) = &mut self.base {
            base.held += bytes;
        }
    }

    /// Goes on looking, if it is time to; `counted` is what the counters of everybody on the layer say.
    pub(super) fn look(&mut self, counted: u64) {
        let begun = now();
        if self.next.is_some_and(|next| begun < next) {
            return;
        }
        self.go_on(counted);
        let end = now();
        self.next = Some(end + end.saturating_duration_since(begun) * REST);
    }

    fn go_on(&mut self, counted: u64) {
        let Some(mut walk) = self.walk.take().or_else(|| self.begin()) else {
            self.is_blind = true;
            return;
        };
        if !walk.go_on(PIECE) {
            self.walk = Some(walk);
            return;
        }
        self.is_blind |= walk.is_blind();
        self.last = walk.bytes();
        let held = self.last;
        self.base.get_or_insert(Base { held, counted });
    }

    fn begin(&self) -> Option<Walk> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let top = rustix::fs::open(format!("{LAYERS}/{}/upper", self.layer), flags, Mode::empty());
        top.ok().map(Walk::new)
    }

    /// Bytes that lie there and that nobody's counters explain.
    pub(super) fn unexplained(&self, counted: u64) -> u64 {
        let Some(base) = self.base else { return 0 };
        let found = self.walk.as_ref().map_or(0, Walk::bytes).max(self.last);
        let grown = found.saturating_sub(base.held);
        grown.saturating_sub(counted.saturating_sub(base.counted))
    }

    /// Whether a part of it could not be looked at.
    pub(super) fn is_blind(&self) -> bool {
        self.is_blind
    }
}

/// Bytes in use on the file system that holds the layers.
pub(super) fn in_use() -> u64 {
    used(LAYERS)
}

/// Bytes that the files in memory hold.
pub(super) fn in_memory() -> u64 {
    used("/tmp") + used("/dev/shm")
}

fn used(path: &str) -> u64 {
    rustix::fs::statfs(path).map_or(0, |stat| {
        stat.f_blocks.saturating_sub(stat.f_bfree) * stat.f_bsize.unsigned_abs()
    })
}
