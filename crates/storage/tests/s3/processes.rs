//! Two processes on one object: nothing is lost.

use std::process::{Command, Stdio};

use garret_core::{ErrorKind, Precondition};
use garret_testkit::Probe;
use garret_testkit::fixture::block_on;
use garret_testkit::mutations::{append_or_create, write_if};
use garret_testkit::s3::Server;

use crate::place::Place;

const PROCESSES: usize = 2;
const LINES: usize = 15;

/// Tells a process started by a test where to play its part of that test.
const ROLE: &str = "GARRET_TEST_PLACE";

/// The place of the process that started this one; `None` in the process that runs the test.
pub(crate) fn assigned() -> Option<Place> {
    let role = std::env::var(ROLE).ok()?;
    let (endpoint, prefix) = role.split_once(' ').unwrap();
    Some(Place::elsewhere(endpoint, prefix))
}

/// This program as another process, which runs one test in `place`.
pub(crate) fn another(test: &str, place: &Place) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", test, "--nocapture"])
        .env(ROLE, format!("{} {}", place.endpoint, place.prefix))
        .stdout(Stdio::piped());
    command
}

/// Puts a line before all others, under the version that was read; again if somebody else was quicker.
async fn edit(probe: &Probe, line: &str) {
    loop {
        let read = probe.read("shared.txt").await;
        let text = [line.as_bytes(), &read.bytes[..]].concat();
        let wanted = Precondition::Version(read.version);
        match probe.try_apply(write_if("shared.txt", text, wanted)).await {
            Ok(_) => return,
            Err(error) => assert_eq!(error.kind(), ErrorKind::Conflict, "{error:?}"),
        }
    }
}

async fn take_part(place: Place) {
    let probe = place.open().await;
    let process = std::process::id();
    for number in 0..LINES {
        probe
            .apply(append_or_create("shared.txt", format!("append {process} {number}\n")))
            .await;
        edit(&probe, &format!("edit {process} {number}\n")).await;
    }
}

#[test]
fn appends_and_edits_of_two_processes_lose_nothing() {
    if let Some(place) = assigned() {
        return block_on(take_part(place));
    }
    let place = Place::on(Server::shared_seaweed());
    let test = "processes::appends_and_edits_of_two_processes_lose_nothing";
    let running: Vec<_> = (0..PROCESSES).map(|_| another(test, &place).spawn().unwrap()).collect();
    for child in running {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
    let text = block_on(async { place.open().await.text("shared.txt").await });
    let lines: std::collections::BTreeSet<_> = text.lines().collect();
    let wanted = PROCESSES * LINES * 2;
    assert_eq!((text.lines().count(), lines.len()), (wanted, wanted), "{text}");
}
