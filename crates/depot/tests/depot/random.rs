//! Random work with undo, redo, restore, branch, merge, snapshots, retention, collection, flattening and reopening, against a plain model: whole trees, one for each change.
//!
//! What a batch does is asked of the reference storage, made anew with the tree before it; everything that history says and does is
//! computed from the trees in the simplest way there is.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use garret_core::{
    ErrorKind, MemoryStorage, Mutation, Origin, PathChange, PathExpectation, PathPut, PlacedEntry, PutBatch,
    RetentionLimits, SystemClock, Timestamp, WsPath,
};
use garret_depot::{Depot, NewWorkspace, Point, ReversalOutcome, UndoSelection};
use garret_testkit::fixture::block_on;
use garret_testkit::mutations::{
    copy_into, link, make_dirs, remove_tree, rename_into, rename_over, set_mode, write, write_mode,
};
use garret_testkit::tree::{differing, is_whole, three_way};
use garret_testkit::{Node, Probe, Tree};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::depot::support::{Desk, in_memory, on_disk, scratch};

#[derive(Debug, Clone)]
enum Op {
    Change(Vec<Mutation>),
    Undo(usize),
    UndoOne(usize),
    Redo,
    Restore(usize),
    Branch(usize),
    Switch(usize),
    Merge(usize),
    Flatten,
    Reopen,
    Snapshot(usize),
    DropSnapshot(usize),
    Retain(usize),
    Collect,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sort {
    Work,
    Undo,
    Redo,
}

#[derive(Debug)]
struct Logged {
    sort: Sort,
    reverses: Vec<usize>,
}

/// A workspace as the model has it: the tree after each change, from the beginning, and what each change was.
#[derive(Debug)]
struct Room {
    id: String,
    trees: Vec<Tree>,
    log: Vec<Logged>,
    /// The number of the oldest state that retention left.
    oldest: usize,
    /// Labels, each with the number of its state, which stays whatever retention does.
    snapshots: BTreeMap<String, usize>,
    /// The numbers at which branches begin, and those that were merged elsewhere, where a next merge begins.
    forks: BTreeSet<usize>,
}

impl Room {
    fn beginning(id: &str, tree: Tree) -> Self {
        Self {
            id: id.to_owned(),
            trees: vec![tree],
            log: Vec::new(),
            oldest: 0,
            snapshots: BTreeMap::new(),
            forks: BTreeSet::new(),
        }
    }

    fn now(&self) -> &Tree {
        self.trees.last().expect("there is a beginning")
    }

    fn push(&mut self, tree: Tree, sort: Sort, reverses: Vec<usize>) {
        self.trees.push(tree);
        self.log.push(Logged { sort, reverses });
    }

    fn logged(&self, number: usize) -> &Logged {
        &self.log[number - 1]
    }

    /// The changes that the journal still has.
    fn numbers(&self) -> impl DoubleEndedIterator<Item = usize> {
        self.oldest + 1..=self.log.len()
    }

    /// The state with that number, or one near it that is kept.
    fn kept(&self, index: usize) -> usize {
        self.oldest + index % (self.log.len() + 1 - self.oldest)
    }

    /// Whether nothing but its number could keep the state.
    fn is_dropped(&self, number: usize) -> bool {
        number < self.oldest && !self.forks.contains(&number) && !self.snapshots.values().any(|held| *held == number)
    }

    /// A change is undone where a change that stands reverses it.
    fn is_undone(&self, number: usize) -> bool {
        self.numbers()
            .any(|other| self.logged(other).reverses.contains(&number) && !self.is_undone(other))
    }

    fn last_standing(&self, count: usize) -> Vec<usize> {
        let is_standing = |number: &usize| self.logged(*number).sort == Sort::Work && !self.is_undone(*number);
        self.numbers().rev().filter(is_standing).take(count).collect()
    }

    fn redoable(&self) -> Option<usize> {
        let since = self
            .numbers()
            .rev()
            .take_while(|number| self.logged(*number).sort != Sort::Work);
        let is_undo = |number: &usize| self.logged(*number).sort == Sort::Undo && !self.is_undone(*number);
        since.into_iter().find(is_undo)
    }

    /// The tree without what `targets`, newest first, did; `None` where something is in the way.
    fn without(&self, targets: &[usize]) -> Option<Tree> {
        let mut tree = self.now().clone();
        for target in targets {
            let (before, after) = (&self.trees[target - 1], &self.trees[*target]);
            for path in differing(before, after) {
                if tree.get(&path) != after.get(&path) {
                    return None;
                }
                match before.get(&path) {
                    Some(node) => tree.insert(path, node.clone()),
                    None => tree.remove(&path),
                };
            }
        }
        is_whole(&tree).then_some(tree)
    }
}

/// What the reference storage makes of `mutations` on `tree`.
async fn reference(tree: &Tree, mutations: &[Mutation]) -> (Result<(), ErrorKind>, Tree) {
    let probe = Probe::new(Arc::new(MemoryStorage::new(Arc::new(SystemClock::default()))), None);
    for (path, node) in tree {
        match node {
            Node::File { content, mode } => {
                probe
                    .apply(write_mode(path, content.clone(), mode.expect("modes are kept")))
                    .await;
            }
            Node::Directory { mode } => {
                probe
                    .batch(vec![make_dirs(path), set_mode(path, mode.expect("modes are kept"))])
                    .await;
            }
            Node::Symlink { target } => {
                probe.apply(link(path, target)).await;
            }
            Node::Other => panic!("a depot holds no {node:?}"),
        }
    }
    let outcome = probe.try_batch(mutations.to_vec()).await;
    let outcome = outcome.map(|_| ()).map_err(|error| error.kind());
    (outcome, probe.tree().await)
}

struct Run {
    home: Option<tempfile::TempDir>,
    depot: Depot,
    rooms: Vec<Room>,
    current: usize,
}

impl Run {
    async fn start(is_on_disk: bool) -> Self {
        let home = is_on_disk.then(scratch);
        let depot = match &home {
            Some(home) => on_disk(home.path()).await,
            None => in_memory(),
        };
        let first = depot.create(NewWorkspace::unnamed()).await.expect("it needs no name");
        Self {
            home,
            depot,
            rooms: vec![Room::beginning(first.id(), Tree::new())],
            current: 0,
        }
    }

    fn room(&self) -> &Room {
        &self.rooms[self.current]
    }

    fn room_mut(&mut self) -> &mut Room {
        &mut self.rooms[self.current]
    }

    async fn desk_of(&self, room: &Room) -> Desk {
        Desk::over(self.depot.workspace(&room.id).await.expect("it is there"))
    }

    async fn desk(&self) -> Desk {
        self.desk_of(self.room()).await
    }

    async fn step(&mut self, op: &Op) {
        let desk = self.desk().await;
        let count = self.room().log.len();
        match op {
            Op::Change(mutations) => {
                let (wanted, tree) = reference(self.room().now(), mutations).await;
                let outcome = desk.probe.try_batch(mutations.clone()).await;
                assert_eq!(
                    outcome.map(|_| ()).map_err(|error| error.kind()),
                    wanted,
                    "of {mutations:?}"
                );
                let head = desk.room.describe().await.expect("it is there").head as usize;
                match head - count {
                    0 => assert_eq!(tree, *self.room().now(), "a tree changes without a change"),
                    1 if wanted.is_ok() => self.room_mut().push(tree, Sort::Work, Vec::new()),
                    more => panic!("{mutations:?} left {more} changes"),
                }
            }
            Op::Undo(number) => {
                let targets = self.room().last_standing(*number);
                let outcome = desk.room.undo(UndoSelection::Last(*number), Origin::default()).await;
                self.reversed(outcome, targets, Sort::Undo);
            }
            Op::UndoOne(index) if count > self.room().oldest => {
                let oldest = self.room().oldest;
                let number = oldest + index % (count - oldest) + 1;
                let (change, _) = desk
                    .room
                    .change(&Point::Number(number as u64))
                    .await
                    .expect("it is there");
                let outcome = desk
                    .room
                    .undo(UndoSelection::Change(change.id), Origin::default())
                    .await;
                if self.room().is_undone(number) {
                    assert_eq!(outcome.expect_err("it is undone").kind(), ErrorKind::Invalid);
                    return;
                }
                let sort = if self.room().logged(number).sort == Sort::Undo {
                    Sort::Redo
                } else {
                    Sort::Undo
                };
                self.reversed(outcome, vec![number], sort);
            }
            Op::Redo => {
                let targets = self.room().redoable().into_iter().collect();
                let outcome = desk.room.redo(Origin::default()).await;
                self.reversed(outcome, targets, Sort::Redo);
            }
            Op::Restore(index) => {
                let number = self.room().kept(*index);
                let wanted = self.room().trees[number].clone();
                let point = Point::Number(number as u64);
                let change = desk.room.restore(point, &WsPath::root(), Origin::default()).await;
                assert_eq!(
                    change.expect("it can be restored").is_some(),
                    wanted != *self.room().now()
                );
                if wanted != *self.room().now() {
                    self.room_mut().push(wanted, Sort::Work, Vec::new());
                }
            }
            Op::Branch(index) => {
                let number = self.room().kept(*index);
                let point = Point::Number(number as u64);
                let branch = desk
                    .room
                    .branch(NewWorkspace::unnamed(), &point)
                    .await
                    .expect("it needs no name");
                let tree = self.room().trees[number].clone();
                self.room_mut().forks.insert(number);
                let mut room = Room::beginning(branch.id(), tree);
                // What it begins with is kept by the workspace it was branched off.
                room.forks.insert(0);
                self.rooms.push(room);
                self.current = self.rooms.len() - 1;
            }
            Op::Switch(index) => self.current = index % self.rooms.len(),
            Op::Merge(index) if index % self.rooms.len() != self.current => {
                self.merge(&desk, index % self.rooms.len()).await
            }
            Op::Flatten => desk.room.flatten().await.expect("it can be flattened"),
            Op::Reopen => {
                drop(desk);
                if let Some(home) = &self.home {
                    self.depot = in_memory();
                    self.depot = on_disk(home.path()).await;
                }
            }
            Op::Snapshot(index) => {
                let (number, label) = (self.room().kept(*index), format!("s{}", index % 5));
                let taken = desk.room.snapshot(&label, Point::Number(number as u64)).await;
                match self.room().snapshots.contains_key(&label) {
                    true => assert_eq!(taken.expect_err("it is taken").kind(), ErrorKind::AlreadyExists),
                    false => {
                        taken.expect("the label is free");
                        self.room_mut().snapshots.insert(label, number);
                    }
                }
            }
            Op::DropSnapshot(index) => {
                let label = format!("s{}", index % 5);
                let dropped = desk.room.delete_snapshot(&label).await;
                assert_eq!(dropped.is_ok(), self.room_mut().snapshots.remove(&label).is_some());
            }
            Op::Retain(changes) => {
                let keep = RetentionLimits {
                    changes: Some(*changes as u64),
                    ..RetentionLimits::default()
                };
                desk.room
                    .retain(&keep, Timestamp::UNIX_EPOCH)
                    .await
                    .expect("it can be retained");
                let oldest = count.saturating_sub(*changes).max(self.room().oldest);
                self.room_mut().oldest = oldest;
            }
            Op::Collect => {
                self.depot.collect(Duration::ZERO).await.expect("it can be collected");
            }
            Op::UndoOne(_) | Op::Merge(_) => {}
        }
    }

    /// Merges the workspace with that index into the current one, by path, with ours where both changed something.
    async fn merge(&mut self, desk: &Desk, other: usize) {
        let merging = desk
            .room
            .merging(&self.rooms[other].id)
            .await
            .expect("all have one origin");
        let base = Probe::new(merging.base.clone(), None).tree().await;
        let (ours, theirs) = (self.room().now().clone(), self.rooms[other].now().clone());
        for (side, tree) in [(&merging.ours, &ours), (&merging.theirs, &theirs)] {
            let told: BTreeSet<_> = side.changes.iter().map(|change| change.path.display_path()).collect();
            assert_eq!(told, differing(&base, tree), "what {} did since the base", side.name);
        }
        let is_a_state = |room: &Room| room.trees.contains(&base);
        assert!(self.rooms.iter().any(is_a_state), "the base is a state that was");
        let Some(merged) = three_way(&base, &ours, &theirs) else {
            return;
        };
        let is_taken = |change: &&PathChange| {
            let path = change.path.display_path();
            ours.get(&path) == base.get(&path)
        };
        let put = |change: &PathChange| PathPut {
            path: change.path.clone(),
            expected: PathExpectation::Is(change.before.clone()),
            placed: change.after.clone().map_or(PlacedEntry::Nothing, PlacedEntry::Image),
        };
        let puts = PutBatch {
            puts: merging.theirs.changes.iter().filter(is_taken).map(put).collect(),
            moves: merging.theirs.moves.clone(),
            merged: Some(merging.point),
            ..PutBatch::default()
        };
        let change = desk.room.put(puts, Origin::default()).await.expect("nothing clashes");
        assert_eq!(change.is_some(), merged != ours);
        let held = self.rooms[other].log.len();
        self.rooms[other].forks.insert(held);
        if merged != ours {
            self.room_mut().push(merged, Sort::Work, Vec::new());
        }
        let again = desk.room.merging(&self.rooms[other].id).await.expect("they have met");
        assert_eq!(again.theirs.changes, [], "what was merged is not merged again");
    }

    /// Compares what became of a reversal with what the model says.
    fn reversed(&mut self, outcome: garret_core::Result<ReversalOutcome>, targets: Vec<usize>, sort: Sort) {
        if targets.is_empty() {
            assert_eq!(
                outcome.expect_err("there is no change to undo or redo").kind(),
                ErrorKind::NotFound
            );
            return;
        }
        let wanted = self.room().without(&targets);
        match (outcome.expect("there is something to reverse"), wanted) {
            (ReversalOutcome::Done(_), Some(tree)) => self.room_mut().push(tree, sort, targets),
            (ReversalOutcome::Clashed(clashes), None) => assert!(!clashes.is_empty()),
            (real, model) => panic!("reversing {targets:?} gives {real:?}, the model has {model:?}"),
        }
    }

    /// Compares every point of every workspace, and the differences between neighbours and ends.
    async fn compare_everything(&self) {
        for room in &self.rooms {
            let desk = self.desk_of(room).await;
            assert_eq!(desk.probe.tree().await, *room.now());
            for (number, tree) in room.trees.iter().enumerate() {
                let point = Point::Number(number as u64);
                match number < room.oldest {
                    false => assert_eq!(desk.tree_at(&point).await, *tree, "at {number}"),
                    true if room.is_dropped(number) => {
                        let error = desk.room.open_view_at(&point).await.expect_err("retention dropped it");
                        assert_eq!(error.kind(), ErrorKind::NotFound);
                    }
                    true => {}
                }
            }
            for (label, number) in &room.snapshots {
                let tree = desk.tree_at(&Point::Snapshot(label.clone())).await;
                assert_eq!(tree, room.trees[*number], "the snapshot {label} of {number}");
            }
            let (first, last) = (room.oldest, room.trees.len() - 1);
            let pairs = (first..last).map(|number| (number, number + 1)).chain([
                (first, last),
                (last, first),
                (first.midpoint(last), last),
            ]);
            for (from, to) in pairs {
                let points = (Point::Number(from as u64), Point::Number(to as u64));
                let real = desk
                    .room
                    .diff(&points.0, &points.1, &WsPath::root())
                    .await
                    .expect("both are there");
                let real: BTreeSet<_> = real.iter().map(|one| one.path.display_path()).collect();
                assert_eq!(
                    real,
                    differing(&room.trees[from], &room.trees[to]),
                    "from {from} to {to}"
                );
            }
        }
        assert_eq!(self.depot.check().await.expect("it can be looked over"), []);
        let (first, current) = (&self.rooms[0], self.room());
        let (one, other) = (self.desk_of(first).await, self.desk_of(current).await);
        let real = one
            .room
            .diff_with(&other.room, &WsPath::root())
            .await
            .expect("both are there");
        let real: BTreeSet<_> = real.iter().map(|one| one.path.display_path()).collect();
        assert_eq!(real, differing(first.now(), current.now()), "between two workspaces");
    }
}

fn path() -> impl Strategy<Value = String> {
    vec(prop_oneof![3 => Just("a"), 2 => Just("b"), 1 => Just("a-b")], 1..=3).prop_map(|names| names.join("/"))
}

fn content() -> impl Strategy<Value = Bytes> {
    // Some of it is too long to be kept inline.
    prop_oneof![4 => "[xyz]{0,2}".prop_map(Bytes::from), 1 => (0..4_u8).prop_map(|byte| vec![byte; 3_000].into())]
}

fn mutation() -> impl Strategy<Value = Mutation> {
    prop_oneof![
        6 => (path(), content()).prop_map(|(path, content)| write(&path, content)),
        2 => path().prop_map(|path| remove_tree(&path)),
        2 => (path(), path()).prop_map(|(from, to)| rename_into(&from, &to)),
        1 => (path(), path()).prop_map(|(from, to)| rename_over(&from, &to)),
        1 => (path(), path()).prop_map(|(from, to)| copy_into(&from, &to)),
        1 => path().prop_map(|path| make_dirs(&path)),
        1 => (path(), path()).prop_map(|(path, target)| link(&path, &target)),
        1 => path().prop_map(|path| set_mode(&path, 0o700)),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        10 => vec(mutation(), 1..=3).prop_map(Op::Change),
        4 => (1..4_usize).prop_map(Op::Undo),
        3 => (0..50_usize).prop_map(Op::UndoOne),
        3 => Just(Op::Redo),
        2 => (0..50_usize).prop_map(Op::Restore),
        2 => (0..50_usize).prop_map(Op::Branch),
        2 => (0..50_usize).prop_map(Op::Switch),
        3 => (0..50_usize).prop_map(Op::Merge),
        1 => Just(Op::Flatten),
        1 => Just(Op::Reopen),
        2 => (0..50_usize).prop_map(Op::Snapshot),
        1 => (0..50_usize).prop_map(Op::DropSnapshot),
        1 => (0..6_usize).prop_map(Op::Retain),
        1 => Just(Op::Collect),
    ]
}

fn run(is_on_disk: bool, cases: u32, length: usize) {
    let config = Config {
        cases,
        failure_persistence: None,
        max_shrink_iters: 2_000,
        ..Config::default()
    };
    let outcome = TestRunner::new(config).run(&vec(op(), 1..=length), |ops| {
        block_on(async {
            let mut run = Run::start(is_on_disk).await;
            for op in &ops {
                run.step(op).await;
                let desk = run.desk().await;
                assert_eq!(desk.probe.tree().await, *run.room().now(), "after {op:?}");
            }
            run.compare_everything().await;
        });
        Ok(())
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}

#[test]
fn history_in_memory_is_what_the_model_says() {
    run(false, 400, 30);
}

#[test]
fn history_on_disk_is_what_the_model_says() {
    run(true, 60, 25);
}
