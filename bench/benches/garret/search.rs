//! Searching a tree of at least 20,000 files: the Rust sources that the build itself downloaded, as often as needed.

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use garret::{Garret, GlobRequest, Workspace};
use ignore::WalkBuilder;

use crate::measure::{Line, compare};

const FILES: usize = 20_000;
const ROUNDS: usize = 7;

pub(crate) fn lines(runtime: &tokio::runtime::Runtime) -> Vec<Line> {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let files = fill(directory.path());
    let mut lines: Vec<_> = [
        ("a rare literal", "openat2"),
        ("a common word", "unsafe"),
        ("a class", r"[A-Z][a-z]+Error\b"),
    ]
    .into_iter()
    .map(|(kind, pattern)| grep(directory.path(), kind, pattern, files))
    .collect();
    let workspace = runtime
        .block_on(Garret::new().open_dir(directory.path()))
        .expect("the directory opens")
        .workspace()
        .clone();
    lines.push(glob(runtime, &workspace, directory.path(), files));
    lines
}

/// Copies the registry's sources until there are enough files.
fn fill(directory: &Path) -> usize {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home
        .or_else(|| std::env::home_dir().map(|home| home.join(".cargo")))
        .expect("cargo has a home");
    let mut files = 0;
    for copy in 0.. {
        for entry in WalkBuilder::new(home.join("registry/src"))
            .standard_filters(false)
            .build()
            .flatten()
        {
            if !entry.file_type().is_some_and(|kind| kind.is_file()) {
                continue;
            }
            let below = entry.path().strip_prefix(&home).expect("it lies below");
            let path = directory.join(format!("copy{copy}")).join(below);
            std::fs::create_dir_all(path.parent().expect("it has a directory")).expect("it is made");
            std::fs::copy(entry.path(), path).expect("it is copied");
            files += 1;
        }
        if files >= FILES || files == 0 {
            break;
        }
    }
    assert!(
        files >= FILES,
        "the registry has no sources to search; build Garret once"
    );
    files
}

/// The whole programs against each other, with the same meaning: hidden files searched, ignore files respected, no links followed.
fn grep(directory: &Path, kind: &str, pattern: &str, files: usize) -> Line {
    let rg = || {
        let mut command = Command::new("rg");
        command.args([
            "--hidden",
            "--no-require-git",
            "--no-config",
            "-g",
            "!.git",
            "--line-number",
            "--no-heading",
        ]);
        run(command.arg(pattern).arg("."), directory);
    };
    let garret = || {
        run(
            Command::new(program()).args(["grep", "--limit", "10000000", pattern]),
            directory,
        )
    };
    let (floor, garret) = compare(ROUNDS, rg, garret);
    let what = format!("`garret grep`, {kind} in {files} files");
    Line {
        what,
        floor_name: "`rg`",
        aim: "≥ 0.83 (≤ 1.2 × its time)",
        floor,
        garret,
        operations: 1,
    }
}

fn run(command: &mut Command, directory: &Path) {
    let status = command
        .current_dir(directory)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    assert!(
        status.expect("ripgrep is installed by scripts/setup-tests").success(),
        "the pattern is found"
    );
}

/// The release binary beside this benchmark.
pub(crate) fn program() -> PathBuf {
    let this = std::env::current_exe().expect("a program knows itself");
    let program = this
        .parent()
        .and_then(Path::parent)
        .expect("it lies in deps")
        .join("garret");
    assert!(
        program.exists(),
        "build it first: cargo build --release --package garret-cli"
    );
    program
}

fn glob(runtime: &tokio::runtime::Runtime, workspace: &Workspace, directory: &Path, files: usize) -> Line {
    let walk = || {
        let matcher = garret::policy::compile_glob("**/*.toml").expect("the glob is right");
        let found = std::sync::Mutex::new(Vec::new());
        WalkBuilder::new(directory)
            .hidden(false)
            .require_git(false)
            .parents(false)
            .build_parallel()
            .run(|| {
                Box::new(|entry| {
                    let entry = entry.expect("it is read");
                    let path = entry.path().strip_prefix(directory).expect("it lies below");
                    if entry.file_type().is_some_and(|kind| kind.is_file()) && matcher.is_match(path) {
                        found.lock().expect("no holder panics").push(path.to_owned());
                    }
                    ignore::WalkState::Continue
                })
            });
        let mut found = found.into_inner().expect("no holder panics");
        found.sort();
        black_box(found);
    };
    let garret = || {
        let request = GlobRequest {
            pattern: "**/*.toml".into(),
            limit: 1_000_000,
            ..GlobRequest::default()
        };
        black_box(runtime.block_on(workspace.glob(request)).expect("it is found"));
    };
    let (floor, garret) = compare(ROUNDS, walk, garret);
    let what = format!("glob `**/*.toml` in {files} files");
    Line {
        what,
        floor_name: "a parallel walk with `ignore`, as `fd` does",
        aim: "",
        floor,
        garret,
        operations: 1,
    }
}
