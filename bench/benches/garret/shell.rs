//! Commands: what isolation, the layer and the change cost, beside a plain spawn and beside other sandboxes.
//!
//! Garret executes a plain program with plain arguments itself, where the others start a shell first: `true` is such a one.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use garret::{Garret, Home, RunRequest, Toolbox, Workspace, WorkspaceConfig};
use tokio::task::block_in_place;

use crate::measure::{Line, at_most, in_turns, let_the_disk_rest};
use crate::search::program;

const ROUNDS: usize = 15;
const REPEATS: u32 = 20;
const SPAWN: &str = "`sh -c true`, a plain spawn";
const BWRAP: &str = "`bwrap … sh -c true`, the same namespaces";
const SRT: &str = "`srt -c true` (@anthropic-ai/sandbox-runtime)";

/// The cost of a command that does nothing, warm and cold.
pub(crate) async fn lines() -> Vec<Line> {
    block_in_place(let_the_disk_rest);
    let place = tempfile::tempdir().expect("a temporary directory");
    let mut lines = block_in_place(|| warm(place.path()));
    lines.extend(block_in_place(|| cold(place.path())));
    lines.extend(block_in_place(|| code(place.path())));
    lines
}

/// A small piece of Python from cold, beside the interpreter alone: that of the system, and the `python3` of the user, which may be a script
/// that looks for the right one.
fn code(place: &Path) -> Vec<Line> {
    let tree = place.join("pieces");
    std::fs::create_dir_all(&tree).expect("it is made");
    let python = |program: &str| quietly(Command::new(program).args(["-c", "1"]));
    let by_garret = |path: Option<&str>| {
        let mut command = Command::new(program());
        command
            .arg("--home")
            .arg(place.join("home-of-code"))
            .arg("-w")
            .arg(&tree);
        // Without toolchains, the interpreter is that of the system.
        if let Some(path) = path {
            command.env("PATH", path).env_remove("HOME").env_remove("PYENV_ROOT");
        }
        quietly(command.args(["code", "python", "-c", "1"]))
    };
    let compare = |interpreter: &str, path, what: &str, floor_name| {
        if !python(interpreter) || !by_garret(path) {
            eprintln!("not measured: {what} does not work here");
            return None;
        }
        let mut plain = || assert!(python(interpreter));
        let mut garret = || assert!(by_garret(path));
        let [plain, garret] = in_turns(ROUNDS, |_| (), [&mut plain, &mut garret]);
        Some(Line {
            operations: 1,
            ..line(what, floor_name, "≥ 0.33 (≤ 3 × its time)", plain, garret)
        })
    };
    let system = compare(
        "/usr/bin/python3",
        Some("/usr/bin:/bin"),
        "`garret code python -c 1`, the whole program, without toolchains",
        "`/usr/bin/python3 -c 1`",
    );
    let user = compare(
        "python3",
        None,
        "`garret code python -c 1`, the whole program",
        "`python3 -c 1`, as the user calls it",
    );
    system.into_iter().chain(user).collect()
}

/// What a command costs where the workspace holds many files, and what it takes to lay the files out for it.
pub(crate) async fn section() -> String {
    let mut text = "## A command in a workspace of many files\n\nOn filestore. The first command finds nothing laid out, as on a machine that the \
                    home was just brought to: its time is that of the whole checkout, with the sandbox opened for it. The others are medians of \
                    seven runs after that: `true`, `true` after one file was written by `write_file` (which the checkout then follows; the write itself is \
                    not in the time), and a command that writes a file, kept as a change.\n\n\
                    | files | first command, nothing laid out | nothing changed | one file changed by `write_file` | a command that changes one file |\n\
                    |---|---|---|---|---|\n"
        .to_owned();
    block_in_place(let_the_disk_rest);
    for files in [100, 10_000, at_most(100_000)] {
        text += &block_in_place(|| row(files));
    }
    text + "\n"
}

fn wait<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Handle::current().block_on(future)
}

fn open(home: &Path, storage: &str) -> Toolbox {
    let text = format!("storage = '{storage}'\n[capabilities]\nfs = true\nshell = true\n");
    let config = WorkspaceConfig::from_toml(&text).expect("the configuration is right");
    let garret = Garret::new().home(Home::new(home));
    wait(garret.open_config("bench", &config)).expect("the workspace opens")
}

fn run(workspace: &Workspace, text: &str) {
    let result = wait(workspace.run(RunRequest::shell(text))).expect("the command runs");
    assert_eq!(result.exit_code, 0, "{}", result.output);
}

fn quietly(command: &mut Command) -> bool {
    // Cargo has programs look for their libraries in its own directories first, which no command in a sandbox does.
    let status = command
        .env_remove("LD_LIBRARY_PATH")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    status.is_ok_and(|status| status.success())
}

fn spawn() {
    assert!(quietly(Command::new("sh").args(["-c", "true"])));
}

/// The sandbox that people build by hand: everything unshared, the system read-only, the workspace writable.
fn bwrap(workspace: &Path) -> Command {
    let mut command = Command::new("bwrap");
    command.args([
        "--unshare-all",
        "--die-with-parent",
        "--new-session",
        "--cap-drop",
        "ALL",
    ]);
    command.args([
        "--ro-bind",
        "/usr",
        "/usr",
        "--symlink",
        "usr/bin",
        "/bin",
        "--symlink",
        "usr/lib",
        "/lib",
    ]);
    command.args([
        "--symlink",
        "usr/lib64",
        "/lib64",
        "--proc",
        "/proc",
        "--dev",
        "/dev",
        "--tmpfs",
        "/tmp",
        "--bind",
    ]);
    command
        .arg(workspace)
        .args(["/workspace", "--chdir", "/workspace", "sh", "-c", "true"]);
    command
}

fn line(what: &str, floor_name: &'static str, aim: &'static str, floor: Duration, garret: Duration) -> Line {
    Line {
        what: what.to_owned(),
        floor_name,
        aim,
        floor,
        garret,
        operations: REPEATS,
    }
}

fn warm(place: &Path) -> Vec<Line> {
    let opened = open(&place.join("home"), "filestore:bench");
    let workspace = opened.workspace();
    run(workspace, "true");
    let times = |work: &mut dyn FnMut()| (0..REPEATS).for_each(|_| work());
    let tree = place.join("tree");
    std::fs::create_dir_all(&tree).expect("it is made");
    let has_bwrap = quietly(&mut bwrap(&tree));
    // Each beside Garret alone: the kernel takes the namespaces of `bwrap` apart when that has ended, at the cost of whoever comes next.
    let [plain, garret] = in_turns(
        ROUNDS,
        |_| (),
        [&mut || times(&mut spawn), &mut || times(&mut || run(workspace, "true"))],
    );
    let what = "`run(\"true\")` in a warm sandbox, the result whole";
    let mut lines = vec![line(what, SPAWN, "≥ 0.50 (≤ 2 × its time)", plain, garret)];
    match has_bwrap {
        true => {
            let [boxed, garret] = in_turns(
                ROUNDS,
                |_| (),
                [&mut || times(&mut || assert!(quietly(&mut bwrap(&tree)))), &mut || {
                    times(&mut || run(workspace, "true"))
                }],
            );
            lines.push(line(what, BWRAP, "", boxed, garret));
        }
        false => eprintln!("not measured: bwrap is missing or does not run here"),
    }
    lines
}

/// Opening the sandbox, one command, closing it: what a program pays that runs one command.
fn cold(place: &Path) -> Vec<Line> {
    let tree = place.join("tree");
    if !quietly(&mut bwrap(&tree)) {
        return Vec::new();
    }
    let opened = open(&place.join("home"), "filestore:bench");
    let workspace = opened.workspace();
    let srt = runtime();
    let mut other = || {
        if let Some(program) = &srt {
            assert!(quietly(Command::new("node").arg(program).args(["-c", "true"])));
        }
    };
    let mut by_program = || {
        let mut command = Command::new(program());
        command.arg("--home").arg(place.join("home-of-program"));
        assert!(quietly(command.arg("-w").arg(&tree).args(["run", "-c", "true"])));
    };
    let [boxed, garret, runtime, program] = in_turns(
        ROUNDS,
        |_| wait(workspace.close()).expect("it closes"),
        [
            &mut || assert!(quietly(&mut bwrap(&tree))),
            &mut || run(workspace, "true"),
            &mut other,
            &mut by_program,
        ],
    );
    let what = "`run(\"true\")` with the sandbox opened for it";
    let cold = |name, aim, floor| Line {
        operations: 1,
        ..line(what, name, aim, floor, garret)
    };
    let mut lines = vec![
        cold(BWRAP, "≥ 0.33 (≤ 3 × its time)", boxed),
        Line {
            operations: 1,
            ..line("`garret run -c true`, the whole program", BWRAP, "", boxed, program)
        },
    ];
    match srt {
        Some(_) => lines.push(cold(SRT, "", runtime)),
        None => eprintln!("not measured: @anthropic-ai/sandbox-runtime is missing or does not run here"),
    }
    lines
}

/// The program of the other sandbox, where it was installed and runs.
fn runtime() -> Option<PathBuf> {
    let program =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/node_modules/@anthropic-ai/sandbox-runtime/dist/cli.js");
    quietly(Command::new("node").arg(&program).args(["-c", "true"])).then_some(program)
}

fn row(files: u32) -> String {
    let place = tempfile::tempdir().expect("a temporary directory");
    fill(place.path(), files);
    let opened = open(place.path(), "filestore:bench");
    let workspace = opened.workspace();
    let timed = |text: &str| {
        let start = Instant::now();
        run(workspace, text);
        start.elapsed()
    };
    let median = |before: &dyn Fn(u32), text: &str| {
        let mut times: Vec<_> = (0..7)
            .map(|round| {
                before(round);
                timed(text)
            })
            .collect();
        times.sort();
        times[3]
    };
    let write = |round: u32| {
        let content = format!("written {round}\n").into_bytes();
        wait(workspace.write("d1/f1", content, Default::default())).expect("it is written");
    };
    let first = timed("true");
    let idle = median(&|_| (), "true");
    let following = median(&write, "true");
    let changing = median(&|_| (), "date +%N > new.txt");
    format!("| {files} | {first:.1?} | {idle:.1?} | {following:.1?} | {changing:.1?} |\n")
}

/// Fills the workspace by one command, and removes what was laid out for it, so that the next one finds nothing.
fn fill(home: &Path, files: u32) {
    let opened = open(home, "filestore:bench");
    let text = format!(
        "for d in $(seq 0 99); do mkdir -p d$d; done; i=0; while [ $i -lt {files} ]; do echo $i > d$((i % 100))/f$i; i=$((i+1)); done"
    );
    run(opened.workspace(), &text);
    wait(opened.workspace().close()).expect("it closes");
    drop(opened);
    std::fs::remove_dir_all(home.join("benches")).expect("what was laid out is removed");
}
