//! Two ways of doing the same work, in turns.

use std::time::{Duration, Instant};

/// One line of the table.
pub(crate) struct Line {
    pub(crate) what: String,
    pub(crate) floor_name: &'static str,
    pub(crate) aim: &'static str,
    pub(crate) floor: Duration,
    pub(crate) garret: Duration,
    pub(crate) operations: u32,
}

/// Runs both ways `rounds` times in turns, after one round for warming up, and keeps the medians.
pub(crate) fn compare(rounds: usize, mut floor: impl FnMut(), mut garret: impl FnMut()) -> (Duration, Duration) {
    let mut times = (Vec::new(), Vec::new());
    for round in 0..=rounds {
        let both = (time(&mut floor), time(&mut garret));
        if round > 0 {
            times.0.push(both.0);
            times.1.push(both.1);
        }
    }
    (median(times.0), median(times.1))
}

fn time(work: &mut impl FnMut()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}
