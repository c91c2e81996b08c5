//! Two processes on one directory: no update is lost, every append arrives.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
#![allow(
    clippy::disallowed_methods,
    reason = "the tests are the other program that changes files behind the storage"
)]

use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::common::Room;
use garret_core::{ErrorKind, Precondition, Storage};

const PROCESSES: usize = 3;
const INCREMENTS: usize = 150;
const APPENDS: usize = 200;

/// Tells a process started by a test in which directory to play its part of that test.
const ROLE: &str = "GARRET_TEST_ROLE";

/// The room of the process that started this one; `None` in the process that runs the test.
fn assigned_room() -> Option<Room> {
    std::env::var_os(ROLE).map(|root| Room::at(&PathBuf::from(root)))
}

/// Runs this test in several processes at once, each of which finds an assigned room.
fn run_in_processes(test: &str, room: &Room) {
    let start = |_| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", &format!("processes::{test}")])
            .env(ROLE, room.host(""))
            .stdout(Stdio::null());
        command.spawn().unwrap()
    };
    let children: Vec<_> = (0..PROCESSES).map(start).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
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
    if let Some(room) = assigned_room() {
        return (0..INCREMENTS).for_each(|_| increment(&room));
    }
    let room = Room::new();
    room.write("counter.txt", "00000").unwrap();
    run_in_processes("conditional_writes_of_several_processes_lose_no_update", &room);
    assert_eq!(room.text("counter.txt"), format!("{:05}", PROCESSES * INCREMENTS));
}

#[test]
fn appends_of_several_processes_all_arrive_whole() {
    if let Some(room) = assigned_room() {
        let line = |number| format!("{}-{number}\n", std::process::id());
        return (0..APPENDS).for_each(|number| drop(room.append("log.txt", &line(number)).unwrap()));
    }
    let room = Room::new();
    run_in_processes("appends_of_several_processes_all_arrive_whole", &room);
    let text = room.text("log.txt");
    let mut lines: Vec<_> = text.lines().collect();
    lines.sort_unstable();
    lines.dedup();
    assert_eq!(lines.len(), PROCESSES * APPENDS);
}

#[test]
fn of_several_processes_one_creates_the_file() {
    if let Some(room) = assigned_room() {
        let outcome = room.write_if("once.txt", "mine", Precondition::Absent);
        room.append("outcomes.txt", if outcome.is_ok() { "won\n" } else { "lost\n" })
            .unwrap();
        return;
    }
    let room = Room::new();
    run_in_processes("of_several_processes_one_creates_the_file", &room);
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
                tokio::spawn(async move { storage.apply(crate::common::append("log.txt", "x").into()).await })
            })
            .collect();
        for task in tasks {
            task.await.unwrap().unwrap();
        }
    });
    assert_eq!(room.text("log.txt"), "x".repeat(100));
}
