//! Processes are killed under load, again and again; whatever they had acknowledged is there, and no half change is.
//!
//! First two processes work on one home to their end, and everything that they did must be there exactly once. Then, in each round, two
//! processes work on one home ([`worker`]), each is killed at a random moment, and the home is opened as the next
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
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use garret_testkit::fixture::block_on;
use garret_testkit::fuzz::Random;

use place::Place;
use verdict::Ledger;

const UNTIL_KILLED: &str = "work-until-killed";
const TO_THE_END: &str = "work-to-the-end";
/// How many steps a task that is not killed takes.
const STEPS: usize = 25;
const DEFAULT_ROUNDS: u64 = 12;
/// A home is used for so many rounds, so that what is looked over does not grow for ever.
const ROUNDS_PER_HOME: u64 = 20;
const PROCESSES: u64 = 2;
/// The longest that a process lives. Opening takes a part of it, so some are killed there.
const LONGEST_MS: u64 = 250;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [role, home, place, name] = arguments.as_slice()
        && [UNTIL_KILLED, TO_THE_END].contains(&role.as_str())
    {
        let place = Place::named(place).expect("the parent names a place");
        let steps = if role == TO_THE_END { STEPS } else { usize::MAX };
        return block_on(worker::work(home.as_ref(), place, name, steps));
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
        share_a_home(place);
        survives(place, rounds);
    }
}

/// Two processes that nobody kills: every acknowledged step is there, once, and nothing else is.
fn share_a_home(place: Place) {
    let home = tempfile::tempdir().expect("a temporary directory can be made");
    let running: Vec<_> = ["0-0", "0-1"]
        .map(|name| (name, start(TO_THE_END, home.path(), place, name)))
        .into();
    let mut ledger = Ledger::exact();
    for (name, child) in running {
        let (said, status) = heard(child);
        assert!(status.success(), "{name} fails: {status}");
        ledger.note(name, &said);
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
    let mut running: Vec<_> = (0..PROCESSES)
        .map(|process| {
            let name = format!("{round}-{process}");
            let dies = Duration::from_millis(random.below(LONGEST_MS));
            (dies, start(UNTIL_KILLED, home, place, &name), name)
        })
        .collect();
    running.sort_by_key(|(dies, ..)| *dies);
    let started = Instant::now();
    for (dies, child, _) in &mut running {
        std::thread::sleep(dies.saturating_sub(started.elapsed()));
        child.kill().expect("it runs");
    }
    let ended = running.into_iter().map(|(_, child, name)| {
        let (said, status) = heard(child);
        assert!(status.code().is_none(), "{name} ended by itself: {status}");
        (name, said)
    });
    ended.collect()
}

fn start(role: &str, home: &Path, place: Place, name: &str) -> Child {
    let program = std::env::current_exe().expect("this program has a file");
    Command::new(program)
        .args([role.as_ref(), home.as_os_str(), place.name().as_ref(), name.as_ref()])
        .stdout(Stdio::piped())
        .spawn()
        .expect("it can be started")
}

/// Everything that the process said, and how it ended. The pipe holds more than a process says in its life.
fn heard(mut child: Child) -> (String, ExitStatus) {
    let mut said = String::new();
    let mut output = child.stdout.take().expect("it is piped");
    output.read_to_string(&mut said).expect("it is text");
    let status = child.wait().expect("it was started");
    (said, status)
}
