//! Pauses before a request is sent again.

use std::sync::Arc;
use std::time::Duration;

use garret_core::{Clock, Ids};

use super::super::options::S3Options;

const LONGEST: Duration = Duration::from_secs(5);

/// The length and the number of the pauses.
#[derive(Debug)]
pub(super) struct RetryBackoff {
    max_retries: u32,
    first: Duration,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
}

impl RetryBackoff {
    pub(super) fn new(options: &S3Options, clock: Arc<dyn Clock>, ids: Arc<dyn Ids>) -> Self {
        Self {
            max_retries: options.max_retries,
            first: Duration::from_millis(options.retry_backoff_ms),
            clock,
            ids,
        }
    }

    pub(super) fn max_retries(&self) -> u32 {
        self.max_retries
    }

    /// Waits before the retry with this number, counted from 1.
    pub(super) async fn wait_before_retry(&self, attempt: u32) {
        tokio::time::sleep(pause_for(self.first, attempt, self.random_fraction())).await;
    }

    /// Returns a random number below 1.
    fn random_fraction(&self) -> f64 {
        // From the ids and the clock of the workspace, so that a test with fixed ones is reproducible.
        let seed = format!("{} {:?}", self.ids.next_id(), self.clock.elapsed());
        let hash = blake3::hash(seed.as_bytes());
        let word = u32::from_le_bytes(hash.as_bytes()[..4].try_into().expect("a hash has 32 bytes"));
        f64::from(word) / (f64::from(u32::MAX) + 1.0)
    }
}

/// Returns the pause before a retry: twice as long each time up to a limit, less a random part.
fn pause_for(first: Duration, attempt: u32, chance: f64) -> Duration {
    let doubled = first.saturating_mul(1 << attempt.saturating_sub(1).min(16));
    // Half of it is random, so that clients that failed together do not come back together.
    doubled.min(LONGEST).mul_f64(0.5 + chance / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_pause_is_longer_and_none_is_endless() {
        let first = Duration::from_millis(100);
        assert_eq!(pause_for(first, 1, 0.0), Duration::from_millis(50));
        assert_eq!(pause_for(first, 3, 0.0), Duration::from_millis(200));
        assert!(pause_for(first, 3, 0.5) > pause_for(first, 3, 0.0));
        assert!(pause_for(first, 1_000, 0.999) <= LONGEST);
    }
}
