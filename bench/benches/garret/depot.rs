//! Files of 4 KiB in a filestore, through the whole workspace stack, beside plain SQLite.
//!
//! Every content is another one, so that nothing is gained by storing the same bytes once.

use std::hint::black_box;
use std::path::Path;

use garret::{Garret, Home, Workspace, WorkspaceConfig, WriteOptions};
use rusqlite::Connection;
use serde_json::json;
use tokio::task::block_in_place;

use crate::measure::{Line, compare, in_turns};

const FILES: u32 = 2_000;
const SIZE: usize = 4096;
const ROUNDS: usize = 9;
const TASKS: u32 = 64;

pub(crate) async fn lines() -> Vec<Line> {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let relaxed = open(directory.path(), "relaxed").await;
    let full = open(directory.path(), "full").await;
    let mut lines = vec![
        block_in_place(|| read(&relaxed, directory.path())),
        block_in_place(|| write_relaxed(&relaxed, directory.path())),
        block_in_place(|| write_full(&full, directory.path())),
    ];
    lines.extend(block_in_place(|| write_together(&full, directory.path())));
    lines
}

/// A workspace of the home below `directory`.
pub(crate) async fn open(directory: &Path, durability: &str) -> Workspace {
    let config = json!({"storage": {"kind": "filestore", "workspace": durability, "durability": durability}});
    let config = WorkspaceConfig::from_json(&config.to_string()).expect("the configuration is right");
    let garret = Garret::new().home(Home::new(directory.join("home")));
    let opened = garret.open_config("bench", &config).await;
    opened.expect("the home opens").workspace().clone()
}

/// Plain tables, with the settings that Garret has.
fn plain(directory: &Path, name: &str, synchronous: &str) -> Connection {
    let connection = Connection::open(directory.join(name)).expect("the database opens");
    let settings = format!(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = {synchronous};
         PRAGMA wal_autocheckpoint = 4096; PRAGMA cache_size = -8192;
         CREATE TABLE file (path TEXT PRIMARY KEY, data BLOB NOT NULL)"
    );
    connection.execute_batch(&settings).expect("the table is made");
    connection
}

fn insert(connection: &Connection, round: u32, count: u32) {
    let sql = "INSERT INTO file (path, data) VALUES (?1, ?2)";
    let mut statement = connection.prepare(sql).expect("the statement is right");
    for number in 0..count {
        statement
            .execute((name(round, number), content(round, number)))
            .expect("it is inserted");
    }
}

fn name(round: u32, number: u32) -> String {
    format!("r{round}/d{}/f{number}.txt", number % 10)
}

/// Bytes that no other file has.
fn content(round: u32, number: u32) -> Vec<u8> {
    let mut content = vec![b'x'; SIZE];
    content[..4].copy_from_slice(&round.to_le_bytes());
    content[4..8].copy_from_slice(&number.to_le_bytes());
    content
}

fn wait<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Handle::current().block_on(future)
}

async fn write_one(workspace: &Workspace, round: u32, number: u32) {
    let (name, content) = (name(round, number), content(round, number));
    let written = workspace.write(&name, content, WriteOptions::default()).await;
    written.expect("it is written");
}

fn write_all(workspace: &Workspace, round: u32, count: u32) {
    wait(async {
        for number in 0..count {
            write_one(workspace, round, number).await;
        }
    });
}

fn write_at_once(workspace: &Workspace, round: u32, count: u32) {
    let write = |task| {
        let workspace = workspace.clone();
        tokio::spawn(async move {
            for number in (task..count).step_by(TASKS as usize) {
                write_one(&workspace, round, number).await;
            }
        })
    };
    let tasks: Vec<_> = (0..TASKS).map(write).collect();
    wait(async {
        for task in tasks {
            task.await.expect("no task fails");
        }
    });
}

fn read(workspace: &Workspace, directory: &Path) -> Line {
    let connection = plain(directory, "read.db", "NORMAL");
    insert(&connection, 0, FILES);
    write_at_once(workspace, 0, FILES);
    let names: Vec<_> = (0..FILES).map(|number| name(0, number)).collect();
    let mut select = connection
        .prepare("SELECT data FROM file WHERE path = ?1")
        .expect("the statement is right");
    let floor = || {
        for name in &names {
            let data: Vec<u8> = select.query_row([name], |row| row.get(0)).expect("it is there");
            black_box(data);
        }
    };
    let garret = || {
        wait(async {
            for name in &names {
                black_box(workspace.read_bytes(name).await.expect("it is read"));
            }
        });
    };
    let (floor, garret) = compare(ROUNDS, floor, garret);
    Line {
        what: "filestore read, 4 KiB, warm".into(),
        floor_name: "a prepared SQLite SELECT",
        aim: "≥ 0.50, or ≤ 10 µs",
        floor,
        garret,
        operations: FILES,
    }
}

fn write_relaxed(workspace: &Workspace, directory: &Path) -> Line {
    let connection = plain(directory, "relaxed.db", "NORMAL");
    let (mut floors, mut rounds) = (1..=u32::MAX, 1..=u32::MAX);
    let floor = || insert(&connection, floors.next().expect("there are rounds"), FILES);
    let garret = || write_all(workspace, rounds.next().expect("there are rounds"), FILES);
    let (floor, garret) = compare(ROUNDS, floor, garret);
    Line {
        what: "filestore write, 4 KiB, relaxed".into(),
        floor_name: "a prepared SQLite INSERT, a transaction each",
        aim: "≥ 0.50",
        floor,
        garret,
        operations: FILES,
    }
}

fn write_full(workspace: &Workspace, directory: &Path) -> Line {
    let connection = plain(directory, "full.db", "FULL");
    let (mut floors, mut rounds) = (1..=u32::MAX, 1000..=u32::MAX);
    let floor = || insert(&connection, floors.next().expect("there are rounds"), FILES / 4);
    let garret = || write_all(workspace, rounds.next().expect("there are rounds"), FILES / 4);
    let (floor, garret) = compare(5, floor, garret);
    Line {
        what: "filestore write, 4 KiB, full, one after the other".into(),
        floor_name: "a prepared SQLite INSERT, a sync each",
        aim: "",
        floor,
        garret,
        operations: FILES / 4,
    }
}

/// What a group is worth depends on the disk: it saves each write a sync, and this one's time is in both floors. The aim is of Garret's
/// own loop, which does all that the tasks do.
fn write_together(workspace: &Workspace, directory: &Path) -> [Line; 2] {
    let connection = plain(directory, "together.db", "FULL");
    let rounds = || 2000..=u32::MAX;
    let (mut plains, mut alone, mut together) = (rounds(), rounds(), rounds().map(|round| round + 1000));
    let mut insert_each = || insert(&connection, plains.next().expect("there are rounds"), FILES);
    let mut write_each = || write_all(workspace, alone.next().expect("there are rounds"), FILES);
    let mut garret = || write_at_once(workspace, together.next().expect("there are rounds"), FILES);
    let [plain, own, garret] = in_turns(5, |_| (), [&mut insert_each, &mut write_each, &mut garret]);
    let line = |floor_name, aim, floor| Line {
        what: "filestore write, 4 KiB, full, 64 tasks".into(),
        floor_name,
        aim,
        floor,
        garret,
        operations: FILES,
    };
    [
        line("the same one after the other, a sync each", "", own),
        line("a prepared SQLite INSERT, one after the other, a sync each", "", plain),
    ]
}
