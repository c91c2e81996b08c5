//! Many at once over a network that fails at random: what was acknowledged is there once, what was not is there at most once.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use garret_core::{Error, ErrorKind, Precondition};
use garret_testkit::Probe;
use garret_testkit::fixture::block_on;
use garret_testkit::mutations::{append_or_create, write_if};
use garret_testkit::s3::{Fault, Proxy, Rule, Server};

use crate::place::Place;

const HANDLES: usize = 3;
const LINES: usize = 8;
const COUNTS: usize = 5;

/// What was acknowledged, and what nobody knows.
#[derive(Debug, Default)]
struct Counted {
    done: AtomicU64,
    unknown: AtomicU64,
}

impl Counted {
    fn note(&self, is_done: bool) {
        let counter = if is_done { &self.done } else { &self.unknown };
        counter.fetch_add(1, Ordering::AcqRel);
    }
}

/// The network gave out; anything else would be a wrong answer.
fn is_network(error: &Error) -> bool {
    assert!(
        matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Timeout),
        "{error:?}"
    );
    true
}

fn spoil(proxy: &Proxy, seed: u64) {
    let faults = [
        Fault::LoseResponse,
        Fault::ResetRequest,
        Fault::ResetResponse,
        Fault::TruncateResponse,
        Fault::slow_down(),
        Fault::internal_error(),
    ];
    for (index, fault) in faults.into_iter().enumerate() {
        proxy.add(Rule::new(fault).one_in(30, seed * 100 + index as u64));
    }
}

async fn count_up(probe: &Probe, counted: &Counted) {
    loop {
        let (next, wanted) = match probe.try_read("counter").await {
            Ok(read) => {
                let value: u64 = std::str::from_utf8(&read.bytes).unwrap().parse().unwrap();
                (value + 1, Precondition::Version(read.version))
            }
            Err(error) if error.kind() == ErrorKind::NotFound => (1, Precondition::Absent),
            Err(error) => {
                is_network(&error);
                continue;
            }
        };
        match probe.try_apply(write_if("counter", next.to_string(), wanted)).await {
            Ok(_) => return counted.note(true),
            Err(error) if error.kind() == ErrorKind::Conflict => {}
            Err(error) => return counted.note(!is_network(&error)),
        }
    }
}

async fn storm(server: &Server, seed: u64) {
    let proxy = Proxy::before(server);
    let place = Place::on(server);
    let mut handles = Vec::new();
    for _ in 0..HANDLES {
        handles.push(place.through(&proxy).open().await);
    }
    spoil(&proxy, seed);
    let counted = std::sync::Arc::new(Counted::default());
    let tasks = handles.into_iter().enumerate().map(|(handle, probe)| {
        let counted = counted.clone();
        tokio::spawn(async move {
            let mut acknowledged = BTreeMap::new();
            for number in 0..LINES {
                let line = format!("{handle} {number}\n");
                let outcome = probe.try_apply(append_or_create("log", line.clone())).await;
                let is_done = outcome.map_or_else(|error| !is_network(&error), |_| true);
                acknowledged.insert(line, is_done);
                if number < COUNTS {
                    count_up(&probe, &counted).await;
                }
            }
            acknowledged
        })
    });
    let tasks: Vec<_> = tasks.collect();
    let mut acknowledged = BTreeMap::new();
    for task in tasks {
        acknowledged.extend(task.await.expect("no task panics"));
    }
    proxy.clear();
    let probe = place.open().await;
    let log = probe.text("log").await;
    for (line, is_done) in &acknowledged {
        let found = log.matches(line.as_str()).count();
        assert!(
            found == 1 || (!is_done && found == 0),
            "seed {seed}: {line:?} is there {found} times"
        );
    }
    assert_eq!(
        log.lines().count(),
        acknowledged.keys().filter(|line| log.contains(*line)).count()
    );
    let counter: u64 = probe.text("counter").await.parse().unwrap();
    let done = counted.done.load(Ordering::Acquire);
    let possible = done..=done + counted.unknown.load(Ordering::Acquire);
    assert!(
        possible.contains(&counter),
        "seed {seed}: the counter is {counter}, not within {possible:?}"
    );
}

#[test]
fn nothing_is_lost_or_twice_on_seaweed() {
    block_on(async {
        for seed in 0..4 {
            storm(Server::shared_seaweed(), seed).await;
        }
    });
}

#[test]
fn nothing_is_lost_or_twice_on_moto() {
    block_on(async {
        for seed in 4..6 {
            storm(Server::shared_moto(), seed).await;
        }
    });
}

/// Handles that do not know of each other, as processes would.
#[test]
fn a_hundred_appends_of_four_handles_all_arrive() {
    block_on(async {
        let place = Place::on(Server::shared_seaweed());
        let mut tasks = Vec::new();
        for handle in 0..4 {
            let probe = place.open().await;
            tasks.extend((0..25).map(|index| {
                let (probe, line) = (probe.clone(), format!("{handle}-{index}\n"));
                tokio::spawn(async move { probe.apply(append_or_create("log", line)).await })
            }));
        }
        for task in tasks {
            task.await.expect("an append arrives");
        }
        let text = place.open().await.text("log").await;
        let lines: std::collections::BTreeSet<_> = text.lines().collect();
        assert_eq!((text.lines().count(), lines.len()), (100, 100));
    });
}
