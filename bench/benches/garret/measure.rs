//! Two ways of doing the same work, in turns.

use std::process::Command;
use std::time::{Duration, Instant};

/// How long a file that was removed is in the way of new ones, on the disk of many a small machine: ext4 without a journal looks past it
/// for each of them, and for longer than that while its removal is not on the disk.
const IN_THE_WAY: Duration = Duration::from_secs(61);

/// One line of the table.
pub(crate) struct Line {
    pub(crate) what: String,
    pub(crate) floor_name: &'static str,
    pub(crate) aim: &'static str,
    pub(crate) floor: Duration,
    pub(crate) garret: Duration,
    pub(crate) operations: u32,
}

/// Waits until the disk has processed the deletion of earlier files.
pub(crate) fn let_the_disk_rest() {
    if !is_quick() {
        // Without it there is more noise, and no more to it.
        let _ = Command::new("sync").status();
        std::thread::sleep(IN_THE_WAY);
    }
}

/// Runs both ways `rounds` times in turns, after one round for warming up, and keeps the medians.
pub(crate) fn compare(rounds: usize, mut floor: impl FnMut(), mut garret: impl FnMut()) -> (Duration, Duration) {
    let [floor, garret] = in_turns(rounds, |_| (), [&mut floor, &mut garret]);
    (floor, garret)
}

/// Runs every way `rounds` times in turns, after one round for warming up, and keeps the medians. Before each round, what is to be
/// ready for it is made ready, outside the time. The order is the one given, for ways that find what another left.
pub(crate) fn in_turns<const WAYS: usize>(
    rounds: usize,
    prepare: impl FnMut(usize),
    mut ways: [&mut dyn FnMut(); WAYS],
) -> [Duration; WAYS] {
    let medians = run(rounds, prepare, &mut ways, |_| 0);
    medians.try_into().expect("each way has a time")
}

/// Like [`in_turns`], for ways that have nothing to do with each other: each round begins with the next of them, so that it is not
/// always the same one that comes while the disk still has the work of another to finish.
pub(crate) fn in_changing_turns(
    rounds: usize,
    prepare: impl FnMut(usize),
    ways: &mut [&mut dyn FnMut()],
) -> Vec<Duration> {
    run(rounds, prepare, ways, |round| round)
}

fn run(
    rounds: usize,
    mut prepare: impl FnMut(usize),
    ways: &mut [&mut dyn FnMut()],
    begin: impl Fn(usize) -> usize,
) -> Vec<Duration> {
    let mut times = vec![Vec::with_capacity(rounds); ways.len()];
    for round in 0..=rounds {
        prepare(round);
        for number in 0..ways.len() {
            let way = (begin(round) + number) % ways.len();
            let took = time(ways[way]);
            if round > 0 {
                times[way].push(took);
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
