//! Processes are killed under load, again and again; whatever they had acknowledged is there, and no half change is.
//!
//! In each round two processes work on one home ([`worker`]), each is killed at a random moment, and the home is opened as the next
//! process would and looked over ([`verdict`]). What must be there is worked out by running the same deterministic program ([`program`]) in
//! memory. Where the files live is one argument of all of it ([`place`]). A program of its own instead of a list of tests, since it starts
//! itself as the process to kill: `cargo test -p garret-depot --test kill -- 1000`.

#![allow(
    clippy::disallowed_methods,
    reason = "it starts and kills processes of its own, and says how it went"
)]

mod place;
mod program;
mod verdict;
mod worker;

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use garret_testkit::fixture::block_on;
use garret_testkit::fuzz::Random;

use place::Place;
use verdict::Ledger;

const CHILD: &str = "work-until-killed";
const DEFAULT_ROUNDS: u64 = 12;
/// A home is used for so many rounds, so that what is looked over does not grow for ever.
const ROUNDS_PER_HOME: u64 = 20;
const PROCESSES: u64 = 2;
/// The longest that a process lives. Opening takes a part of it, so some are killed there.
const LONGEST_MS: u64 = 250;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [role, home, place, name] = arguments.as_slice()
        && role == CHILD
    {
        let place = Place::named(place).expect("the parent names a place");
        return block_on(worker::work_until_killed(home.as_ref(), place, name));
    }
    let rounds = arguments
        .iter()
        .find_map(|one| one.parse().ok())
        .unwrap_or(DEFAULT_ROUNDS);
    let named = arguments.iter().find_map(|one| Place::named(one));
    for place in Place::ALL
        .into_iter()
        .filter(|one| named.is_none_or(|named| named == *one))
    {
        survives(place, rounds);
    }
}

fn survives(place: Place, rounds: u64) {
    let started = Instant::now();
    let mut acknowledged = 0;
    for first in (0..rounds).step_by(ROUNDS_PER_HOME as usize) {
        let home = tempfile::tempdir().expect("a temporary directory can be made");
        let mut ledger = Ledger::default();
        for round in first..rounds.min(first + ROUNDS_PER_HOME) {
            for (name, said) in killed(home.path(), place, round) {
                ledger.note(&name, &said);
            }
            block_on(ledger.judge(home.path(), place, round));
        }
        block_on(ledger.judge_all(home.path(), place));
        acknowledged += ledger.acknowledged();
    }
    assert!(
        acknowledged > rounds,
        "the processes did something before they were killed"
    );
    let line = format!(
        "{}: {rounds} rounds, {} processes killed, {acknowledged} acknowledged changes, all there; {:.0} s\n",
        place.name(),
        rounds * PROCESSES,
        started.elapsed().as_secs_f64()
    );
    std::io::stdout().write_all(line.as_bytes()).expect("somebody listens");
}

/// Starts the processes of a round and kills each at its moment; gives their names with what they said.
fn killed(home: &Path, place: Place, round: u64) -> Vec<(String, String)> {
    let mut random = Random::new(round);
    let mut running: Vec<_> = (0..PROCESSES)
        .map(|process| {
            let name = format!("{round}-{process}");
            let dies = Duration::from_millis(random.below(LONGEST_MS));
            (dies, start(home, place, &name), name)
        })
        .collect();
    running.sort_by_key(|(dies, ..)| *dies);
    let started = Instant::now();
    for (dies, child, _) in &mut running {
        std::thread::sleep(dies.saturating_sub(started.elapsed()));
        child.kill().expect("it runs");
    }
    running
        .into_iter()
        .map(|(_, child, name)| (name, heard(child)))
        .collect()
}

fn start(home: &Path, place: Place, name: &str) -> Child {
    let program = std::env::current_exe().expect("this program has a file");
    Command::new(program)
        .args([CHILD.as_ref(), home.as_os_str(), place.name().as_ref(), name.as_ref()])
        .stdout(Stdio::piped())
        .spawn()
        .expect("it can be started")
}

/// Everything that the process said before it was killed. The pipe holds more than a process says in its life.
fn heard(mut child: Child) -> String {
    let mut said = String::new();
    let mut output = child.stdout.take().expect("it is piped");
    output.read_to_string(&mut said).expect("it is text");
    let status = child.wait().expect("it was started");
    assert!(status.code().is_none(), "it ended by itself: {status}");
    said
}
