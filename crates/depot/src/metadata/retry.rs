//! Retries while another process holds a lock: with pauses that grow, and that differ between processes, so that each
//! gets its turn.
//!
//! On an overloaded machine, a lock that is meant for a moment is held for seconds. So the depot counts as busy only
//! after about a minute of waiting.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use garret_core::Result;

use crate::error;

/// The number of retries. With pauses of up to [`LONGEST_PAUSE_MS`], they take about a minute.
const TRIES: u32 = 1_600;
const LONGEST_PAUSE_MS: u64 = 50;

/// Retries `attempt` while its error is `busy`. An attempt that is busy must have no effect, and must not wait by
/// itself.
pub(crate) fn retry_while_busy<T>(mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
    let mut tries = 0;
    loop {
        match attempt() {
            Err(error) if error::is_busy(&error) && wait_for_retry(tries) => tries += 1,
            done => return done,
        }
    }
}

/// Pauses before the next retry, after `tries` of them; returns `false` when there were enough.
pub(crate) fn wait_for_retry(tries: u32) -> bool {
    let has_patience = tries < TRIES;
    if has_patience {
        std::thread::sleep(retry_pause(tries));
    }
    has_patience
}

/// Returns a random pause between a half and the whole of a bound, which doubles with each try up to a limit.
fn retry_pause(tries: u32) -> Duration {
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
        let all: Duration = (0..TRIES).map(retry_pause).sum();
        assert!((30..=80).contains(&all.as_secs()), "{all:?}");
    }

    #[test]
    fn what_is_busy_is_tried_again_and_what_fails_is_not() {
        let mut tries = 0;
        let done = retry_while_busy(|| {
            tries += 1;
            if tries < 4 {
                Err(error::home_is_busy())
            } else {
                Ok(tries)
            }
        });
        assert_eq!(done.unwrap(), 4);
        let mut tries = 0;
        let failed = retry_while_busy(|| {
            tries += 1;
            Err::<(), _>(error::damaged_content("it is"))
        });
        assert!(failed.is_err());
        assert_eq!(tries, 1);
    }
}
