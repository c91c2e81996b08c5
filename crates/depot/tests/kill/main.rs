//! Processes are killed under load, again and again; whatever they had acknowledged is there, and no half change is.
//!
//! First two processes work on one home to their end, and everything that they did must be there exactly once. Then, in each round, two
//! processes work on one home ([`worker`]), each is killed at a random moment ([`process`]), and the home is opened as the next
//! process would and looked over ([`verdict`]). What must be there is worked out by running the same deterministic program ([`program`]) in
//! memory. Where the files live is one argument of all of it ([`place`]). A program of its own instead of a list of tests, since it starts
//! itself as the process to kill: `cargo test -p garret-depot --test kill -- 1000`, with `local`, `filestore` or `s3` for one place only, and
//! with `share 200` for the first part alone, so many times.

#![allow(
    clippy::disallowed_methods,
    reason = "it starts and kills processes of its own, and says how it went"
)]

mod place;
mod process;
mod program;
mod verdict;
mod worker;

use std::io::Write;
use std::path::Path;
use std::time::Instant;

use garret_testkit::fixture::block_on;
use garret_testkit::fuzz::Random;

use place::Place;
use process::{End, Process, Role};
use verdict::Ledger;

/// A home is used for so many rounds, so that what is looked over does not grow for ever.
const ROUNDS_PER_HOME: u64 = 20;
const PROCESSES: u64 = 2;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [role, home, place, name] = arguments.as_slice()
        && let Some(role) = Role::named(role)
    {
        let place = Place::named(place).expect("the parent names a place");
        return process::live(home.as_ref(), place, name, role);
    }
    let count = arguments.iter().find_map(|one| one.parse().ok());
    let named = arguments.iter().find_map(|one| Place::named(one));
    let only_shares = arguments.iter().any(|one| one == "share");
    for place in Place::ALL
        .into_iter()
        .filter(|one| named.is_none_or(|named| named == *one))
    {
        match only_shares {
            true => (0..count.unwrap_or(1)).for_each(|_| share_a_home(place)),
            false => {
                share_a_home(place);
                survives(place, count.unwrap_or(place.rounds()));
            }
        }
    }
}

/// Two processes that nobody kills: every acknowledged step is there, once, and nothing else is.
fn share_a_home(place: Place) {
    let home = place.home();
    let running = ["0-0", "0-1"].map(|name| Process::start(Role::ToTheEnd, home.path(), place, name));
    let mut ledger = Ledger::exact();
    for process in running {
        let (name, said) = process.ends();
        ledger.note(&name, &said);
    }
    block_on(ledger.judge(home.path(), place, 0));
    let done = ledger.acknowledged();
    say(&format!(
        "{}: two processes on one home, {done} changes, none lost or twice",
        place.name()
    ));
}

fn say(line: &str) {
    writeln!(std::io::stdout(), "{line}").expect("somebody listens");
}

fn survives(place: Place, rounds: u64) {
    let started = Instant::now();
    let mut acknowledged = 0;
    for first in (0..rounds).step_by(ROUNDS_PER_HOME as usize) {
        let home = place.home();
        let mut ledger = Ledger::default();
        for round in first..rounds.min(first + ROUNDS_PER_HOME) {
            for (name, said) in killed(home.path(), place, round) {
                ledger.note(&name, &said);
            }
            place.settle();
            block_on(ledger.judge(home.path(), place, round));
        }
        block_on(ledger.judge_all(home.path(), place));
        acknowledged += ledger.acknowledged();
    }
    let line = format!(
        "{}: {rounds} rounds, {} processes killed, {acknowledged} acknowledged changes, all there; {:.0} s",
        place.name(),
        rounds * PROCESSES,
        started.elapsed().as_secs_f64()
    );
    say(&line);
}

/// Starts the processes of a round and kills each at its moment; gives their names with what they said.
fn killed(home: &Path, place: Place, round: u64) -> Vec<(String, String)> {
    let mut random = Random::new(round);
    let ends: Vec<_> = (0..PROCESSES).map(|_| End::drawn(&mut random)).collect();
    std::thread::scope(|scope| {
        let lives = ends.into_iter().enumerate().map(|(process, end)| {
            let process = Process::start(Role::UntilKilled, home, place, &format!("{round}-{process}"));
            scope.spawn(move || process.dies(end))
        });
        let lives: Vec<_> = lives.collect();
        let ended = lives
            .into_iter()
            .map(|life| life.join().expect("it is killed and not ill"));
        ended.collect()
    })
}
