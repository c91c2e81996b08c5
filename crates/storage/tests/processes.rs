//! Two processes on one directory: no update is lost, every append arrives.

#![allow(
    clippy::disallowed_methods,
    reason = "the tests are the other program that changes files behind the storage"
)]

mod common;

use std::path::PathBuf;
use std::process::{Child, Command};

use common::Room;
use garret_core::{ErrorKind, Precondition, Storage};

const PROCESSES: usize = 3;
const INCREMENTS: usize = 150;
const APPENDS: usize = 200;

/// Names the directory and the part that a process started by a test plays.
const ROLE: &str = "GARRET_TEST_ROLE";

fn start(room: &Room, part: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "plays_its_part", "--nocapture"])
        .env(ROLE, format!("{part}:{}", room.host("").to_str().unwrap()))
        .spawn()
        .unwrap()
}

fn run(room: &Room, part: &str) {
    let children: Vec<_> = (0..PROCESSES).map(|_| start(room, part)).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
}

/// Not a test of its own: what the started processes run. Without a part to play there is nothing to show.
#[test]
fn plays_its_part() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let (part, root) = role.split_once(':').unwrap();
    let room = Room::at(&PathBuf::from(root));
    match part {
        "increment" => (0..INCREMENTS).for_each(|_| increment(&room)),
        "append" => (0..APPENDS).for_each(|number| {
            room.append("log.txt", &format!("{}-{number}\n", std::process::id()))
                .unwrap();
        }),
        "create" => {
            let outcome = room.write_if("once.txt", "mine", Precondition::Absent);
            room.append("outcomes.txt", if outcome.is_ok() { "won\n" } else { "lost\n" })
                .unwrap();
        }
        other => panic!("no part is called {other}"),
    }
}

/// Reads, adds one, writes under the version that was read; again if somebody else was faster.
fn increment(room: &Room) {
    loop {
        let read = room.read("counter.txt").unwrap();
        let number: usize = std::str::from_utf8(&read.bytes).unwrap().parse().unwrap();
        // Always five digits, so that neither the size nor, within a tick, the times tell two counts apart.
        let next = format!("{:05}", number + 1);
        match room.write_if("counter.txt", &next, Precondition::Version(read.version)) {
            Ok(_) => return,
            Err(error) => assert_eq!(error.kind(), ErrorKind::Conflict, "{error}"),
        }
    }
}

#[test]
fn conditional_writes_of_several_processes_lose_no_update() {
    let room = Room::new();
    room.write("counter.txt", "00000").unwrap();
    run(&room, "increment");
    assert_eq!(room.text("counter.txt"), format!("{:05}", PROCESSES * INCREMENTS));
}

#[test]
fn appends_of_several_processes_all_arrive_whole() {
    let room = Room::new();
    run(&room, "append");
    let text = room.text("log.txt");
    let mut lines: Vec<_> = text.lines().collect();
    lines.sort_unstable();
    lines.dedup();
    assert_eq!(lines.len(), PROCESSES * APPENDS);
}

#[test]
fn of_several_processes_one_creates_the_file() {
    let room = Room::new();
    run(&room, "create");
    let outcomes = room.text("outcomes.txt");
    assert_eq!(outcomes.matches("won").count(), 1, "{outcomes}");
    assert_eq!(outcomes.matches("lost").count(), PROCESSES - 1, "{outcomes}");
}

#[test]
fn a_hundred_concurrent_appends_in_one_process_all_arrive() {
    let room = Room::new();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(4)
        .build()
        .unwrap();
    runtime.block_on(async {
        let tasks: Vec<_> = (0..100)
            .map(|_| {
                let storage = room.storage.clone();
                tokio::spawn(async move { storage.apply(common::append("log.txt", "x").into()).await })
            })
            .collect();
        for task in tasks {
            task.await.unwrap().unwrap();
        }
    });
    assert_eq!(room.text("log.txt"), "x".repeat(100));
}
