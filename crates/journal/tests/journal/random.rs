//! Random changes, by this journal, by another handle of it and by other programs: the journal always knows what is there, and the way
//! back leads to every state.

use std::collections::BTreeSet;
use std::sync::Arc;

use garret_core::{Batch, ErrorKind, Mutation, PathChange, PathExpectation, PathPut, PlacedEntry, PutBatch, Storage};
use garret_depot::{DepotWorkspace, History, Point, ReversalOutcome, SnapshotOptions, UndoSelection};
use garret_testkit::mutations::{append, copy, link, make_dir, remove_tree, rename, set_mode, write};
use garret_testkit::tree::{differing, three_way};
use garret_testkit::{Probe, Tree};

use crate::journal::desk::{Desk, making};
use crate::journal::support::depot_at;

/// Numbers that look random and are the same in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % sides
    }

    fn path(&mut self) -> String {
        let paths = ["a", "b", "d", "d/a", "d/b", "d/e", "d/e/a", "f/a", "l/a", "l"];
        paths[self.roll(paths.len())].to_owned()
    }

    fn mutation(&mut self) -> Mutation {
        let (path, other) = (self.path(), self.path());
        let text = format!("{}", self.roll(1_000));
        let large = "x".repeat(self.roll(5_000));
        match self.roll(10) {
            0..=2 => write(&path, text),
            3 => write(&path, large),
            4 => append(&path, text),
            5 => remove_tree(&path),
            6 => rename(&path, &other),
            7 => copy(&path, &other),
            8 => match self.roll(3) {
                0 => make_dir(&path),
                1 => link("l", "d"),
                _ => link(&path, &other),
            },
            _ => set_mode(&path, [0o600, 0o644, 0o755][self.roll(3)]),
        }
    }
}

#[tokio::test]
async fn the_journal_knows_what_is_there_and_undo_leads_back() {
    for seed in 0..12 {
        let mut dice = Dice(seed);
        let desk = Desk::over(&[("a", "1"), ("d/a", "2"), ("d/e/a", "3")]).await;
        desk.room.snapshot("start", SnapshotOptions::default()).await.unwrap();
        let start = desk.trees().await.1;
        let other = desk.again().await;
        let mut made = 0;
        for round in 0..60 {
            let mutations = (0..=dice.roll(3)).map(|_| dice.mutation()).collect::<Vec<_>>();
            let shown = format!("seed {seed}, round {round}: {mutations:?}");
            let batch = Batch {
                mutations,
                ..Batch::default()
            };
            let room = if dice.roll(4) == 0 { &other } else { &desk.room };
            match room.apply(batch).await {
                Ok(_) => made += 1,
                Err(error) => assert!(
                    !matches!(error.kind(), ErrorKind::Internal | ErrorKind::Corrupt),
                    "{shown}: {error}"
                ),
            }
            let (known, there) = desk.trees().await;
            assert_eq!(known, there, "{shown}");
        }
        let count = desk
            .changes()
            .await
            .iter()
            .filter(|change| change.kind.as_str() == "change")
            .count();
        assert!(count <= made, "a change was recorded that was not made");
        match desk.room.undo(UndoSelection::Last(count), making()).await.unwrap() {
            ReversalOutcome::Done(_) => {}
            ReversalOutcome::Clashed(clashes) => panic!("seed {seed}: {clashes:?}"),
        }
        let (known, there) = desk.trees().await;
        assert_eq!(there, start, "seed {seed}");
        assert_eq!(known, start, "seed {seed}");
    }
}

#[tokio::test]
async fn what_others_do_in_between_is_always_found() {
    for seed in 100..108 {
        let mut dice = Dice(seed);
        let desk = Desk::over(&[("a", "1"), ("d/a", "2"), ("d/e/a", "3")]).await;
        desk.room.snapshot("start", SnapshotOptions::default()).await.unwrap();
        let start = desk.trees().await.1;
        for round in 0..30 {
            let path = desk.path(&dice.path());
            match dice.roll(3) {
                0 if path.parent().is_some_and(std::path::Path::is_dir) && !path.is_dir() => {
                    std::fs::write(&path, format!("theirs {round}")).ok();
                }
                1 => drop(std::fs::remove_file(&path)),
                _ => {}
            }
            // It may be refused; what matters is that nothing is lost.
            drop(desk.room.apply(dice.mutation().into()).await);
        }
        desk.diff(Point::Now).await;
        let (known, there) = desk.trees().await;
        assert_eq!(known, there, "seed {seed}");
        let restore = garret_depot::RestoreTarget::Point {
            point: Point::Snapshot("start".into()),
            path: garret_core::WsPath::root(),
        };
        desk.room.restore(restore, making()).await.unwrap();
        assert_eq!(desk.trees().await.1, start, "seed {seed}");
    }
}

/// Merges `theirs` into `ours`, by path, with ours where both changed something; gives the tree that must come out, unless it is none.
async fn merge(ours: &dyn History, theirs: &dyn History, trees: (&Tree, &Tree)) -> Option<Tree> {
    let merging = ours.merge_input(theirs.id()).await.expect("they have met");
    let base = Probe::new(merging.base.clone(), None).tree().await;
    for (side, tree) in [(&merging.ours, trees.0), (&merging.theirs, trees.1)] {
        let told: BTreeSet<_> = side.changes.iter().map(|change| change.path.display_path()).collect();
        assert_eq!(told, differing(&base, tree), "what {} did since the base", side.name);
    }
    let merged = three_way(&base, trees.0, trees.1)?;
    let is_taken = |change: &&PathChange| {
        let path = change.path.display_path();
        trees.0.get(&path) == base.get(&path)
    };
    let put = |change: &PathChange| PathPut {
        path: change.path.clone(),
        expected: PathExpectation::Is(change.before.clone()),
        placed: change.after.clone().map_or(PlacedEntry::Nothing, PlacedEntry::Image),
    };
    let puts = PutBatch {
        puts: merging.theirs.changes.iter().filter(is_taken).map(put).collect(),
        moves: Vec::new(),
        merged: Some(merging.point),
        ..PutBatch::default()
    };
    ours.put(puts, making()).await.expect("nothing clashes");
    Some(merged)
}

#[tokio::test]
async fn a_directory_and_its_branch_are_merged_into_each_other() {
    for seed in 200..212 {
        let mut dice = Dice(seed);
        let desk = Desk::over(&[("a", "1"), ("d/a", "2"), ("d/e/a", "3")]).await;
        // Before the journal has met everything, or after.
        desk.write("first", "0").await;
        let point = [Point::Now, Point::Number(1)][seed as usize % 2].clone();
        let made = desk.room.branch("try".into(), &point).await.unwrap();
        let depot = depot_at(desk.home.path()).get().await.unwrap();
        let branch = depot.workspace(&made.id).await.unwrap();
        let tree_of = async |branch: &DepotWorkspace| Probe::new(Arc::new(branch.clone()), None).tree().await;
        for round in 0..12 {
            for _ in 0..4 {
                drop(desk.room.apply(dice.mutation().into()).await);
                drop(branch.apply(dice.mutation().into()).await);
            }
            if dice.roll(2) == 0 {
                desk.put_outside("theirs", &format!("{round}"));
            }
            // What other programs did enters the journal, as whoever merges has it done.
            desk.diff(Point::Now).await;
            let (here, there) = (desk.trees().await.1, tree_of(&branch).await);
            let shown = format!("seed {seed}, round {round}");
            match dice.roll(2) {
                0 => {
                    if let Some(merged) = merge(&*desk.room, &branch, (&here, &there)).await {
                        let (known, now) = desk.trees().await;
                        assert_eq!(now, merged, "{shown}");
                        assert_eq!(known, merged, "{shown}");
                    }
                    assert_eq!(tree_of(&branch).await, there, "{shown}: a merge leaves the other alone");
                }
                _ => {
                    if let Some(merged) = merge(&branch, &*desk.room, (&there, &here)).await {
                        assert_eq!(tree_of(&branch).await, merged, "{shown}");
                    }
                    assert_eq!(desk.trees().await.1, here, "{shown}: a merge leaves the other alone");
                }
            }
        }
        assert_eq!(depot.check().await.unwrap(), []);
    }
}
