//! Commits that fail in their middle while another process works on the same home: no file of this one may grow beyond a limit, which
//! is reached when a part of the pages of a commit is in the log. The other has no such limit, and commits where they would have been.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;

use garret_core::{Batch, Mutation, Storage};
use garret_depot::{Depot, DepotWorkspace, NewWorkspace};
use garret_testkit::mutations::write;
use garret_testkit::{Probe, Tree};

use crate::limited::{IGNORING, set_limit};
use crate::work::{block_on, check_error, noise, open};
use crate::{INSIDE, say, scratch, start};

/// As many bytes of a commit are written at once, or a few more.
const RUN: u64 = 64 * 1024;

pub(crate) fn run() {
    let directory = scratch();
    start(
        &IGNORING,
        &["beside", directory.path().to_str().expect("its path is UTF-8")],
    );
}

/// The other process: writes the file whose name it is told; tells what it sees after each.
pub(crate) fn other(home: &Path) {
    block_on(async {
        let desk = Desk::open(home).await;
        for line in std::io::stdin().lines() {
            for name in line.expect("it is text").split_whitespace() {
                desk.room
                    .apply(write(name, noise(name.len(), 9_000)).into())
                    .await
                    .expect("its disk is well");
            }
            say(&sum(&desk.tree().await));
        }
    });
}

fn sum(tree: &Tree) -> String {
    blake3::hash(format!("{tree:?}").as_bytes()).to_hex().to_string()
}

struct Other {
    child: Child,
    told: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Other {
    fn start(home: &Path) -> Self {
        let program = std::env::current_exe().expect("this program has a file");
        let mut child = Command::new(program)
            .args([INSIDE, "beside-other"])
            .arg(home)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("this program can be started");
        let told = child.stdin.take().expect("it was asked for");
        let answers = BufReader::new(child.stdout.take().expect("it was asked for"));
        Self { child, told, answers }
    }

    /// Has it write these files; it goes to work at once.
    fn tell(&mut self, names: &str) {
        writeln!(self.told, "{names}").expect("it listens");
    }

    /// What it sees when it has done what it was told.
    fn answer(&mut self) -> String {
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("it answers");
        line.trim().to_owned()
    }

    fn write(&mut self, names: &str) -> String {
        self.tell(names);
        self.answer()
    }

    fn end(mut self) {
        drop(self.told);
        assert!(self.child.wait().expect("it was started").success());
    }
}

/// This process at work on a home.
struct Desk {
    home: PathBuf,
    depot: Depot,
    room: DepotWorkspace,
}

impl Desk {
    async fn open(home: &Path) -> Self {
        let depot = open(home).await.expect("its disk is well");
        let room = depot.workspace("box").await.expect("it is there");
        let home = home.to_owned();
        Self { home, depot, room }
    }

    async fn tree(&self) -> Tree {
        Probe::new(Arc::new(self.room.clone()), None).tree().await
    }

    fn log(&self) -> u64 {
        let found = std::fs::metadata(self.home.join("depot.db-wal"));
        found.expect("there is a log").len()
    }

    fn has_shown(&self, error: &garret_core::Error) {
        check_error(
            error,
            self.home.parent().and_then(Path::to_str).expect("its path is UTF-8"),
        );
    }

    /// A change of many pages fails, since no file may grow so far.
    async fn fails(&self, round: usize) {
        let failed = self.room.apply(large(round)).await;
        self.has_shown(&failed.expect_err("there is no room for it"));
    }

    async fn is_sound(&self) {
        assert_eq!(self.depot.check().await.expect("it can be looked over"), []);
        let plain = rusqlite::Connection::open(self.home.join("depot.db")).expect("it is a database");
        let word = plain.query_row("PRAGMA integrity_check", [], |row| row.get::<_, String>(0));
        assert_eq!(word.as_deref(), Ok("ok"));
    }
}

/// Six hundred thousand bytes that go into the log.
fn large(round: usize) -> Batch {
    batch((0..20).map(|file| write(&format!("large/{file}"), noise(round * 100 + file, 30_000))))
}

fn batch(mutations: impl Iterator<Item = Mutation>) -> Batch {
    Batch {
        mutations: mutations.collect(),
        ..Batch::default()
    }
}

pub(crate) fn inside(directory: &Path) {
    block_on(async {
        let home = directory.join("home");
        let depot = open(&home).await.expect("the disk is still well");
        drop(
            depot
                .create(NewWorkspace::named("box"))
                .await
                .expect("the disk is still well"),
        );
        drop(depot);
        let desk = Desk::open(&home).await;
        let mut other = Other::start(&home);
        one_after_the_other(&desk, &mut other).await;
        at_the_same_time(&desk, &mut other).await;
        many_together(&desk, &mut other).await;
        let seen = sum(&desk.tree().await);
        assert_eq!(other.write(""), seen);
        other.end();
        drop(desk);
        let again = Desk::open(&home).await;
        assert_eq!(sum(&again.tree().await), seen, "reopened, it is not what it was");
        again.is_sound().await;
    });
}

/// What the other commits lies where the pages of the commit that failed would have been.
async fn one_after_the_other(desk: &Desk, other: &mut Other) {
    // Within the second run, at its end, within later ones, within the first.
    let rooms = [RUN + 9_000, 2 * RUN, 4 * RUN + 77, 7 * RUN + 40_000, 20_000];
    for (round, room) in rooms.into_iter().enumerate() {
        let before = sum(&desk.tree().await);
        let log = desk.log();
        set_limit(&(log + room).to_string());
        desk.fails(round).await;
        set_limit("unlimited");
        assert_eq!(desk.log(), log + room, "so much of it was written");
        assert_eq!(sum(&desk.tree().await), before, "of what failed, something is seen");
        assert_eq!(other.write(""), before, "of what failed, another sees something");
        let theirs = other.write(&format!("theirs/{round}"));
        assert_ne!(theirs, before);
        assert_eq!(sum(&desk.tree().await), theirs, "what the other did is not seen");
        desk.is_sound().await;
        desk.room.apply(large(round)).await.expect("there is room again");
        assert_eq!(other.write(""), sum(&desk.tree().await));
    }
    say(&format!(
        "commits that fail beside another process: {} of them, nothing lost",
        rooms.len()
    ));
}

async fn at_the_same_time(desk: &Desk, other: &mut Other) {
    let mut before = desk.tree().await;
    let names: Vec<String> = (0..60).map(|file| format!("meanwhile/{file}")).collect();
    other.tell(&names.join(" "));
    set_limit(&(desk.log() + RUN + 10_000).to_string());
    for round in 0..20 {
        desk.fails(1_000 + round).await;
    }
    set_limit("unlimited");
    let theirs = other.answer();
    let after = desk.tree().await;
    assert_eq!(sum(&after), theirs);
    assert!(
        names.iter().all(|name| after.contains_key(name)),
        "what the other did is lost"
    );
    before.extend(
        after
            .clone()
            .into_iter()
            .filter(|(path, _)| path.starts_with("meanwhile")),
    );
    assert!(before == after, "of what failed, something is seen");
    desk.is_sound().await;
}

/// More than SQLite keeps in memory, all in one transaction, which fails before its commit.
async fn many_together(desk: &Desk, other: &mut Other) {
    let before = sum(&desk.tree().await);
    let change = |number: usize| {
        let files = (0..2).map(move |file| write(&format!("many/{number}/{file}"), noise(number * 2 + file, 30_000)));
        desk.room.apply(batch(files))
    };
    // Nobody gives the writer its turn before all of them wait for it.
    let turns = File::open(desk.home.join("depot.lock")).expect("the lock file is there");
    turns.lock().expect("nobody has it for long");
    let mut waiting: Vec<_> = (0..250).map(|number| Box::pin(change(number))).collect();
    for change in &mut waiting {
        assert!(futures::poll!(change.as_mut()).is_pending());
    }
    set_limit(&(desk.log() + 1_000_000).to_string());
    turns.unlock().expect("it is ours");
    for change in waiting {
        desk.has_shown(&change.await.expect_err("there is no room for it"));
    }
    set_limit("unlimited");
    assert_eq!(sum(&desk.tree().await), before, "of what failed, something is seen");
    assert_eq!(other.write(""), before, "of what failed, another sees something");
    desk.is_sound().await;
    say("changes of one group that fails: each is told why, nothing lost");
}
