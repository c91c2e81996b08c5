//! A day's work of a coding agent, with what this machine has: projects in Rust, Python and Node, in a workspace of the
//! home and in a plain directory.
//!
//! Packages come by the ordinary clients through the network door, from the registries that this machine itself uses.
//! The short form installs small packages; the full form (`make test-real-work`, or `GARRET_TEST_REAL_WORK=full`) larger
//! ones. Where the machine lacks a program, or cannot reach a registry itself, the test says so and tests nothing.

#![allow(clippy::unwrap_used, reason = "a test ends where it is surprised")]
#![allow(clippy::disallowed_methods, reason = "the tests run the programs of this machine")]

use std::path::Path;
use std::process::Command;

use crate::common::{Ran, Room, repository, tell_not_tried};
use crate::network::run_until_allowed_in;

/// Runs garret as the user of this machine would: with his home directory and his programs.
fn run(room: &Room, arguments: &[&str]) -> Ran {
    let mut command = room.command(arguments);
    for name in ["HOME", "PATH"] {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    Ran::of(command, b"")
}

/// Runs a script in a workspace that reaches the registries of this machine.
fn install(room: &Room, workspace: &str, script: &str) {
    run_until_allowed_in(room, &["-w", workspace], "registries", script);
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
            tell_not_tried(format!("`{}` fails on this machine itself: {reason}", words.join(" ")));
            false
        }
    }
}

/// Returns the packages of the short form, or of the full form if that was asked for.
fn choose<'a>(short: &'a str, full: &'a str) -> &'a str {
    let is_full = std::env::var_os("GARRET_TEST_REAL_WORK").is_some_and(|form| form == "full");
    if is_full { full } else { short }
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

fn put_python_project(room: &Room) {
    room.put("site/doubling.py", "def double(n):\n    return 2 * n\n");
    room.put(
        "site/test_doubling.py",
        "import unittest\nfrom doubling import double\nclass Test(unittest.TestCase):\n    def test_double(self):\n        self.assertEqual(double(2), 4)\n",
    );
}

/// Makes a virtual environment in `site`, with a script whose first line holds the path of this machine.
fn make_environment(room: &Room, options: &[&str]) -> bool {
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

/// Whether this machine can get packages for Python.
fn can_download(room: &Room, packages: &str) -> bool {
    let pip = ["python3", "-m", "pip", "download", "-q", "-d", "../wheels"];
    let words: Vec<_> = pip.into_iter().chain(packages.split(' ')).collect();
    can_outside(&room.path().join("site"), &words)
}

/// A workspace of the home with a project in it.
fn box_with(room: &Room, project: &str) {
    run(room, &["create", "box", "--capability", "fs,shell"]).done();
    run(room, &["-w", "box", "put", &format!("{project}/."), "."]).done();
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
    put_python_project(&room);
    if !make_environment(&room, &["--without-pip"]) {
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
fn a_crate_with_dependencies_is_built() {
    let room = Room::new();
    let full = "serde = { version = \"1\", features = [\"derive\"] }\nserde_json = \"1\"";
    put_rust_project(&room, choose("itoa = \"1\"", full));
    if !can_outside(&room.path().join("sums"), &["cargo", "fetch"]) {
        return;
    }
    box_with(&room, "sums");
    install(&room, "box", "cargo fetch");
    // The packages lie in the home of commands, so that the build needs no network.
    let tested = run(&room, &["-w", "box", "run", "--", "cargo", "test", "--offline"]);
    assert!(tested.done().contains("test sums ... ok"), "{}", tested.err());
}

#[test]
fn a_package_is_installed_by_npm_and_used() {
    let room = Room::new();
    let package = choose("is-odd", "express");
    put_node_project(
        &room,
        &format!("require('assert').equal(typeof require('{package}'), 'function'); console.log('tested');"),
    );
    if !can_outside(&room.path().join("app"), &["npm", "view", package, "version"]) {
        return;
    }
    box_with(&room, "app");
    install(&room, "box", &format!("npm install {package}"));
    let tested = run(&room, &["-w", "box", "run", "--", "npm", "test"]);
    assert!(tested.done().contains("tested"), "{}", tested.err());
    run(&room, &["-w", "box", "undo"]).done();
    // The installation changed `package.json`, too, so it is no change of derived files only.
    let packages = run(&room, &["-w", "box", "ls", "node_modules"]);
    assert_eq!(packages.failed(), "not_found");
}

#[test]
fn pytest_is_installed_into_the_environment_of_a_directory() {
    let room = Room::new();
    put_python_project(&room);
    let packages = choose("pytest", "pytest hypothesis flask");
    if !make_environment(&room, &[]) || !can_download(&room, packages) {
        return;
    }
    install(&room, "local:site", &format!("pip install -q {packages}"));
    let tested = run(&room, &["-w", "local:site", "run", "--", "pytest", "-q"]);
    assert!(tested.done().contains("1 passed"), "{}", tested.err());
    // The environment works outside as well: its scripts hold the path of the directory.
    run_outside(&room.path().join("site"), &[".venv/bin/pytest", "-q"]).unwrap();
    // In an imported copy the scripts name a path that is not there, and the interpreter works.
    run(
        &room,
        &["import", "--from", "site", "--name", "copy", "--capability", "fs,shell"],
    )
    .done();
    let tested = run(&room, &["-w", "copy", "run", "--", "python", "-m", "pytest", "-q"]);
    assert!(tested.done().contains("1 passed"), "{}", tested.err());
}

#[test]
fn pytest_runs_in_a_named_workspace_that_has_made_its_environment() {
    let room = Room::new();
    put_python_project(&room);
    if !can_download(&room, "pytest") {
        return;
    }
    box_with(&room, "site");
    run(&room, &["-w", "box", "run", "--", "python3", "-m", "venv", ".venv"]).done();
    install(&room, "box", "pip install -q pytest");
    let tested = run(&room, &["-w", "box", "run", "--", "pytest", "-q"]);
    assert!(tested.done().contains("1 passed"), "{}", tested.err());
}

/// Puts the toolchain of these tests into the home directory of the user of the room.
fn give_toolchain(room: &Room) -> bool {
    let Ok(toolchain) = run_outside(&repository(), &["rustc", "--print", "sysroot"]) else {
        tell_not_tried("`rustc` says no directory of its toolchain");
        return false;
    };
    let own = room.user_home().join(".rustup/toolchains/own");
    for part in ["bin", "lib"] {
        std::fs::create_dir_all(&own).unwrap();
        let source = Path::new(toolchain.trim()).join(part);
        let (source, target) = (source.to_str().unwrap(), own.to_str().unwrap());
        // Hard links take no time and no space; elsewhere than on one file system the files are copied.
        if run_outside(room.path(), &["cp", "-rl", source, target]).is_err() {
            run_outside(room.path(), &["cp", "-r", source, target]).unwrap();
        }
    }
    true
}

#[test]
fn a_user_without_rights_tests_his_crate_with_a_toolchain_in_his_private_home() {
    let Some(room) = Room::of_nobody().filter(give_toolchain) else {
        return;
    };
    put_rust_project(&room, "");
    room.run(&["create", "box", "--capability", "fs,shell"]).done();
    room.run(&["-w", "box", "put", "sums/.", "."]).done();
    for workspace in ["box", "local:sums"] {
        let tested = room.run(&["-w", workspace, "run", "--", "cargo", "test", "--offline"]);
        assert!(tested.done().contains("test sums ... ok"), "{}", tested.err());
    }
}

#[test]
fn a_user_without_rights_commits_in_his_name() {
    let Some(room) = Room::of_nobody() else { return };
    std::fs::write(
        room.user_home().join(".gitconfig"),
        "[user]\nname = Ada Example\nemail = ada@example.org\n",
    )
    .unwrap();
    room.put("file", "one\n");
    let text = "git init -q . && git add file && git commit -qm first && git log --format='%an %ae'";
    assert_eq!(room.run(&["run", "-c", text]).done(), "Ada Example ada@example.org\n");
    room.run(&["undo"]).done();
    assert!(!room.path().join(".git").exists());
}

#[test]
fn a_user_without_rights_installs_a_package_and_uses_it() {
    let Some(room) = Room::of_nobody() else { return };
    put_node_project(
        &room,
        "require('assert').equal(require('is-odd')(3), true); console.log('tested');",
    );
    let mut view = room.command_of_user(Path::new("npm"));
    let seen = view.args(["view", "is-odd", "version"]).output();
    if !seen.is_ok_and(|seen| seen.status.success()) {
        return tell_not_tried("`npm view` fails for a user without rights");
    }
    room.run(&["create", "box", "--capability", "fs,shell"]).done();
    room.run(&["-w", "box", "put", "app/.", "."]).done();
    let install = [
        "-w",
        "box",
        "run",
        "--network",
        "registries",
        "npm",
        "install",
        "is-odd",
    ];
    room.run(&install).done();
    let tested = room.run(&["-w", "box", "run", "--", "npm", "test"]);
    assert!(tested.done().contains("tested"), "{}", tested.err());
}
