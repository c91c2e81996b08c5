//! What developers do all day, on the host and by `garret run` in the sandbox: builds, installations, tests, `git status`.
//!
//! Each piece of work has one workspace, a directory, and in it a fresh directory for each round and way. The package managers ask the
//! registries that they are configured for. Work that fails on the host or in the sandbox is left out, and named.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::measure::{Line, at_most, in_turns};
use crate::search::program;

const ROUNDS: usize = 3;
const FILES: u32 = 20_000;
const WORKSPACE: &str = "work";

/// A piece of work, as shell scripts.
struct WorkPiece {
    name: &'static str,
    /// Makes what all rounds use, in the directory of the workspace.
    setup: String,
    /// Makes what one round uses, in a directory of its own.
    fresh: &'static str,
    /// The work itself, in that directory.
    work: &'static str,
    /// Whether the work asks a package registry.
    asks_registry: bool,
}

fn pieces() -> [WorkPiece; 5] {
    let files = at_most(FILES);
    [
        WorkPiece {
            name: "`cargo build` of a crate of 300 functions",
            setup: String::new(),
            fresh: "cargo init --quiet --vcs none --name demo && for i in $(seq 300); do \
                    echo \"pub fn f$i(n: u64) -> String { (0..n).map(|k| format!(\\\"{}-{}\\\", k, $i)).collect() }\"; done >> src/main.rs",
            work: "cargo build --quiet --offline",
            asks_registry: false,
        },
        WorkPiece {
            name: "`npm install` of express",
            setup: String::new(),
            fresh: "echo '{\"name\": \"demo\", \"version\": \"1.0.0\", \"dependencies\": {\"express\": \"4.21.2\"}}' > package.json",
            work: "npm install --no-audit --no-fund --loglevel=error",
            asks_registry: true,
        },
        WorkPiece {
            name: "`pip install` of pytest",
            setup: String::new(),
            fresh: "python3 -m venv .venv",
            work: ".venv/bin/pip install --quiet --disable-pip-version-check pytest==8.3.4",
            asks_registry: true,
        },
        WorkPiece {
            name: "the tests of pluggy by pytest",
            setup: "python3 -m venv .venv && .venv/bin/pip install --quiet pytest==8.3.4 pluggy==1.5.0 && \
                    .venv/bin/pip download --quiet --no-deps --no-binary=:all: pluggy==1.5.0 && tar xf pluggy-1.5.0.tar.gz"
                .into(),
            fresh: "cp -r ../pluggy-1.5.0/testing .",
            work: "../.venv/bin/python -m pytest -q --rootdir . testing",
            asks_registry: false,
        },
        WorkPiece {
            name: "`git status`",
            setup: format!(
                "git init --quiet repository && cd repository && for d in $(seq 100); do mkdir d$d; done && \
                 for i in $(seq {files}); do echo $i > d$((i % 100 + 1))/f$i; done && git add -A"
            ),
            fresh: "true",
            work: "git -C ../repository status --porcelain --untracked-files=all --ignore-submodules | wc -l",
            asks_registry: false,
        },
    ]
}

pub(crate) fn lines() -> Vec<Line> {
    pieces().iter().filter_map(measure).collect()
}

fn measure(piece: &WorkPiece) -> Option<Line> {
    let place = tempfile::tempdir().expect("a temporary directory");
    let place = WorkPlace::create(place.path(), piece.asks_registry);
    let room = |way: &str, round: usize| place.files.join(format!("{way}{round}"));
    let prepare = |way: &str, round: usize| {
        std::fs::create_dir_all(room(way, round)).expect("it is made");
        is_done(&mut on_host(piece.fresh, &room(way, round)))
    };
    // The first of each shows whether it works here.
    let is_usable = is_done(&mut on_host(&piece.setup, &place.files))
        && prepare("host-try", 0)
        && prepare("box-try", 0)
        && is_done(&mut on_host(piece.work, &room("host-try", 0)))
        && is_done(&mut place.in_sandbox(piece.work, "box-try0"));
    if !is_usable {
        eprintln!(
            "not measured: {} does not work here, on the host or in the sandbox",
            piece.name
        );
        return None;
    }
    let current = Cell::new(0);
    let next = |round| {
        current.set(round);
        assert!(prepare("host", round) && prepare("box", round), "it worked before");
    };
    let mut host = || assert!(is_done(&mut on_host(piece.work, &room("host", current.get()))));
    let mut boxed = || {
        let directory = format!("box{}", current.get());
        assert!(is_done(&mut place.in_sandbox(piece.work, &directory)));
    };
    let [floor, garret] = in_turns(ROUNDS, next, [&mut host, &mut boxed]);
    Some(Line {
        what: format!("{}, by `garret run`", piece.name),
        floor_name: "the same on the host",
        aim: "≥ 0.83 (≤ 1.2 × its time)",
        floor,
        garret,
        operations: 1,
    })
}

/// The directory of one workspace, its home and its configuration.
struct WorkPlace {
    files: PathBuf,
    home: PathBuf,
    config: PathBuf,
}

impl WorkPlace {
    fn create(directory: &Path, asks_registry: bool) -> Self {
        let place = Self {
            files: directory.join("files"),
            home: directory.join("home"),
            config: directory.join("garret.toml"),
        };
        std::fs::create_dir_all(&place.files).expect("it is made");
        let shell = if asks_registry {
            "{ network = { allow = ['*'], registries = true } }"
        } else {
            "true"
        };
        let text = format!(
            "[workspaces.{WORKSPACE}]\nstorage = 'local:{}'\n[workspaces.{WORKSPACE}.capabilities]\nfs = true\nshell = {shell}\n",
            place.files.display()
        );
        std::fs::write(&place.config, text).expect("it is written");
        place
    }

    fn in_sandbox(&self, script: &str, directory: &str) -> Command {
        let mut command = Command::new(program());
        command.arg("--home").arg(&self.home).arg("--config").arg(&self.config);
        command.args(["-w", WORKSPACE, "run", "--cwd", directory, "-c", script]);
        command
    }
}

fn on_host(script: &str, directory: &Path) -> Command {
    let mut command = Command::new("sh");
    command.args(["-ec", script]).current_dir(directory);
    command
}

fn is_done(command: &mut Command) -> bool {
    // Cargo has programs look for their libraries in its own directories first.
    let command = command.env_remove("LD_LIBRARY_PATH").stdin(Stdio::null());
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}
