//! Waiting for what another process has locked: in pauses that grow, and differ from process to process, so that each gets its turn.
//!
//! A machine with more to do than it can keeps a lock for seconds where it is meant for a moment; only who has waited for about a minute
//! is told that the depot is busy.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use garret_core::Result;

use crate::error;

/// How often it is tried again. With pauses of up to [`LONGEST_PAUSE_MS`], that is a minute.
const TRIES: u32 = 1_600;
const LONGEST_PAUSE_MS: u64 = 50;

/// Tries until nobody has locked what `attempt` needs. It must leave nothing where it is busy, and wait for nobody by itself.
pub(crate) fn patiently<T>(mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
    let mut tries = 0;
    loop {
        match attempt() {
            Err(error) if error::is_busy(&error) && wait(tries) => tries += 1,
            done => return done,
        }
    }
}

/// Waits before another try, after so many; `false` where they were enough.
pub(crate) fn wait(tries: u32) -> bool {
    let has_patience = tries < TRIES;
    if has_patience {
        std::thread::sleep(pause(tries));
    }
    has_patience
}

/// Doubles up to a limit, and is between a half and the whole of that.
fn pause(tries: u32) -> Duration {
    static DRAWN: AtomicU64 = AtomicU64::new(0);
    let longest = (1_u64 << tries.min(10)).min(LONGEST_PAUSE_MS) * 1_000;
    let count = DRAWN.fetch_add(1, Ordering::Relaxed);
    let seed = [count.to_le_bytes(), u64::from(std::process::id()).to_le_bytes()].concat();
    let drawn = u64::from(blake3::hash(&seed).as_bytes()[0]);
    Duration::from_micros(longest / 2 + longest / 2 * drawn / 255)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pauses_add_up_to_tens_of_seconds() {
        let all: Duration = (0..TRIES).map(pause).sum();
        assert!((30..=80).contains(&all.as_secs()), "{all:?}");
    }

    #[test]
    fn what_is_busy_is_tried_again_and_what_fails_is_not() {
        let mut tries = 0;
        let done = patiently(|| {
            tries += 1;
            if tries < 4 { Err(error::busy()) } else { Ok(tries) }
        });
        assert_eq!(done.unwrap(), 4);
        let mut tries = 0;
        let failed = patiently(|| {
            tries += 1;
            Err::<(), _>(error::damaged("it is"))
        });
        assert!(failed.is_err());
        assert_eq!(tries, 1);
    }
}
