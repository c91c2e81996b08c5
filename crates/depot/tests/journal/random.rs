//! Random changes, by this journal, by another handle of it and by other programs: the journal always knows what is there, and the way
//! back leads to every state.

use garret_core::{Batch, ErrorKind, Mutation, Storage};
use garret_depot::{History, Point, Reversed, Selection, SnapshotOptions};
use garret_testkit::mutations::{append, copy, link, make_dir, remove_tree, rename, set_mode, write};

use crate::desk::{Desk, making};

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
        match desk.room.undo(Selection::Last(count), making()).await.unwrap() {
            Reversed::Done(_) => {}
            Reversed::Clashed(clashes) => panic!("seed {seed}: {clashes:?}"),
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
        let restore = garret_depot::Restore::Point {
            point: Point::Snapshot("start".into()),
            path: garret_core::WsPath::root(),
        };
        desk.room.restore(restore, making()).await.unwrap();
        assert_eq!(desk.trees().await.1, start, "seed {seed}");
    }
}
