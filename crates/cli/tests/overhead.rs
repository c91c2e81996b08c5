//! What a command costs does not grow with the files in the workspace: system calls on files, counted.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(
    clippy::disallowed_methods,
    reason = "it counts the system calls of a program from outside"
)]

mod common;

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Stdio};

use common::{GARRET, Room};

/// What may differ between two runs of the same: temporary names that are tried again, and the like.
const SLACK: u64 = 60;

/// While a command waits for a busy machine, Garret looks after its limits and its locks: the run with the fewest calls had to wait least.
const RUNS: usize = 5;

#[test]
fn a_command_on_a_directory_of_100_000_files_makes_as_many_calls_as_on_one_of_100() {
    let counts = [100, 100_000].map(|files| {
        let room = Room::new();
        fill(&room.path().join("tree"), files);
        calls(&room, "local:tree")
    });
    assert!(counts[1] <= counts[0] + SLACK, "{counts:?}");
}

#[test]
fn a_command_on_10_000_files_of_the_depot_makes_as_many_calls_as_on_100() {
    let counts = [100, 10_000].map(|files| {
        let room = Room::new();
        fill(&room.path().join("tree"), files);
        calls(&room, "filestore:box")
    });
    assert!(counts[1] <= counts[0] + SLACK, "{counts:?}");
}

/// Twice as deep is twice the work, made, taken back and brought again; were the way to each directory walked anew, it would be four times.
#[test]
fn a_tree_that_is_deeper_costs_more_by_its_entries_only() {
    let counts = [150, 300].map(|depth| {
        let room = Room::new();
        std::fs::create_dir(room.path().join("tree")).unwrap();
        let config = "[workspaces.box]\nstorage = 'local:tree'\ncapabilities = { fs = true, shell = true }\n";
        room.put("garret.toml", config);
        room.run(&["-w", "box", "run", "-c", "echo x > beside"]).done();
        let made = format!("mkdir -p {}", "d/".repeat(depth));
        let steps = [
            &["-w", "box", "run", "-c", &made][..],
            &["-w", "box", "undo"],
            &["-w", "box", "redo"],
            &["-w", "box", "run", "-c", "rm -r d"],
        ];
        steps.map(|step| calls_of(&room, step))
    });
    for (less, more) in counts[0].iter().zip(&counts[1]) {
        assert!(*more < less * 5 / 2, "{counts:?}");
    }
}

/// The address space that Garret gets, in units of 1024 bytes, and a file that does not fit into it.
const SPACE: u32 = 360_000;
const LARGE: u64 = 384 << 20;

#[test]
fn a_file_larger_than_memory_is_looked_at_piece_by_piece() {
    let room = Room::new();
    let config = "[workspaces.plain]\nstorage = 'local:plain'\nhistory = 'off'\ncapabilities = { fs = true, shell = true }\n\
                  [workspaces.kept]\nstorage = 'local:kept'\ncapabilities = { fs = true, snapshot = true }\n";
    room.put("garret.toml", config).trust();
    let names: [&[u8]; 2] = [b"plain/large", b"kept/large\xFF"];
    for name in names.map(std::ffi::OsStr::from_bytes) {
        let path = room.path().join(name);
        std::fs::create_dir(path.parent().unwrap()).unwrap();
        std::fs::File::create(path).unwrap().set_len(LARGE).unwrap();
    }
    let script = format!("ulimit -S -v {SPACE} && exec \"$0\" \"$@\"");
    let steps = [
        &["-w", "plain", "run", "-c", "touch large"][..],
        &["-w", "kept", "snapshot", "create", "one"],
    ];
    for step in steps {
        let mut command = Command::new("sh");
        command.args(["-c", &script, GARRET]).args(step);
        command.current_dir(room.path()).env("GARRET_HOME", room.home());
        let ended = command.stdin(Stdio::null()).output().unwrap();
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    }
}

fn fill(tree: &Path, files: u32) {
    for directory in 0..100 {
        std::fs::create_dir_all(tree.join(format!("d{directory}"))).unwrap();
    }
    for file in 0..files {
        std::fs::write(tree.join(format!("d{}/f{file}", file % 100)), "x").unwrap();
    }
}

/// The calls on files that a command needs which changes one file, by Garret and everything that it starts, after one that laid the files
/// out.
fn calls(room: &Room, storage: &str) -> u64 {
    let config = format!("[workspaces.box]\nstorage = '{storage}'\ncapabilities = {{ fs = true, shell = true }}\n");
    room.put("garret.toml", config).trust();
    if storage.starts_with("filestore") {
        room.run(&["import", "--from", "tree", "--name", "box"]).done();
    }
    let text = ["-w", "box", "run", "-c", "date +%N > d1/new"];
    room.run(&text).done();
    (0..RUNS).map(|_| calls_of(room, &text)).min().unwrap()
}

fn calls_of(room: &Room, text: &[&str]) -> u64 {
    let log = room.home().with_file_name("calls");
    let mut command = Command::new("strace");
    command.args(["-f", "-c", "-U", "calls,name", "-e", "trace=%file,getdents64"]);
    command.arg("-o").arg(&log).arg("--").arg(GARRET).args(text);
    command
        .current_dir(room.path())
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("GARRET_HOME", room.home());
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status();
    assert!(status.expect("strace is here").success());
    let table = std::fs::read_to_string(log).unwrap();
    let lines = table
        .lines()
        .filter_map(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    // The last line is the sum of the others.
    lines.max().expect("calls were counted")
}
