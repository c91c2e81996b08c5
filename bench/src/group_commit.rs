//! Writes small files with full durability, one after the other and then from 64 tasks, and tells how long a write and a sync took.
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
use std::time::Instant;

use garret::{Garret, Home, Workspace, WriteOptions};

const SIZE: usize = 4096;
const TASKS: u32 = 64;
const ALONE: u32 = 300;
const TOGETHER: u32 = 6_400;
const SYNCS: u32 = 100;

#[tokio::main]
async fn main() {
    let directory = std::env::args().nth(1).map(PathBuf::from);
    let directory = directory.expect("use: group-commit DIRECTORY");
    let garret = Garret::new().home(Home::new(directory.join("home")));
    let opened = garret.open_url("filestore:box").await.expect("the workspace opens");
    let workspace = opened.workspace();
    write_together(workspace, "before", TASKS).await;
    let start = Instant::now();
    for number in 0..ALONE {
        write(workspace, "alone", number).await;
    }
    let alone = start.elapsed() / ALONE;
    let start = Instant::now();
    write_together(workspace, "together", TOGETHER).await;
    let together = start.elapsed() / TOGETHER;
    let micros = [sync_time(&directory), alone, together].map(|time| time.as_secs_f64() * 1e6);
    println!("{} {} {}", micros[0], micros[1], micros[2]);
}

/// How long a sync of one block takes that was just written, in a file that has it.
fn sync_time(directory: &Path) -> std::time::Duration {
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

async fn write(workspace: &Workspace, folder: &str, number: u32) {
    let head = format!("{folder} {number} ").into_bytes();
    let content = [head, vec![b'x'; SIZE]].concat()[..SIZE].to_vec();
    let path = format!("{folder}/d{}/f{number}.txt", number % 10);
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
