//! What the journal of a local directory costs: writes and reads beside the same without history, and a snapshot beside `git status`.

use std::hint::black_box;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use bytes::Bytes;
use garret::{Garret, Home, SnapshotOptions, Workspace, WorkspaceConfig, WriteOptions};
use serde_json::json;
use tokio::runtime::Handle;
use tokio::task::block_in_place;

use crate::measure::{Line, compare};

const FILES: u32 = 1_000;
const SIZE: usize = 4096;
const ROUNDS: usize = 9;
const TREE_FILES: u32 = 20_000;

pub(crate) async fn lines() -> Vec<Line> {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let home = tempfile::tempdir().expect("a temporary directory");
    let names: Vec<_> = (0..FILES)
        .map(|number| format!("d{}/f{number}.txt", number % 10))
        .collect();
    let with = open(directory.path(), home.path(), "durable").await;
    let without = open(directory.path(), home.path(), "off").await;
    let (mut lines, snapshot) = block_in_place(|| {
        let lines = vec![write(&with, &without, &names), read(&with, &without, &names)];
        (lines, second_snapshot())
    });
    lines.push(snapshot);
    lines
}

async fn open(directory: &Path, home: &Path, history: &str) -> Workspace {
    let config = json!({
        "storage": {"kind": "local", "dir": directory, "durability": "relaxed"},
        "history": history,
    });
    let config = WorkspaceConfig::from_json(&config.to_string()).expect("the configuration is right");
    let garret = Garret::new().home(Home::new(home));
    let opened = garret.open_config("bench", &config).await;
    opened.expect("the directory opens").workspace().clone()
}

fn wait<T>(future: impl Future<Output = T>) -> T {
    Handle::current().block_on(future)
}

/// Other content in every round, so that nothing is gained by storing the same bytes once.
fn write_all(workspace: &Workspace, names: &[String], ending: &str, round: usize) {
    wait(async {
        for (number, name) in names.iter().enumerate() {
            let mut content = vec![b'x'; SIZE];
            content[..16].copy_from_slice(format!("{round:08}{number:08}").as_bytes());
            let name = format!("{name}{ending}");
            let written = workspace.write(&name, Bytes::from(content), WriteOptions::default());
            written.await.expect("it is written");
        }
    });
}

fn write(with: &Workspace, without: &Workspace, names: &[String]) -> Line {
    let mut rounds = (0, 0);
    let floor = || {
        write_all(without, names, ".plain", rounds.0);
        rounds.0 += 1;
    };
    let garret = || {
        write_all(with, names, "", rounds.1);
        rounds.1 += 1;
    };
    let (floor, garret) = compare(ROUNDS, floor, garret);
    Line {
        what: "local write with history, relaxed".into(),
        floor_name: "the same without history",
        aim: "≥ 0.67",
        floor,
        garret,
        operations: FILES,
    }
}

fn read(with: &Workspace, without: &Workspace, names: &[String]) -> Line {
    let read_all = |workspace: &Workspace| {
        wait(async {
            for name in names {
                black_box(workspace.read_bytes(name).await.expect("it is read"));
            }
        });
    };
    let (floor, garret) = compare(ROUNDS, || read_all(without), || read_all(with));
    Line {
        what: "local read with history".into(),
        floor_name: "the same without history",
        aim: "≥ 0.92",
        floor,
        garret,
        operations: FILES,
    }
}

fn second_snapshot() -> Line {
    let (directory, home) = (tempfile::tempdir(), tempfile::tempdir());
    let (directory, home) = (directory.expect("a directory"), home.expect("a directory"));
    for number in 0..TREE_FILES {
        let folder = directory.path().join(format!("a{}/b{}", number % 40, number % 400));
        std::fs::create_dir_all(&folder).expect("directories are made");
        std::fs::write(folder.join(format!("f{number}")), format!("file {number}")).expect("it is written");
    }
    let git = |arguments: &[&str]| {
        let identity = ["-c", "user.name=bench", "-c", "user.email=bench@localhost"];
        let done = Command::new("git")
            .args(identity)
            .args(arguments)
            .current_dir(directory.path())
            .output();
        assert!(done.expect("git runs").status.success());
    };
    let kept = home.path().join("git");
    git(&["init", "-q", "--separate-git-dir", kept.to_str().expect("it is UTF-8")]);
    git(&["add", "."]);
    git(&["commit", "-qm", "all"]);
    // Past the grain of the clock, so that neither has to read files that might still change unseen.
    std::thread::sleep(Duration::from_millis(100));
    let workspace = wait(open(directory.path(), &home.path().join("home"), "durable"));
    let snapshot = |label: String| {
        let taken = wait(workspace.snapshot(&label, SnapshotOptions::default()));
        taken.expect("it is taken");
    };
    snapshot("first".into());
    let mut count = 0;
    let garret = || {
        count += 1;
        snapshot(format!("again-{count}"));
    };
    let (floor, garret) = compare(5, || git(&["status", "--porcelain"]), garret);
    Line {
        what: format!("second snapshot of a local directory, {TREE_FILES} files"),
        floor_name: "`git status`",
        aim: "≥ 0.50",
        floor,
        garret,
        operations: TREE_FILES,
    }
}
