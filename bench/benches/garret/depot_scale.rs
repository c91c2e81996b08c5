//! What grows with the files of a workspace, and what must not: each operation at a hundred files and at a million, in branches of
//! branches, and in a home of ten thousand workspaces.

use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use garret::{
    Batch, Content, Durability, Garret, History, Home, ListOptions, Mutation, OpenContext, Origin, Point, RandomIds,
    ReadOptions, SnapshotOptions, Storage, SystemClock, UndoSelection, WsPath,
};
use garret_depot::{Depot, DepotOptions, DepotWorkspace, NewWorkspace};

const SIZES: [u32; 5] = [100, 1_000, 10_000, 100_000, 1_000_000];
const BATCH: u32 = 10_000;
const TIMES: usize = 15;
const DEPTHS: [u32; 3] = [1, 10, 1_000];
const WORKSPACES: u32 = 10_000;
const EDITS: u32 = 10_000;

/// The tables of this page's part about scale.
pub(crate) async fn section() -> String {
    let mut page = String::from("## The depot at scale\n\n");
    page += &sizes().await;
    page += &depths().await;
    page += &edits().await;
    page += &workspaces().await;
    page
}

fn relaxed() -> DepotOptions {
    DepotOptions {
        durability: Durability::Relaxed,
        ..DepotOptions::default()
    }
}

async fn depot(home: &Path) -> Depot {
    let context = OpenContext {
        clock: Arc::new(SystemClock::default()),
        ids: Arc::new(RandomIds),
        history: garret::HistoryMode::Durable,
    };
    Depot::open(home, relaxed(), context).await.expect("the home opens")
}

async fn room(depot: &Depot, name: &str) -> DepotWorkspace {
    depot.create(NewWorkspace::named(name)).await.expect("the name is free")
}

fn path(text: &str) -> WsPath {
    WsPath::parse(text).expect("it is a path")
}

fn file(number: u32) -> WsPath {
    path(&format!("d{}/e{}/f{number}.txt", number % 100, number / 100 % 100))
}

async fn write(room: &DepotWorkspace, at: WsPath, content: impl Into<Content>) {
    let batch = Batch::from(Mutation::write(at, content));
    room.apply(batch).await.expect("it is written");
}

/// Fills the workspace up to `size` files, many in one change.
async fn fill(room: &DepotWorkspace, from: u32, size: u32) {
    for start in (from..size).step_by(BATCH as usize) {
        let numbers = start..size.min(start + BATCH);
        let mutations = numbers.map(|number| Mutation::write(file(number), format!("content {number}")));
        let batch = Batch {
            mutations: mutations.collect(),
            ..Batch::default()
        };
        room.apply(batch).await.expect("they are written");
    }
}

/// Ten files changed in one change.
async fn touch_ten(room: &DepotWorkspace, turn: usize) {
    let mutations = (0..10).map(|number| Mutation::write(file(number), format!("turn {turn} of {number}")));
    let batch = Batch {
        mutations: mutations.collect(),
        ..Batch::default()
    };
    room.apply(batch).await.expect("they are written");
}

/// The median time of some runs.
struct Times(Vec<Duration>);

impl Times {
    fn new() -> Self {
        Self(Vec::with_capacity(TIMES))
    }

    async fn measure<T>(&mut self, work: impl Future<Output = garret::Result<T>>) -> T {
        let start = Instant::now();
        let done = work.await.expect("it works");
        self.0.push(start.elapsed());
        done
    }

    fn shown(mut self) -> String {
        self.0.sort();
        format!("{:.0} µs", self.0[self.0.len() / 2].as_secs_f64() * 1e6)
    }
}

async fn sizes() -> String {
    let home = tempfile::tempdir().expect("a temporary directory");
    let depot = depot(home.path()).await;
    let room = room(&depot, "box").await;
    let mut table = String::from(
        "Medians, relaxed, in one workspace that grows. Ten files are changed before each diff, and undone.\n\n\
         | files | snapshot | branch | diff of 10 changes | undo of 10 paths | read | first page of a list |\n|---|---|---|---|---|---|---|\n",
    );
    let mut from = 0;
    for size in SIZES {
        fill(&room, from, size).await;
        from = size;
        table += &row(&room, size).await;
    }
    table + "\n"
}

async fn row(room: &DepotWorkspace, size: u32) -> String {
    let [mut snapshot, mut branch, mut diff, mut undo, mut read, mut list] = std::array::from_fn(|_| Times::new());
    for turn in 0..TIMES {
        let label = format!("at{size}-{turn}");
        snapshot
            .measure(History::snapshot(room, &label, SnapshotOptions::default()))
            .await;
        branch
            .measure(History::branch(room, label.as_str().into(), &Point::Now))
            .await;
        touch_ten(room, turn).await;
        let before = Point::Named(label);
        let found = diff
            .measure(History::diff(room, &before, &Point::Now, &WsPath::root()))
            .await;
        assert_eq!(found.len(), 10);
        undo.measure(History::undo(room, UndoSelection::Last(1), Origin::default()))
            .await;
        let at = file(turn as u32 * (size / TIMES as u32));
        read.measure(room.read(&at, ReadOptions::default())).await;
        let page = list.measure(room.list(&WsPath::root(), ListOptions::default())).await;
        assert!(!page.entries.is_empty());
    }
    let shown = [snapshot, branch, diff, undo, read, list].map(Times::shown).join(" | ");
    format!("| {size} | {shown} |\n")
}

async fn depths() -> String {
    let home = tempfile::tempdir().expect("a temporary directory");
    let depot = depot(home.path()).await;
    let mut room = room(&depot, "root").await;
    fill(&room, 0, 1_000).await;
    let mut table = String::from(
        "Reads in branches of branches, of files that the first of them has.\n\n| depth | read | branch off |\n|---|---|---|\n",
    );
    for depth in 1..=DEPTHS[DEPTHS.len() - 1] {
        let name = format!("b{depth}");
        let mut branch = Times::new();
        branch
            .measure(History::branch(&room, name.as_str().into(), &Point::Now))
            .await;
        room = depot.workspace(&name).await.expect("it was just made");
        write(&room, path(&format!("own/{depth}")), "x").await;
        if DEPTHS.contains(&depth) {
            let mut read = Times::new();
            for number in 0..200 {
                read.measure(room.read(&file(number), ReadOptions::default())).await;
            }
            let _ = writeln!(table, "| {depth} | {} | {} |", read.shown(), branch.shown());
        }
    }
    table + "\n"
}

/// Bytes that look like text.
fn text(size: usize, seed: u64) -> Vec<u8> {
    let mut number = seed;
    let mut next = || {
        number = number
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        b"etaoin shrdlucmfwyp.\n"[(number >> 33) as usize % 21]
    };
    (0..size).map(|_| next()).collect()
}

async fn edits() -> String {
    let home = tempfile::tempdir().expect("a temporary directory");
    let depot = depot(home.path()).await;
    let room = room(&depot, "box").await;
    let mut content = text(1024 * 1024, 1);
    let start = Instant::now();
    for edit in 0..EDITS {
        let at = (edit as usize * 7_919 * 1_024) % (content.len() - 1_024);
        content[at..at + 1_024].copy_from_slice(&text(1_024, u64::from(edit) + 2));
        write(&room, path("file"), content.clone()).await;
    }
    let took = start.elapsed();
    drop((room, depot));
    format!(
        "{EDITS} edits of 1 KiB in a file of 1 MiB of text, every version kept: {} MiB ({} MiB of whole copies), {:.1} ms an edit.\n\n",
        size_of(home.path()) >> 20,
        EDITS,
        took.as_secs_f64() * 1e3 / f64::from(EDITS)
    )
}

fn size_of(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory).expect("it can be listed");
    let size = |entry: std::io::Result<std::fs::DirEntry>| {
        let path = entry.expect("it can be listed").path();
        match path.is_dir() {
            true => size_of(&path),
            false => path.metadata().map_or(0, |metadata| metadata.len()),
        }
    };
    entries.map(size).sum()
}

async fn workspaces() -> String {
    let home = tempfile::tempdir().expect("a temporary directory");
    let garret = Garret::new().home(Home::new(home.path()));
    let depot = garret.depot().await.expect("the home opens");
    let start = Instant::now();
    let names: Vec<_> = (0..WORKSPACES).map(|number| format!("w{number}")).collect();
    let made = names.iter().map(|name| depot.create(NewWorkspace::named(name)));
    for created in futures::future::join_all(made).await {
        created.expect("the name is free");
    }
    let made = start.elapsed();
    let before = resident();
    let start = Instant::now();
    let mut open = Vec::new();
    for name in &names {
        let opened = garret.open_named(name).await.expect("it was made");
        let written = opened
            .workspace()
            .write("a.txt", name.clone(), Default::default())
            .await;
        written.expect("it is written");
        open.push(opened);
    }
    let opened = start.elapsed();
    format!(
        "{WORKSPACES} workspaces in one home: {:.0} µs to make each (together), {:.0} µs to open each and write a first file with a sync, \
         {:.1} KiB of memory for each that is open.\n\n",
        made.as_secs_f64() * 1e6 / f64::from(WORKSPACES),
        opened.as_secs_f64() * 1e6 / f64::from(WORKSPACES),
        (resident() - before) as f64 / f64::from(WORKSPACES)
    )
}

/// Memory in use, in KiB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux tells");
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().nth(1));
    number.and_then(|number| number.parse().ok()).expect("Linux tells")
}
