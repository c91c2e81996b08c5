//! A snapshot of 10,000 small files beside what people do without one: `git commit`, `git status` to see what changed, `cp -r`.
//!
//! Git keeps its own files outside the tree, so that all of them look at the same one. Git and cp are programs; Garret is measured as a
//! library, and where it does comparable work, as a program, too.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use garret::{Batch, Garret, Home, Mutation, SnapshotOptions, Storage, Workspace, WriteOptions, WsPath};
use garret_depot::NewWorkspace;
use tokio::task::block_in_place;

use crate::measure::{Line, at_most, in_turns};
use crate::search::program;

const FILES: u32 = 10_000;
const CHANGED: u32 = 10;
const ROUNDS: usize = 9;
const FIRST_ROUNDS: usize = 3;

const STATUS: &str = "`git status`";
const COMMIT: &str = "`git add -A && git commit`";
const WITHIN_TWICE: &str = "≥ 0.50 (≤ 2 × its time)";

pub(crate) async fn lines() -> Vec<Line> {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let place = Place::fill(directory.path());
    let mut lines = block_in_place(|| first(&place));
    let ready = Ready::open(&place).await;
    lines.extend(block_in_place(|| unchanged(&ready)));
    lines.extend(block_in_place(|| changed(&ready)));
    lines
}

fn wait<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Handle::current().block_on(future)
}

fn name(number: u32) -> String {
    format!("d{}/f{number}.txt", number % 100)
}

fn content(number: u32, round: usize) -> String {
    format!("file {number} round {round}\n").repeat(40)
}

fn line(what: &str, floor_name: &'static str, aim: &'static str, floor: Duration, garret: Duration) -> Line {
    Line {
        what: format!("{what}, {} files", at_most(FILES)),
        floor_name,
        aim,
        floor,
        garret,
        operations: 1,
    }
}

/// The tree, and room beside it.
struct Place<'a> {
    directory: &'a Path,
    tree: PathBuf,
}

impl<'a> Place<'a> {
    fn fill(directory: &'a Path) -> Self {
        let tree = directory.join("tree");
        for folder in 0..100 {
            std::fs::create_dir_all(tree.join(format!("d{folder}"))).expect("it is made");
        }
        let place = Self { directory, tree };
        (0..at_most(FILES)).for_each(|number| place.write(number, 0));
        // Files as young as an index must be read again by whoever trusts times.
        std::thread::sleep(Duration::from_millis(1_100));
        place
    }

    fn write(&self, number: u32, round: usize) {
        std::fs::write(self.tree.join(name(number)), content(number, round)).expect("it is written");
    }

    /// A path beside the tree that nothing is at. Nothing is ever removed to make room: where thousands of files have just been
    /// deleted, ext4 looks long for a place for new ones, and whoever writes many files next would pay for it.
    fn beside(&self, name: &str, round: usize) -> PathBuf {
        let path = self.directory.join(format!("{name}{round}"));
        assert!(!path.exists(), "each round has a place of its own");
        path
    }

    fn copy(&self, to: &Path) {
        run(Command::new("cp")
            .args(["-r", "--reflink=auto"])
            .arg(&self.tree)
            .arg(to));
    }

    /// What `cp` is called here.
    fn copy_name(&self) -> &'static str {
        let mut probe = Command::new("cp");
        probe.arg("--reflink=always").arg(self.tree.join(name(0)));
        let probe = probe.arg(self.directory.join("probe")).stderr(Stdio::null()).status();
        match probe.is_ok_and(|status| status.success()) {
            true => "`cp -r --reflink=auto`",
            false => "`cp -r --reflink=auto` (no reflinks on this disk)",
        }
    }

    async fn open(&self, home: &Path) -> Workspace {
        let garret = Garret::new().home(Home::new(home));
        let opened = garret.open_dir(&self.tree).await.expect("the directory opens");
        opened.workspace().clone()
    }
}

/// A repository of the tree, kept beside it.
struct Git<'a> {
    repository: PathBuf,
    tree: &'a Path,
}

impl Git<'_> {
    fn run(&self, arguments: &[&str]) {
        let settings = ["user.name=bench", "user.email=bench@localhost", "gc.auto=0"];
        let mut command = Command::new("git");
        command.arg("--git-dir").arg(&self.repository);
        command.arg("--work-tree").arg(self.tree).current_dir(self.tree);
        command
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null");
        command.args(settings.iter().flat_map(|setting| ["-c", setting]));
        run(command.args(arguments));
    }

    fn commit(&self) {
        self.run(&["add", "-A"]);
        self.run(&["commit", "--quiet", "-m", "snapshot"]);
    }
}

fn run(command: &mut Command) {
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status();
    assert!(status.expect("the program is installed").success(), "{command:?}");
}

async fn snapshot(workspace: &Workspace, label: &str) {
    let taken = workspace.snapshot(label, SnapshotOptions::default()).await;
    taken.expect("the label is free");
}

/// Everything is new: each round has a place of its own.
fn first(place: &Place) -> Vec<Line> {
    let round = Cell::new(0);
    let mut git = || {
        let git = Git {
            repository: place.beside("first-git", round.get()),
            tree: &place.tree,
        };
        git.run(&["init", "--quiet"]);
        git.commit();
    };
    let mut copy = || place.copy(&place.beside("first-copy", round.get()));
    let mut garret = || {
        wait(async {
            let workspace = place.open(&place.beside("first-home", round.get())).await;
            snapshot(&workspace, "first").await;
        })
    };
    let next = |number| round.set(number);
    let [git, copy, garret] = in_turns(FIRST_ROUNDS, next, [&mut git, &mut copy, &mut garret]);
    let what = "first snapshot of a directory";
    vec![
        line(what, "`git init && git add -A && git commit`", "", git, garret),
        line(what, place.copy_name(), "", copy, garret),
    ]
}

/// All that was met once.
struct Ready<'a> {
    place: &'a Place<'a>,
    git: Git<'a>,
    directory: Workspace,
    home_of_program: PathBuf,
    filestore: Workspace,
}

impl<'a> Ready<'a> {
    async fn open(place: &'a Place<'a>) -> Self {
        let home = place.beside("home", 0);
        let ready = Self {
            place,
            git: Git {
                repository: place.beside("git", 0),
                tree: &place.tree,
            },
            directory: place.open(&home).await,
            home_of_program: place.beside("home-of-program", 0),
            filestore: filestore(&place.beside("home-of-filestore", 0)).await,
        };
        ready.git.run(&["init", "--quiet"]);
        ready.git.commit();
        snapshot(&ready.directory, "first").await;
        ready.snapshot_by_program("first");
        ready
    }

    fn snapshot_by_program(&self, label: &str) {
        let mut command = Command::new(program());
        command
            .arg("--home")
            .arg(&self.home_of_program)
            .arg("-w")
            .arg(&self.place.tree);
        run(command.args(["snapshot", "create", label]));
    }

    fn status(&self) {
        self.git.run(&["status", "--porcelain"]);
    }

    /// The same few changes in the tree and in the filestore.
    fn change(&self, round: usize) {
        for number in (0..at_most(FILES)).step_by((at_most(FILES) / CHANGED) as usize) {
            self.place.write(number, round + 1);
            let content = content(number, round + 1);
            let written = wait(self.filestore.write(&name(number), content, WriteOptions::default()));
            written.expect("it is written");
        }
    }
}

/// A filestore with the files of the tree.
async fn filestore(home: &Path) -> Workspace {
    let garret = Garret::new().home(Home::new(home));
    let depot = garret.depot().await.expect("the home opens");
    let room = depot
        .create(NewWorkspace::named("box"))
        .await
        .expect("the name is free");
    let path = |number| WsPath::parse(&name(number)).expect("it is a path");
    let mutations = (0..at_most(FILES)).map(|number| Mutation::write(path(number), content(number, 0)));
    let batch = Batch {
        mutations: mutations.collect(),
        ..Batch::default()
    };
    room.apply(batch).await.expect("they are written");
    garret.open_named("box").await.expect("it was made").workspace().clone()
}

fn unchanged(ready: &Ready) -> Vec<Line> {
    let round = Cell::new(0);
    let label = || format!("same{}", round.get());
    let [status, library, program] = in_turns(
        ROUNDS,
        |number| round.set(number),
        [
            &mut || ready.status(),
            &mut || wait(snapshot(&ready.directory, &label())),
            &mut || ready.snapshot_by_program(&label()),
        ],
    );
    let what = "second snapshot of a directory, nothing changed";
    let as_program = format!("{what}, by `garret snapshot`");
    vec![
        line(what, STATUS, WITHIN_TWICE, status, library),
        line(&as_program, STATUS, WITHIN_TWICE, status, program),
    ]
}

fn changed(ready: &Ready) -> Vec<Line> {
    let round = Cell::new(0);
    let label = || format!("changed{}", round.get());
    let prepare = |number| {
        round.set(number);
        ready.change(number);
    };
    let [status, commit, copy, library, program, filestore] = in_turns(
        ROUNDS,
        prepare,
        [
            &mut || ready.status(),
            &mut || ready.git.commit(),
            &mut || ready.place.copy(&ready.place.beside("copy", round.get())),
            &mut || wait(snapshot(&ready.directory, &label())),
            &mut || ready.snapshot_by_program(&label()),
            &mut || wait(snapshot(&ready.filestore, &label())),
        ],
    );
    let what = format!("snapshot of a directory, {CHANGED} changed");
    let as_program = format!("{what}, by `garret snapshot`");
    let in_filestore = format!("snapshot of a filestore, {CHANGED} changed");
    let copy_name = ready.place.copy_name();
    vec![
        line(&what, STATUS, WITHIN_TWICE, status, library),
        line(&as_program, STATUS, WITHIN_TWICE, status, program),
        line(&what, COMMIT, "", commit, library),
        line(&as_program, COMMIT, "", commit, program),
        line(&what, copy_name, "", copy, library),
        line(&in_filestore, COMMIT, "", commit, filestore),
        line(&in_filestore, copy_name, "", copy, filestore),
    ]
}
