//! Time and identity, behind traits so that a test can fix them. This is the only file that asks the machine for
//! either.

#![allow(
    clippy::disallowed_methods,
    reason = "this file is the boundary that the lint guards"
)]

use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

pub use jiff::Timestamp;

/// A source of time.
pub trait Clock: Send + Sync + fmt::Debug {
    /// Returns the time of the wall clock.
    fn now(&self) -> Timestamp;
    /// Returns the time since an arbitrary start, by a clock that never goes back.
    fn elapsed(&self) -> Duration;
}

/// A source of identifiers that are unique and sort by the time at which they were made.
pub trait Ids: Send + Sync + fmt::Debug {
    /// Returns a new identifier: lower-case letters, digits and hyphens.
    fn next_id(&self) -> String;
}

/// The machine's clock.
#[derive(Debug, Clone)]
pub struct SystemClock {
    start: Instant,
}

impl Default for SystemClock {
    fn default() -> Self {
        Self { start: Instant::now() }
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }
}

/// Random identifiers (UUID version 7).
#[derive(Debug, Clone, Default)]
pub struct RandomIds;

impl Ids for RandomIds {
    fn next_id(&self) -> String {
        uuid::Uuid::now_v7().to_string()
    }
}

/// A clock that moves only when a test moves it.
#[derive(Debug)]
pub struct FixedClock {
    now: Mutex<Timestamp>,
    start: Timestamp,
}

impl FixedClock {
    /// Makes a clock that stands at `now`.
    pub fn starting_at(now: Timestamp) -> Self {
        Self {
            now: Mutex::new(now),
            start: now,
        }
    }

    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        let mut now = self.now.lock().expect("no holder panics");
        *now += by;
    }
}

impl Clock for FixedClock {
    fn now(&self) -> Timestamp {
        *self.now.lock().expect("no holder panics")
    }

    fn elapsed(&self) -> Duration {
        self.now().duration_since(self.start).unsigned_abs()
    }
}

/// Identifiers that count: `id-1`, `id-2`, …
#[derive(Debug, Default)]
pub struct CountedIds(AtomicU64);

impl Ids for CountedIds {
    fn next_id(&self) -> String {
        format!("id-{}", self.0.fetch_add(1, Ordering::Relaxed) + 1)
    }
}
