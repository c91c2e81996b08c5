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

/// The age below which a time of a file is not trusted. Kernels tick at 100 Hz or faster; several ticks leave room for
/// a clock that is read a little late.
const GRAIN: Duration = Duration::from_millis(50);
/// The age on file systems that keep whole seconds, some only even ones. Their times have no nanoseconds.
pub const COARSE_GRAIN: Duration = Duration::from_millis(2_500);

/// Returns whether a file with these times (seconds and nanoseconds) could be changed once more and keep the first of
/// them: it lies within one tick of the clock before `now`. File systems that keep whole seconds, and so tick slowly,
/// show it by nanoseconds of 0 in all times.
pub fn is_young_file(times: &[(i64, u32)], now: Timestamp) -> bool {
    let is_coarse = times.iter().all(|(_, nanoseconds)| *nanoseconds == 0);
    let grain = if is_coarse { COARSE_GRAIN } else { GRAIN };
    times.first().is_none_or(|(seconds, nanoseconds)| {
        let then = i128::from(*seconds) * 1_000_000_000 + i128::from(*nanoseconds);
        now.as_nanosecond() - then < grain.as_nanos() as i128
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_young_until_the_clock_can_tell_its_changes_apart() {
        let is_young = |times: &[(i64, u32)], now| is_young_file(times, Timestamp::from_millisecond(now).unwrap());
        assert!(is_young(&[(10, 1)], 10_049) && !is_young(&[(10, 1)], 10_051));
        assert!(is_young(&[(10, 0)], 12_499) && !is_young(&[(10, 0)], 12_501));
        assert!(
            !is_young(&[(10, 0), (9, 1)], 10_051),
            "a fraction in either time shows a fine clock"
        );
        assert!(is_young(&[(10, 1)], 9_000), "a time in the future says nothing");
    }
}
