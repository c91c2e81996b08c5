//! Writing to a directory of the disk with and without a history of it.
//!
//! Both ways go through the whole workspace stack and differ in `history` alone. Every content is another one, so that no before-image
//! is already there.

use std::cell::Cell;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use garret::{Garret, Home, Workspace, WorkspaceConfig, WriteOptions};
use serde_json::json;
use tokio::task::block_in_place;

use crate::measure::{Line, at_most, in_turns};

const FILES: u32 = 1_000;
const SIZE: usize = 4096;
const ROUNDS: usize = 9;

pub(crate) async fn lines() -> Vec<Line> {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let mut lines = Vec::new();
    for (durability, aim) in [("relaxed", "≥ 0.67 (≤ 1.5 × its time)"), ("full", "")] {
        let off = open(directory.path(), durability, "off").await;
        let durable = open(directory.path(), durability, "durable").await;
        let compared = |folder| block_in_place(|| compare_writes(&off, &durable, durability, folder));
        let made = compared(|round| format!("new{round}"));
        lines.push(line(
            format!("local write of a new file with history, {durability}"),
            aim,
            made,
        ));
        let replaced = compared(|_| "old".into());
        lines.push(line(
            format!("local write over a file with history, {durability}"),
            aim,
            replaced,
        ));
    }
    lines
}

fn line(what: String, aim: &'static str, [floor, garret]: [Duration; 2]) -> Line {
    Line {
        what,
        floor_name: "the same without history",
        aim,
        floor,
        garret,
        operations: at_most(FILES),
    }
}

async fn open(directory: &Path, durability: &str, history: &str) -> Workspace {
    let files = directory.join(format!("{durability}-{history}"));
    std::fs::create_dir(&files).expect("it is made");
    let config = json!({"storage": {"kind": "local", "dir": files, "durability": durability}, "history": history});
    let config = WorkspaceConfig::from_json(&config.to_string()).expect("the configuration is right");
    let garret = Garret::new().home(Home::new(directory.join("home")));
    let opened = garret.open_config("bench", &config).await;
    opened.expect("the directory opens").workspace().clone()
}

/// Writes the files of each round into the folder for it, both ways.
fn compare_writes(off: &Workspace, durable: &Workspace, label: &str, folder: fn(usize) -> String) -> [Duration; 2] {
    let round = Cell::new(0);
    let write = |workspace| write_all(workspace, label, &folder(round.get()), round.get());
    let next = |number| round.set(number);
    in_turns(ROUNDS, next, [&mut || write(off), &mut || write(durable)])
}

fn write_all(workspace: &Workspace, label: &str, folder: &str, round: usize) {
    tokio::runtime::Handle::current().block_on(async {
        for number in 0..at_most(FILES) {
            let name = format!("{folder}/d{}/f{number}.txt", number % 10);
            let content = content(&format!("{label} {round} {name}\n"));
            let written = workspace.write(&name, content, WriteOptions::default());
            written.await.expect("it is written");
        }
    });
}

/// Bytes that begin with `head`, which no other write has.
fn content(head: &str) -> Bytes {
    let mut content = vec![b'x'; SIZE];
    content[..head.len()].copy_from_slice(head.as_bytes());
    content.into()
}
