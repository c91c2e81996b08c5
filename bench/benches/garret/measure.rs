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
    let [floor, garret] = in_turns(rounds, |_| (), [&mut floor, &mut garret]);
    (floor, garret)
}

/// Runs every way `rounds` times in turns, after one round for warming up, and keeps the medians. Before each round, what is to be
/// ready for it is made ready, outside the time.
pub(crate) fn in_turns<const WAYS: usize>(
    rounds: usize,
    prepare: impl FnMut(usize),
    mut ways: [&mut dyn FnMut(); WAYS],
) -> [Duration; WAYS] {
    let medians = all_in_turns(rounds, prepare, &mut ways);
    medians.try_into().expect("each way has a time")
}

/// [`in_turns`] for a number of ways that only the run knows.
pub(crate) fn all_in_turns(
    rounds: usize,
    mut prepare: impl FnMut(usize),
    ways: &mut [&mut dyn FnMut()],
) -> Vec<Duration> {
    let mut times = vec![Vec::with_capacity(rounds); ways.len()];
    for round in 0..=rounds {
        prepare(round);
        for (way, times) in ways.iter_mut().zip(&mut times) {
            let took = time(way);
            if round > 0 {
                times.push(took);
            }
        }
    }
    times.into_iter().map(median).collect()
}

/// Whether only a quick look is wanted (`GARRET_BENCH_QUICK`).
pub(crate) fn is_quick() -> bool {
    std::env::var_os("GARRET_BENCH_QUICK").is_some()
}

/// A count, or a tenth of it for a quick look.
pub(crate) fn at_most(count: u32) -> u32 {
    if is_quick() { count.div_ceil(10) } else { count }
}

fn time(work: &mut dyn FnMut()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}
