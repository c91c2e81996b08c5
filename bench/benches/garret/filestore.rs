//! Whole programs on a filestore of 10,000 files of 4 KiB: the first command, beside a copy of the files, and a search, beside ripgrep on
//! the same files.

use std::cell::Cell;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use garret::{Garret, Home, WriteOptions};
use tokio::task::block_in_place;

use crate::measure::{Line, at_most, in_changing_turns, in_turns, let_the_disk_rest};
use crate::search::program;

const FILES: u32 = 10_000;
const FOLDERS: u32 = 100;
const BYTES: usize = 4096;
const ROUNDS: usize = 9;
const FIRST_ROUNDS: usize = 3;
const WITHIN_TWICE: &str = "≥ 0.50 (≤ 2 × its time)";
/// A word that one file in a hundred has.
const RARE: &str = "quicksilver";
const WORKSPACE: &str = "box";

pub(crate) async fn lines() -> Vec<Line> {
    block_in_place(let_the_disk_rest);
    let directory = tempfile::tempdir().expect("a temporary directory");
    let place = FilledPlace {
        directory: directory.path().to_owned(),
    };
    place.fill().await;
    block_in_place(|| vec![search(&place), first_command(&place)])
}

/// The same files in a directory and in a filestore.
struct FilledPlace {
    directory: PathBuf,
}

impl FilledPlace {
    fn tree(&self) -> PathBuf {
        self.directory.join("tree")
    }

    fn home(&self) -> PathBuf {
        self.directory.join("home")
    }

    /// A path that nothing is at. Nothing is ever removed to make room: see `snapshot.rs`.
    fn beside(&self, name: &str, round: usize) -> PathBuf {
        self.directory.join(format!("{name}{round}"))
    }

    async fn fill(&self) {
        run(Command::new(program()).arg("--home").arg(self.home()).args([
            "create",
            WORKSPACE,
            "--capability",
            "fs,shell",
        ]));
        let garret = Garret::new().home(Home::new(self.home()));
        let url = format!("filestore:{WORKSPACE}");
        let opened = garret.open_url(&url).await.expect("the workspace opens");
        for folder in 0..FOLDERS {
            std::fs::create_dir_all(self.tree().join(format!("d{folder}"))).expect("it is made");
        }
        for number in 0..at_most(FILES) {
            let (name, content) = (format!("d{}/f{number}.txt", number % FOLDERS), content(number));
            std::fs::write(self.tree().join(&name), &content).expect("it is written");
            let written = opened.workspace().write(&name, content, WriteOptions::default()).await;
            written.expect("it is written");
        }
    }

    /// Garret on the filestore.
    fn garret(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(program());
        command
            .args(["-w", WORKSPACE, "--home"])
            .arg(self.home())
            .args(arguments);
        command
    }
}

fn content(number: u32) -> Vec<u8> {
    let word = if number % 100 == 7 { RARE } else { "ordinary" };
    let lines = (0..).map(|line| format!("{number}: line {line} of a file, with {word} words of a text\n"));
    let mut content = Vec::with_capacity(BYTES + 80);
    for line in lines {
        content.extend(line.into_bytes());
        if content.len() >= BYTES {
            break;
        }
    }
    content.truncate(BYTES);
    content
}

fn run(command: &mut Command) {
    // Cargo has programs look for their libraries in its own directories first.
    let command = command.env_remove("LD_LIBRARY_PATH").stdin(Stdio::null());
    let status = command.stdout(Stdio::null()).status();
    assert!(status.expect("the program is installed").success(), "{command:?}");
}

fn line(what: String, floor_name: &'static str, floor: Duration, garret: Duration) -> Line {
    Line {
        what,
        floor_name,
        aim: WITHIN_TWICE,
        floor,
        garret,
        operations: 1,
    }
}

fn search(place: &FilledPlace) -> Line {
    let mut rg = || {
        let mut command = Command::new("rg");
        command.args(["--hidden", "--no-config", "--line-number", "--no-heading", RARE, "."]);
        run(command.current_dir(place.tree()));
    };
    let mut garret = || run(&mut place.garret(&["grep", "--limit", "10000000", RARE]));
    let times = in_changing_turns(ROUNDS, |_| (), &mut [&mut rg, &mut garret]);
    let what = format!("`garret grep` on a filestore, {} files of 4 KiB", at_most(FILES));
    line(what, "`rg` on the same files", times[0], times[1])
}

fn first_command(place: &FilledPlace) -> Line {
    let round = Cell::new(0);
    let mut copy = || {
        let to = place.beside("copy", round.get());
        run(Command::new("cp").arg("-r").arg(place.tree()).arg(to));
    };
    let mut garret = || run(&mut place.garret(&["run", "true"]));
    // What was laid out is moved away, so that each round finds nothing.
    let prepare = |number| {
        round.set(number);
        let benches = place.home().join("benches");
        if benches.exists() {
            std::fs::rename(benches, place.beside("benches", number)).expect("it is moved");
        }
    };
    let [copy, garret] = in_turns(FIRST_ROUNDS, prepare, [&mut copy, &mut garret]);
    let what = format!(
        "the first command on a filestore, nothing laid out, {} files of 4 KiB",
        at_most(FILES)
    );
    line(what, "`cp -r` of the same files", copy, garret)
}
