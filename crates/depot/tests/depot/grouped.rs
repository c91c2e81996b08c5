//! Changes that are committed together come to the same as one after the other: random work in three workspaces, done once each by
//! itself, and once all of it in as few transactions as the writer makes of it.

use std::fs::File;
use std::pin::Pin;

use garret_core::{Batch, ErrorKind, Mutation, MutationOutcome, Origin, Storage, WsPath};
use garret_depot::{Depot, DepotWorkspace, Durability, NewWorkspace, Point, UndoSelection};
use garret_testkit::fixture::block_on;
use garret_testkit::mutations::{
    append_or_create, copy_into, link, make_dir, make_dirs, remove_tree, rename_into, set_mode, write, write_beside,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::depot::support::{on_disk, scratch, tree_of, workspace};

#[derive(Debug, Clone)]
enum Op {
    Change(Vec<Mutation>),
    Undo(usize),
    UndoOne(usize),
    Redo,
    Restore(usize),
    Snapshot(usize),
    Delete,
    Recover,
    Rename(usize),
    Flatten,
}

/// An operation, in which of the workspaces, and how durable it is.
type Job = (usize, bool, Op);

/// What became of an operation.
type Outcome = Result<String, ErrorKind>;

struct Home {
    _directory: tempfile::TempDir,
    depot: Depot,
    rooms: Vec<DepotWorkspace>,
    turns: File,
}

impl Home {
    /// Three workspaces with something in them, the second of which is a branch of the first.
    async fn new() -> Self {
        let directory = scratch();
        let depot = on_disk(directory.path()).await;
        let (one, three) = (workspace(&depot, "one").await, workspace(&depot, "three").await);
        for room in [&one, &three] {
            for path in ["a/a", "b", "a/b/a"] {
                room.apply(write(path, path.to_owned()).into())
                    .await
                    .expect("the write is fine");
            }
        }
        let two = one
            .branch(NewWorkspace::named("two"), &Point::Number(2))
            .await
            .expect("the name is free");
        one.apply(write("b", "later").into()).await.expect("the write is fine");
        let turns = File::open(directory.path().join("depot.lock")).expect("the lock file is there");
        Self {
            _directory: directory,
            depot,
            rooms: vec![one, two, three],
            turns,
        }
    }

    async fn run(&self, (room, is_durable, op): Job) -> Outcome {
        let durability = if is_durable {
            Durability::Full
        } else {
            Durability::Relaxed
        };
        let room = self.rooms[room].clone().with_durability(durability);
        let outcome = match op {
            Op::Change(mutations) => {
                let batch = Batch {
                    mutations,
                    ..Batch::default()
                };
                room.apply(batch).await.map(describe_outcomes)
            }
            Op::Undo(count) => undone(&room, UndoSelection::Last(count)).await,
            Op::UndoOne(number) => undone(&room, UndoSelection::Change(number.to_string())).await,
            Op::Redo => room.redo(Origin::default()).await.map(|_| "redone".to_owned()),
            Op::Restore(number) => {
                let point = Point::Number(number as u64);
                let restored = room.restore(point, &WsPath::root(), Origin::default()).await;
                restored.map(|change| format!("{:?}", change.map(|change| change.number)))
            }
            Op::Snapshot(label) => {
                let taken = room.snapshot(&format!("s{label}"), Point::Now).await;
                taken.map(|snapshot| snapshot.number.to_string())
            }
            Op::Delete => self.depot.delete(room.id()).await.map(|()| "deleted".to_owned()),
            Op::Recover => self.depot.recover(room.id()).await.map(|()| "recovered".to_owned()),
            Op::Rename(name) => {
                let renamed = self.depot.rename(room.id(), &format!("name-{name}")).await;
                renamed.map(|()| "renamed".to_owned())
            }
            Op::Flatten => room.flatten().await.map(|()| "flat".to_owned()),
        };
        outcome.map_err(|error| error.kind())
    }

    async fn one_by_one(&self, jobs: &[Job]) -> Vec<Outcome> {
        let mut outcomes = Vec::new();
        for job in jobs {
            outcomes.push(self.run(job.clone()).await);
        }
        outcomes
    }

    /// Runs the jobs in groups. A reversal or a restore reads the state that the jobs before it leave, so it ends a
    /// group and runs alone.
    async fn together(&self, jobs: &[Job]) -> Vec<Outcome> {
        let is_planned = |(_, _, op): &Job| matches!(op, Op::Undo(_) | Op::UndoOne(_) | Op::Redo | Op::Restore(_));
        let mut outcomes = Vec::new();
        for group in jobs.chunk_by(|one, next| !is_planned(one) && !is_planned(next)) {
            match group {
                [job] if is_planned(job) => outcomes.push(self.run(job.clone()).await),
                group => outcomes.extend(self.run_group(group).await),
            }
        }
        outcomes
    }

    /// Has all of them wait for the writer, whom nobody gives its turn meanwhile.
    async fn run_group(&self, jobs: &[Job]) -> Vec<Outcome> {
        self.turns.lock().expect("nobody has it for long");
        let mut waiting: Vec<Pin<Box<_>>> = jobs.iter().map(|job| Box::pin(self.run(job.clone()))).collect();
        for job in &mut waiting {
            assert!(futures::poll!(job.as_mut()).is_pending());
        }
        self.turns.unlock().expect("it is ours");
        let mut outcomes = Vec::new();
        for job in waiting {
            outcomes.push(job.await);
        }
        outcomes
    }

    /// Everything there is to see, as text.
    async fn everything(&self) -> Vec<String> {
        let mut seen = Vec::new();
        for room in &self.rooms {
            let described = room.describe().await.expect("it is there");
            seen.push(format!(
                "{:?} {} {}",
                described.name,
                described.head,
                described.deleted.is_some()
            ));
            seen.push(format!("{:?}", tree_of(room.clone()).await));
            for change in room.changes(None, usize::MAX >> 1).await.expect("it can be read") {
                let point = Point::Number(change.number);
                let (_, paths) = room.change(&point).await.expect("it can be read");
                seen.push(format!(
                    "{} {:?} {:?} {:?} {:?}",
                    change.number, change.kind, change.summary, change.reverses, change.undone_by
                ));
                seen.extend(paths.iter().map(|path| format!("{:?}", path.path)));
                seen.push(format!(
                    "{:?}",
                    tree_of(room.open_view_at(&point).await.expect("it can be read")).await
                ));
            }
            for snapshot in room.snapshots().await.expect("it can be read") {
                seen.push(format!("{} {}", snapshot.label, snapshot.number));
            }
        }
        assert_eq!(self.depot.check().await.expect("it can be read"), []);
        seen
    }
}

async fn undone(room: &DepotWorkspace, selection: UndoSelection) -> garret_core::Result<String> {
    room.undo(selection, Origin::default())
        .await
        .map(|reversed| match reversed {
            garret_depot::ReversalOutcome::Done(change) => format!("{}", change.number),
            garret_depot::ReversalOutcome::Clashed(clashes) => format!("{} clashes", clashes.len()),
        })
}

fn path() -> impl Strategy<Value = String> {
    vec(prop_oneof![3 => Just("a"), 2 => Just("b"), 1 => Just("c")], 1..=3).prop_map(|names| names.join("/"))
}

fn mutation() -> impl Strategy<Value = Mutation> {
    prop_oneof![
        8 => (path(), "[xyz]{0,2}").prop_map(|(path, content)| write(&path, content)),
        2 => (path(), "[xyz]{0,2}").prop_map(|(path, content)| write_beside(&path, content)),
        1 => (path(), "[xyz]{0,2}").prop_map(|(path, content)| append_or_create(&path, content)),
        2 => path().prop_map(|path| remove_tree(&path)),
        1 => (path(), path()).prop_map(|(from, to)| rename_into(&from, &to)),
        1 => (path(), path()).prop_map(|(from, to)| copy_into(&from, &to)),
        1 => path().prop_map(|path| make_dir(&path)),
        1 => path().prop_map(|path| make_dirs(&path)),
        1 => (path(), path()).prop_map(|(path, target)| link(&path, &target)),
        1 => path().prop_map(|path| set_mode(&path, 0o700)),
    ]
}

/// Describes the outcomes of a batch without the ids of changes, which no two homes share.
fn describe_outcomes(applied: Vec<MutationOutcome>) -> String {
    let outcomes = applied.into_iter().map(|one| {
        let number = one.change.as_ref().and_then(|change| change.number);
        format!("{:?} in {number:?}", MutationOutcome { change: None, ..one })
    });
    outcomes.collect()
}

fn job() -> impl Strategy<Value = Job> {
    let op = prop_oneof![
        20 => mutation().prop_map(|mutation| Op::Change(vec![mutation])),
        4 => vec(mutation(), 2..=3).prop_map(Op::Change),
        2 => (1..4_usize).prop_map(Op::Undo),
        2 => (1..12_usize).prop_map(Op::UndoOne),
        2 => Just(Op::Redo),
        1 => (0..6_usize).prop_map(Op::Restore),
        1 => (0..4_usize).prop_map(Op::Snapshot),
        1 => Just(Op::Delete),
        2 => Just(Op::Recover),
        1 => (0..2_usize).prop_map(Op::Rename),
        1 => Just(Op::Flatten),
    ];
    (
        prop_oneof![4 => Just(0_usize), 3 => Just(1), 1 => Just(2)],
        prop::bool::weighted(0.8),
        op,
    )
}

#[test]
fn changes_of_one_group_come_to_the_same_as_one_by_one() {
    let config = Config {
        cases: 60,
        failure_persistence: None,
        max_shrink_iters: 500,
        ..Config::default()
    };
    let outcome = TestRunner::new(config).run(&vec(job(), 1..=60), |jobs| {
        block_on(async {
            let (alone, grouped) = (Home::new().await, Home::new().await);
            assert_eq!(grouped.together(&jobs).await, alone.one_by_one(&jobs).await);
            assert_eq!(grouped.everything().await, alone.everything().await);
        });
        Ok(())
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}
