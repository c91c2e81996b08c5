//! A day's work of a coding agent, with what this machine has: projects in Rust, Python and Node, in a workspace of the
//! home and in a plain directory.
//!
//! The short form needs no network. The full form (`make test-real-work`, or `GARRET_TEST_REAL_WORK=full`) also installs
//! packages by the ordinary clients. Where the machine lacks a program, or cannot reach a registry itself, the test says
//! so and tests nothing.

#![allow(clippy::unwrap_used, reason = "a test ends where it is surprised")]
#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "the tests run the programs of this machine, and say what they could not try"
)]

use std::path::Path;
use std::process::Command;

use crate::common::{Ran, Room};

/// Variables by which clients on this machine find its certificates.
const CERTIFICATES: [&str; 4] = ["SSL_CERT_FILE", "PIP_CERT", "NODE_EXTRA_CA_CERTS", "CURL_CA_BUNDLE"];

/// Runs garret as the user of this machine would: with his home directory and his programs.
fn run(room: &Room, arguments: &[&str]) -> Ran {
    let mut command = room.command(arguments);
    for name in ["HOME", "PATH"].into_iter().chain(CERTIFICATES) {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    Ran::of(command, b"")
}

/// Runs a program of this machine itself, in a directory.
fn run_outside(directory: &Path, words: &[&str]) -> Result<String, String> {
    let mut command = Command::new(words[0]);
    let ran = command.args(&words[1..]).current_dir(directory).output();
    let ran = ran.map_err(|error| error.to_string())?;
    if ran.status.success() {
        return Ok(String::from_utf8_lossy(&ran.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    Err(said.lines().last().unwrap_or("no message").to_owned())
}

/// Whether this machine can do this itself; says so if not.
fn can_outside(directory: &Path, words: &[&str]) -> bool {
    match run_outside(directory, words) {
        Ok(_) => true,
        Err(reason) => {
            println!(
                "not tried: `{}` fails on this machine itself: {reason}",
                words.join(" ")
            );
            false
        }
    }
}

/// Whether the full form was asked for.
fn is_full() -> bool {
    let is_full = std::env::var_os("GARRET_TEST_REAL_WORK").is_some_and(|form| form == "full");
    if !is_full {
        println!("not tried: packages are installed in the full form only (`make test-real-work`)");
    }
    is_full
}

fn put_rust_project(room: &Room, dependencies: &str) {
    let manifest = format!(
        "[package]\nname = \"sums\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[dependencies]\n{dependencies}\n[workspace]\n"
    );
    room.put("sums/Cargo.toml", manifest);
    room.put(
        "sums/src/lib.rs",
        "pub fn sum(a: u32, b: u32) -> u32 { a + b }\n#[test]\nfn sums() { assert_eq!(sum(2, 2), 4); }\n",
    );
}

fn put_node_project(room: &Room, test: &str) {
    room.put(
        "app/package.json",
        r#"{"name": "app", "version": "1.0.0", "scripts": {"test": "node test.js"}}"#,
    );
    room.put("app/test.js", test);
}

/// Makes a virtual environment in `site`, with a script whose first line holds the path of this machine.
fn put_python_project(room: &Room, options: &[&str]) -> bool {
    room.put("site/doubling.py", "def double(n):\n    return 2 * n\n");
    room.put(
        "site/test_doubling.py",
        "import unittest\nfrom doubling import double\nclass Test(unittest.TestCase):\n    def test_double(self):\n        self.assertEqual(double(2), 4)\n",
    );
    let words = [&["python3", "-m", "venv"], options, &[".venv"]].concat();
    if !can_outside(&room.path().join("site"), &words) {
        return false;
    }
    let python = room.path().join("site/.venv/bin/python");
    let script = format!("#!{}\nimport sys\nprint(sys.prefix)\n", python.display());
    room.put("site/.venv/bin/where", script);
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(room.path().join("site/.venv/bin/where"), mode).unwrap();
    true
}

/// A workspace of the home with a project in it.
fn box_with(room: &Room, project: &str) {
    run(room, &["create", "box", "--capability", "fs,shell"]).done();
    run(room, &["-w", "box", "put", &format!("{project}/."), "."]).done();
}

/// Lets the workspace `box` or a directory reach the network.
fn allow_network(room: &Room, storage: &str) {
    room.put(
        "garret.toml",
        format!(
            "[workspaces.net]\nstorage = '{storage}'\n[workspaces.net.capabilities]\nfs = true\n[workspaces.net.capabilities.shell]\nnetwork = 'full'\nenv_allow = {CERTIFICATES:?}\nlimits = {{ timeout_s = 600 }}\n"
        ),
    );
    run(room, &["trust", "--yes"]).done();
}

#[test]
fn a_crate_is_tested_by_the_users_cargo() {
    let room = Room::new();
    if !can_outside(room.path(), &["cargo", "--version"]) {
        return;
    }
    put_rust_project(&room, "");
    box_with(&room, "sums");
    let tested = run(&room, &["-w", "box", "run", "--", "cargo", "test", "--offline"]);
    assert!(tested.done().contains("test sums ... ok"), "{}", tested.err());
    // In the directory itself, with what the user's own cargo would reuse afterwards.
    let tested = run(&room, &["-w", "local:sums", "run", "--", "cargo", "test", "--offline"]);
    assert!(tested.done().contains("test sums ... ok"), "{}", tested.err());
}

#[test]
fn a_node_project_runs_its_tests() {
    let room = Room::new();
    if !can_outside(room.path(), &["npm", "--version"]) {
        return;
    }
    put_node_project(&room, "require('assert').equal(2 + 2, 4); console.log('tested');");
    box_with(&room, "app");
    let tested = run(&room, &["-w", "box", "run", "--", "npm", "test"]);
    assert!(tested.done().contains("tested"), "{}", tested.err());
}

#[test]
fn a_directory_keeps_its_virtual_environment() {
    let room = Room::new();
    if !put_python_project(&room, &["--without-pip"]) {
        return;
    }
    let site = room.path().join("site");
    let script = run(&room, &["-w", "local:site", "run", "--", ".venv/bin/where"]);
    assert_eq!(script.done().trim(), site.join(".venv").to_str().unwrap());
    let tested = run(
        &room,
        &["-w", "local:site", "run", "--", ".venv/bin/python", "-m", "unittest"],
    );
    assert_eq!(tested.code(), 0, "{}", tested.err());
    assert!(tested.err().contains("OK"), "{}", tested.err());
}

#[test]
fn a_commit_has_the_users_name() {
    let room = Room::new();
    room.put(
        "user/.gitconfig",
        "[user]\nname = Ada Example\nemail = ada@example.org\n",
    );
    let mut command = room.command(&[
        "run",
        "-c",
        "git init -q . && git add user && git commit -qm first && git log --format='%an %ae'",
    ]);
    command.env("HOME", room.path().join("user"));
    assert_eq!(Ran::of(command, b"").done(), "Ada Example ada@example.org\n");
}

#[test]
fn a_crate_with_a_dependency_is_built() {
    let room = Room::new();
    put_rust_project(&room, "itoa = \"1\"");
    if !is_full() || !can_outside(&room.path().join("sums"), &["cargo", "fetch"]) {
        return;
    }
    box_with(&room, "sums");
    allow_network(&room, "filestore:box");
    let tested = run(&room, &["-w", "net", "run", "--", "cargo", "test"]);
    assert!(tested.done().contains("test sums ... ok"), "{}", tested.err());
}

#[test]
fn a_package_is_installed_by_npm_and_used() {
    let room = Room::new();
    put_node_project(
        &room,
        "require('assert').equal(require('is-odd')(3), true); console.log('tested');",
    );
    if !is_full() || !can_outside(&room.path().join("app"), &["npm", "view", "is-odd", "version"]) {
        return;
    }
    box_with(&room, "app");
    allow_network(&room, "filestore:box");
    run(&room, &["-w", "net", "run", "--", "npm", "install", "is-odd"]).done();
    let tested = run(&room, &["-w", "net", "run", "--", "npm", "test"]);
    assert!(tested.done().contains("tested"), "{}", tested.err());
    run(&room, &["-w", "net", "undo"]).done();
}

#[test]
fn pytest_is_installed_into_the_environment_of_a_directory() {
    let room = Room::new();
    if !is_full() || !put_python_project(&room, &[]) {
        return;
    }
    let download = ["python3", "-m", "pip", "download", "-q", "-d", "../wheels", "pytest"];
    if !can_outside(&room.path().join("site"), &download) {
        return;
    }
    allow_network(&room, "local:site");
    run(
        &room,
        &["-w", "net", "run", "--", ".venv/bin/pip", "install", "-q", "pytest"],
    )
    .done();
    let tested = run(&room, &["-w", "net", "run", "--", ".venv/bin/pytest", "-q"]);
    assert!(tested.done().contains("1 passed"), "{}", tested.err());
    // The environment works outside as well: its scripts hold the path of the directory.
    run_outside(&room.path().join("site"), &[".venv/bin/pytest", "-q"]).unwrap();
}
