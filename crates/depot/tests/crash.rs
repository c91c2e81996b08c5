//! The process is killed under load, again and again; whatever it had acknowledged is there, and no half change is.
//!
//! A program of its own instead of a list of tests, since it starts itself as the process to kill. The number of rounds is its
//! argument: `cargo test -p garret-depot --test crash -- 1000`.

#![allow(
    clippy::disallowed_methods,
    reason = "it starts and kills a process of its own, and says how it went"
)]

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use bytes::Bytes;
use garret_core::{ListOptions, OpenContext, RandomIds, ReadOptions, Storage, SystemClock, WsPath};
use garret_depot::{Depot, DepotOptions, DepotWorkspace, NewWorkspace};
use garret_testkit::fixture::block_on;
use garret_testkit::mutations::{append_or_create, path, write};
use garret_testkit::mutations::{remove, rename};

const CHILD: &str = "write-until-killed";
const DEFAULT_ROUNDS: u32 = 12;
const TASKS: u32 = 6;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [role, home, round] = arguments.as_slice()
        && role == CHILD
    {
        return block_on(write_until_killed(home.as_ref(), round));
    }
    let rounds = arguments
        .iter()
        .find_map(|one| one.parse().ok())
        .unwrap_or(DEFAULT_ROUNDS);
    let home = tempfile::tempdir().expect("a temporary directory can be made");
    block_on(async { open(home.path()).await.create(NewWorkspace::named("box")).await }).expect("the name is free");
    let mut acknowledged = BTreeSet::new();
    for round in 0..rounds {
        let new = killed_round(home.path(), round);
        acknowledged.extend(new);
        block_on(check(home.path(), &acknowledged));
    }
    say(&format!(
        "killed {rounds} times; all of {} acknowledged changes are there\n",
        acknowledged.len()
    ));
}

/// Unbuffered: what is said before the kill is heard.
fn say(line: &str) {
    let mut output = std::io::stdout().lock();
    output
        .write_all(line.as_bytes())
        .and_then(|()| output.flush())
        .expect("somebody listens");
}

async fn open(home: &Path) -> Depot {
    let context = OpenContext {
        clock: Arc::new(SystemClock::default()),
        ids: Arc::new(RandomIds),
        history: garret_core::HistoryMode::Durable,
    };
    Depot::open(home, DepotOptions::default(), context)
        .await
        .expect("the home can be opened")
}

/// The process that is killed: every line it says is a change that was acknowledged.
async fn write_until_killed(home: &Path, round: &str) {
    let room = open(home).await.workspace("box").await.expect("it is there");
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| tokio::spawn(write_for_ever(room.clone(), format!("{round}-{task}"))))
        .collect();
    for task in tasks {
        task.await.expect("it ends with the process");
    }
}

async fn write_for_ever(room: DepotWorkspace, name: String) {
    for turn in 0.. {
        let apply = |mutations: Vec<_>| {
            let batch = garret_core::Batch {
                mutations,
                ..garret_core::Batch::default()
            };
            room.apply(batch)
        };
        // Two files that are always the same, one of them above the threshold in every fourth turn.
        let content = content_of(&name, turn);
        let pair = vec![
            write(&format!("{name}/left"), content.clone()),
            write(&format!("{name}/right"), content),
        ];
        apply(pair).await.expect("the disk is fine");
        say(&format!("pair {name} {turn}\n"));
        apply(vec![append_or_create(&format!("{name}/log"), format!("{turn}\n"))])
            .await
            .expect("the disk is fine");
        say(&format!("log {name} {turn}\n"));
        let (old, new) = (format!("{name}/at-{turn}"), format!("{name}/moved-{turn}"));
        apply(vec![write(&old, turn.to_string())])
            .await
            .expect("the disk is fine");
        apply(vec![rename(&old, &new), remove(&new)])
            .await
            .expect("the disk is fine");
        say(&format!("gone {name} {turn}\n"));
    }
}

fn content_of(name: &str, turn: u32) -> Bytes {
    let length = if turn % 4 == 3 { 9_000 } else { 3 };
    format!("{name} {turn}\n").repeat(length).into()
}

/// Runs the process until it has said so many lines, which differ from round to round, and kills it; gives what it said.
fn killed_round(home: &Path, round: u32) -> Vec<String> {
    let program = std::env::current_exe().expect("this program has a file");
    let mut child = Command::new(program)
        .args([CHILD.as_ref(), home.as_os_str(), round.to_string().as_ref()])
        .stdout(Stdio::piped())
        .spawn()
        .expect("it can be started");
    let mut lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
    let wanted = 5 + (round * 7_919) % 97;
    let mut said: Vec<String> = lines
        .by_ref()
        .take(wanted as usize)
        .map(|line| line.expect("it is text"))
        .collect();
    child.kill().expect("it runs");
    child.wait().expect("it was started");
    // What was said before the kill counts, but for a line that it cut short.
    let late = lines.map_while(Result::ok).filter(|line| line.split(' ').count() == 3);
    said.extend(late.filter(|line| !line.ends_with(' ')));
    said.pop();
    said
}

/// Opens the home as the next process would, and looks at everything.
async fn check(home: &Path, acknowledged: &BTreeSet<String>) {
    let depot = open(home).await;
    assert_eq!(depot.check().await.expect("it can be looked over"), []);
    let room = depot.workspace("box").await.expect("it is there");
    for line in acknowledged {
        let words: Vec<_> = line.split(' ').collect();
        let [what, name, turn] = words.as_slice() else {
            panic!("{line:?} was said")
        };
        let turn: u32 = turn.parse().expect("a turn is a number");
        match *what {
            "pair" => assert!(pair_of(&room, name).await >= turn, "{line} is lost"),
            "log" => assert!(
                read(&room, &format!("{name}/log")).await.lines().count() > turn as usize,
                "{line}"
            ),
            "gone" => {
                let left = room
                    .stat(&path(&format!("{name}/moved-{turn}")), Default::default())
                    .await;
                assert!(left.is_err(), "{line} is lost");
            }
            other => panic!("{other} was said"),
        }
    }
    check_whole(&room).await;
}

/// The turn of a pair of files, which must be the same.
async fn pair_of(room: &DepotWorkspace, name: &str) -> u32 {
    let left = read(room, &format!("{name}/left")).await;
    assert!(
        left == read(room, &format!("{name}/right")).await,
        "half a change of {name} is visible"
    );
    let first = left
        .lines()
        .next()
        .and_then(|line| line.split(' ').nth(1))
        .expect("a line says its turn");
    let turn = first.parse().expect("a turn is a number");
    assert!(
        left == content_of(name, turn),
        "the content of {name} is not what was written"
    );
    turn
}

async fn read(room: &DepotWorkspace, at: &str) -> String {
    let read = room
        .read(&path(at), ReadOptions::default())
        .await
        .expect("what was acknowledged can be read");
    String::from_utf8(read.bytes.to_vec()).expect("it is text")
}

/// Every file can be read, and the journal has no gap.
async fn check_whole(room: &DepotWorkspace) {
    let options = ListOptions {
        is_deep: true,
        limit: usize::MAX,
        ..ListOptions::default()
    };
    let page = room.list(&WsPath::root(), options).await.expect("it can be listed");
    for entry in page
        .entries
        .iter()
        .filter(|entry| entry.kind == garret_core::EntryKind::File)
    {
        let at = entry.path.as_path().expect("it is UTF-8");
        let read = room
            .read(at, ReadOptions::default())
            .await
            .expect("every file can be read");
        assert_eq!(read.bytes.len() as u64, entry.size);
    }
    let changes = room
        .changes(None, usize::MAX >> 1)
        .await
        .expect("the journal can be read");
    assert!(
        changes.windows(2).all(|pair| pair[0].number == pair[1].number + 1),
        "the journal has a gap"
    );
    assert_eq!(changes.first().map(|one| one.number), Some(changes.len() as u64));
}
