//! Writes small files with full durability, one after the other and from 64 tasks, and tells how long a write and a sync took; and the
//! same for plain INSERTs of the rows that such a file has, one by one and in groups of 64.
//!
//! `group-commit DIRECTORY`. The benchmarks run it where syncs take longer than on this machine's disk.

#![allow(clippy::print_stdout, reason = "what it finds out is what it prints")]
#![allow(
    clippy::disallowed_methods,
    reason = "a benchmark looks at the clock and its arguments, and syncs a file of its own"
)]

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use garret::{Garret, Home, Workspace, WriteOptions};
use rusqlite::{Connection, ToSql};

const SIZE: usize = 4096;
const TASKS: u32 = 64;
const ALONE: u32 = 300;
const TOGETHER: u32 = 6_400;
const SYNCS: u32 = 100;
/// The tables of the depot that a new file is in, without what a plain one has no use for, and its settings.
const PLAIN: &str =
    "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 4096; PRAGMA cache_size = -8192;
    CREATE TABLE content (number INTEGER PRIMARY KEY, hash BLOB NOT NULL UNIQUE, size INTEGER NOT NULL, data BLOB);
    CREATE TABLE entry (
        workspace INTEGER, until INTEGER, path BLOB, since INTEGER, kind INTEGER, mode INTEGER, size INTEGER, hash BLOB,
        place INTEGER, created INTEGER, modified INTEGER, PRIMARY KEY (workspace, until, path)
    ) WITHOUT ROWID;
    CREATE TABLE change (
        workspace INTEGER, seq INTEGER, id TEXT, at INTEGER, kind TEXT, operation TEXT, summary TEXT, agent TEXT,
        session TEXT, door TEXT, began BLOB, PRIMARY KEY (workspace, seq)
    ) WITHOUT ROWID;";

#[tokio::main]
async fn main() {
    let directory = std::env::args().nth(1).map(PathBuf::from);
    let directory = directory.expect("use: group-commit DIRECTORY");
    let garret = Garret::new().home(Home::new(directory.join("home")));
    let opened = garret.open_url("filestore:box").await.expect("the workspace opens");
    let workspace = opened.workspace();
    // So much that the log of the database has its length, and is written over from then on.
    write_together(workspace, "before", TOGETHER).await;
    let start = Instant::now();
    for number in 0..ALONE {
        write(workspace, "alone", number).await;
    }
    let alone = start.elapsed() / ALONE;
    let start = Instant::now();
    write_together(workspace, "together", TOGETHER).await;
    let together = start.elapsed() / TOGETHER;
    let [plain_alone, plain_together] = plain(&directory);
    for time in [sync_time(&directory), alone, together, plain_alone, plain_together] {
        println!("{}", time.as_secs_f64() * 1e6);
    }
}

/// How long the rows of one file take by plain INSERTs with a sync each, and with a sync for 64.
fn plain(directory: &Path) -> [Duration; 2] {
    let connection = Connection::open(directory.join("plain.db")).expect("the database opens");
    connection.execute_batch(PLAIN).expect("the tables are made");
    let mut numbers = 0..;
    let mut insert = |count: u32, group: u32| {
        let start = Instant::now();
        for _ in 0..count / group {
            connection.execute_batch("BEGIN IMMEDIATE").expect("it begins");
            for number in numbers.by_ref().take(group as usize) {
                insert_rows(&connection, number);
            }
            connection.execute_batch("COMMIT").expect("it is committed");
        }
        start.elapsed() / count
    };
    insert(TOGETHER, TASKS);
    [insert(ALONE, 1), insert(TOGETHER, TASKS)]
}

/// The rows of one file that is written: its content, its entry, its change.
fn insert_rows(connection: &Connection, number: u32) {
    let insert = |sql: &str, values: &[&dyn ToSql]| {
        let statement = connection.prepare_cached(sql);
        let inserted = statement.and_then(|mut statement| statement.execute(values));
        inserted.expect("it is inserted");
    };
    let (path, content) = (path("plain", number), content("plain", number));
    let hash = blake3::hash(&content);
    let hash = hash.as_bytes();
    let id = format!("0192f5a0-7d3c-7abc-8def-{number:012}");
    insert(
        "INSERT INTO content (hash, size, data) VALUES (?1, 4096, ?2)",
        &[hash, &content],
    );
    insert(
        "INSERT INTO entry VALUES (1, 9223372036854775807, ?1, ?2, 1, 420, 4096, ?3, ?2, 1794842205000, 1794842205000)",
        &[&path, &number, hash],
    );
    insert(
        "INSERT INTO change VALUES (1, ?1, ?2, 1794842205000, 'change', 'write', ?3, NULL, NULL, 'library', ?3)",
        &[&number, &id, &path],
    );
}

/// How long a sync of one block takes that was just written, in a file that has it.
fn sync_time(directory: &Path) -> Duration {
    let file = File::create(directory.join("synced")).expect("a file is made");
    let mut times: Vec<_> = (0..=SYNCS)
        .map(|_| {
            file.write_all_at(&[7; SIZE], 0).expect("it is written");
            let start = Instant::now();
            file.sync_data().expect("it is synced");
            start.elapsed()
        })
        .collect();
    times.sort_unstable();
    times[times.len() / 2]
}

fn path(folder: &str, number: u32) -> String {
    format!("{folder}/d{}/f{number}.txt", number % 10)
}

/// Bytes that no other file has.
fn content(folder: &str, number: u32) -> Vec<u8> {
    let head = format!("{folder} {number} ").into_bytes();
    [head, vec![b'x'; SIZE]].concat()[..SIZE].to_vec()
}

async fn write(workspace: &Workspace, folder: &str, number: u32) {
    let (path, content) = (path(folder, number), content(folder, number));
    let written = workspace.write(&path, content, WriteOptions::default()).await;
    written.expect("it is written");
}

async fn write_together(workspace: &Workspace, folder: &'static str, count: u32) {
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let workspace = workspace.clone();
            tokio::spawn(async move {
                for number in (task..count).step_by(TASKS as usize) {
                    write(&workspace, folder, number).await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("no task fails");
    }
}
