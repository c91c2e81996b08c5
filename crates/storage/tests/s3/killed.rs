//! A process is killed after its first request, after its second, and so on; whoever opens the place next finds everything done or nothing.
//! Only the move of a single file, which no intent announces, may be found in between, with the file under both names; a journal above
//! settles that.
//!
//! The proxy holds back the answer to one request. When it has, the process is killed: no clock is involved, and each state that the
//! server can be left in is met.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use garret_core::Mutation;
use garret_testkit::Probe;
use garret_testkit::fixture::block_on;
use garret_testkit::mutations::{append, copy, remove, rename, write};
use garret_testkit::s3::{Fault, Proxy, Rule, Server};

use crate::place::Place;
use crate::processes::{another, assigned};

const READY: &str = "ready to be killed";

/// The files at the start, as they are listed with their content.
const BEFORE: [&str; 5] = [
    "d/0=file 0",
    "d/1=file 1",
    "d/deep/2=file 2",
    "d/deep/er/3=file 3",
    "f=old",
];

fn prepare() -> Vec<Mutation> {
    BEFORE
        .iter()
        .map(|line| line.split_once('=').unwrap())
        .map(|(at, text)| write(at, text))
        .collect()
}

async fn files(probe: &Probe) -> Vec<String> {
    let mut lines = Vec::new();
    for at in probe.names_deep("").await {
        if probe.stat(&at).await.kind == garret_core::EntryKind::File {
            lines.push(format!("{at}={}", probe.text(&at).await));
        }
    }
    lines
}

/// The process that is killed: opens, says so, waits for a word, does its work.
fn live(place: &Place, work: Mutation) {
    block_on(async {
        let probe = place.open().await;
        std::io::stdout().write_all(format!("{READY}\n").as_bytes()).unwrap();
        let mut line = String::new();
        std::io::stdin().read_line(&mut line).unwrap();
        probe.apply(work).await;
    });
}

/// Kills a process that does `test` when its request after `skip` others has been answered; true where it came that far.
fn killed_after(skip: u64, test: &str, place: &Place, proxy: &Proxy) -> bool {
    let mut child = another(test, &place.through(proxy))
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap())
        .lines()
        .map_while(Result::ok);
    assert!(said.any(|line| line.contains(READY)), "it opens");
    let struck = proxy.add(Rule::new(Fault::StallResponse).skip(skip));
    child.stdin.take().unwrap().write_all(b"go\n").unwrap();
    while struck.struck() == 0 {
        if let Some(status) = child.try_wait().unwrap() {
            assert!(status.success(), "it does its work");
            break;
        }
        std::thread::yield_now();
    }
    let _ = child.kill();
    child.wait().unwrap();
    proxy.wait_for_clients_to_go();
    proxy.clear();
    struck.struck() > 0
}

/// At every moment: as before or as one of `allowed`, of which the first is how it is after the work; and nothing of Garret's own left over.
fn survives(test: &str, work: Mutation, allowed: &[&[&str]]) {
    if let Some(place) = assigned() {
        return live(&place, work);
    }
    let server = Server::shared_seaweed();
    for skip in 0.. {
        let place = Place::on(server);
        let proxy = Proxy::before(server);
        block_on(async { place.open().await.batch(prepare()).await });
        let was_killed = killed_after(skip, test, &place, &proxy);
        let found = block_on(async { files(&place.open().await).await });
        let told = format!("killed after {skip} requests: {:#?}", proxy.seen());
        match was_killed {
            true => assert!(
                found == BEFORE || allowed.iter().any(|one| found == *one),
                "{found:?} {told}"
            ),
            false => assert_eq!(found, allowed[0], "{told}"),
        }
        let left = server.boto().keys(&place.key(".garret"));
        assert_eq!(left, Vec::<String>::new(), "{told}");
        if !was_killed {
            assert!(skip > 0, "it asks the server");
            return;
        }
    }
}

#[test]
fn a_killed_move_of_a_directory_loses_no_file() {
    let after = [
        "f=old",
        "moved/0=file 0",
        "moved/1=file 1",
        "moved/deep/2=file 2",
        "moved/deep/er/3=file 3",
    ];
    survives(
        "killed::a_killed_move_of_a_directory_loses_no_file",
        rename("d", "moved"),
        &[&after],
    );
}

#[test]
fn a_killed_move_of_a_file_loses_nothing() {
    let after = [&BEFORE[..4], &["moved=old"]].concat();
    let between = [&BEFORE[..], &["moved=old"]].concat();
    survives(
        "killed::a_killed_move_of_a_file_loses_nothing",
        rename("f", "moved"),
        &[&after, &between],
    );
}

#[test]
fn a_killed_append_is_whole_or_nothing() {
    let after = [&BEFORE[..4], &["f=old and new"]].concat();
    survives(
        "killed::a_killed_append_is_whole_or_nothing",
        append("f", " and new"),
        &[&after],
    );
}

#[test]
fn a_killed_write_is_whole_or_nothing() {
    let after = [&BEFORE[..4], &["f=new"]].concat();
    survives(
        "killed::a_killed_write_is_whole_or_nothing",
        write("f", "new"),
        &[&after],
    );
}

#[test]
fn a_killed_copy_is_whole_or_nothing() {
    let after = [&BEFORE[..], &["g=old"]].concat();
    survives("killed::a_killed_copy_is_whole_or_nothing", copy("f", "g"), &[&after]);
}

#[test]
fn a_killed_removal_removes_one_file_or_none() {
    survives(
        "killed::a_killed_removal_removes_one_file_or_none",
        remove("f"),
        &[&BEFORE[..4]],
    );
}
