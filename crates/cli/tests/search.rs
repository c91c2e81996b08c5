//! `garret grep` against `rg` on the same tree.

#![allow(
    clippy::disallowed_methods,
    reason = "tests run programs and look at the directory from outside"
)]
#![allow(clippy::unwrap_used, reason = "a helper of tests fails by panicking")]

use std::collections::BTreeSet;
use std::process::Command;

use crate::common::Room;

/// A tree with hidden, ignored, binary, CRLF and UTF-8 files.
fn tree() -> Room {
    let room = Room::new();
    for number in 0..300 {
        let text: String = (0..40)
            .map(|line| format!("fn item_{number}_{line}() {{ let needle{} = {line}; }}\n", line % 7))
            .collect();
        room.put(&format!("src/m{}/file{number}.rs", number % 9), text);
    }
    room.put(".hidden/needle.txt", "needle3 in a hidden file\n")
        .put("ignored/x.txt", "needle3 in an ignored file\n")
        .put(".gitignore", "ignored/\n*.log\n")
        .put("a.log", "needle3 in a log\n")
        .put("crlf.txt", "first\r\nneedle3 with CRLF\r\n")
        .put("utf8.txt", "größe NEEDLE3 größe\n")
        .put("words.txt", "needle3x\nx needle3 x\n(needle3)\n")
        .put("no-newline.txt", "needle3 at the end")
        .put("binary.bin", b"needle3\0needle3\n")
        .put(".git/config", "needle3 in git\n")
        .put("deep/.gitignore", "!keep.log\nskip.txt\n")
        .put("deep/keep.log", "needle3 kept\n")
        .put("deep/skip.txt", "needle3 skipped\n");
    room
}

fn rg(room: &Room, arguments: &[&str]) -> Vec<u8> {
    let ripgrep = Command::new("rg")
        .args(arguments)
        .current_dir(room.path())
        .env_clear()
        .env("PATH", "/usr/bin:/bin:/usr/local/bin")
        .output();
    ripgrep
        .expect("this test compares with ripgrep: run scripts/setup-tests, which installs it")
        .stdout
}

/// What `rg` does by default in Garret's terms: hidden files are searched, `.git` and ignored files are not.
const EQUIVALENT: [&str; 9] = [
    "--hidden",
    "--no-require-git",
    "--no-ignore-global",
    "--no-ignore-parent",
    "--glob=!.git",
    "--no-config",
    "--line-number",
    "--no-heading",
    "--with-filename",
];

fn lines(bytes: &[u8]) -> BTreeSet<String> {
    let text = String::from_utf8_lossy(bytes).replace('\r', "");
    text.lines()
        .filter(|line| !line.contains("inary file"))
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_matches_are_those_of_ripgrep() {
    let room = tree();
    let same: [&[&str]; 6] = [
        &["needle3"],
        &["NEEDLE3", "-i"],
        &["needle3", "--word-regexp"],
        &["needle(3|5) = [0-9]+;"],
        &["(needle3)", "-F"],
        &["needle3", "--no-ignore"],
    ];
    // A glob of `rg` also brings back what is ignored; its types, like our globs, do not.
    let typed: (&[&str], &[&str]) = (
        &["needle3", "-g", "*.txt"],
        &["needle3", "--type-add=our:*.txt", "-tour"],
    );
    for (case, equivalent) in same.into_iter().map(|case| (case, case)).chain([typed]) {
        let ours = lines(room.run(&[&["grep"], case].concat()).bytes());
        let theirs = lines(&rg(&room, &[&EQUIVALENT[..], equivalent].concat()));
        assert!(!theirs.is_empty(), "{case:?} finds something");
        assert_eq!(without_binary(ours), without_binary(theirs), "{case:?}");
    }
}

/// Both stop in a binary file at its NUL; what they print of it before differs.
fn without_binary(lines: BTreeSet<String>) -> BTreeSet<String> {
    lines
        .into_iter()
        .filter(|line| !line.starts_with("binary.bin"))
        .collect()
}

#[test]
fn context_prints_as_in_ripgrep() {
    let room = tree();
    let ours = room.run(&["grep", "needle3", "-C", "2", "src/m1/file1.rs"]);
    let theirs = rg(
        &room,
        &[&EQUIVALENT[..], &["needle3", "-C", "2", "src/m1/file1.rs"]].concat(),
    );
    assert_eq!(ours.out(), String::from_utf8(theirs).unwrap());
}

#[test]
fn files_and_counts_are_those_of_ripgrep() {
    let room = tree();
    let files = rg(
        &room,
        &[
            "--hidden",
            "--no-require-git",
            "--glob=!.git",
            "--no-config",
            "-l",
            "needle3",
            "--sort=path",
        ],
    );
    let ours = room.run(&["grep", "-l", "needle3"]);
    assert_eq!(lines(ours.bytes()), lines(&files));
    let counted = room.run(&["grep", "-c", "needle3", "src"]).done().lines().count();
    assert_eq!(counted, 300);
}

#[test]
fn a_binary_file_is_named_and_nothing_found_is_no_failure() {
    let room = tree();
    let ran = room.run(&["grep", "needle3"]);
    assert!(ran.err().contains("skipped: binary.bin (binary)"), "{}", ran.err());
    let none = room.run(&["grep", "no such text anywhere"]);
    assert_eq!((none.code(), none.out()), (0, ""));
}

#[test]
fn a_limit_is_told_and_can_be_continued() {
    let room = tree();
    let first = room.run(&["grep", "needle3", "src", "--limit", "5"]);
    assert_eq!(first.done().lines().count(), 5);
    assert!(first.err().contains("--offset 5"), "{}", first.err());
    let data = room
        .run(&["grep", "needle3", "src", "--limit", "5", "--offset", "5", "--json"])
        .data();
    assert_eq!(
        (&data["truncated"], data["matches"].as_array().unwrap().len()),
        (&true.into(), 5)
    );
}
