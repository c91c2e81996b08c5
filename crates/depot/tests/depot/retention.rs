//! Retention: what is let go, what stays, and that nothing that stays is changed by it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use garret_core::{
    ErrorKind, FixedClock, ListOptions, OpenContext, Origin, RetentionLimits, Storage, Timestamp, WsPath,
};
use garret_depot::{Depot, NewWorkspace, Point, UndoSelection};
use garret_testkit::Tree;
use garret_testkit::fixture::block_on;
use garret_testkit::mutations::{append_or_create, make_dirs, path, remove_tree, rename_into, write};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::depot::support::{Desk, in_memory, on_disk, options, tree_of, workspace};

fn keep(text: &str) -> RetentionLimits {
    text.parse().expect("it is a limit")
}

fn now() -> Timestamp {
    "2030-01-01T00:00:00Z".parse().expect("it is a time")
}

fn number(number: u64) -> Point {
    Point::Number(number)
}

/// Five changes of one file, `1` to `5`.
async fn five() -> Desk {
    let desk = Desk::in_memory().await;
    for turn in 1..=5 {
        desk.write("f", &turn.to_string()).await;
    }
    desk
}

fn gone<T: std::fmt::Debug>(outcome: garret_core::Result<T>) {
    let error = outcome.expect_err("it is no longer kept");
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    let texts = ["is older than the history", "no longer kept"];
    assert!(texts.iter().any(|text| error.message().contains(text)), "{error}");
}

#[test]
fn what_retention_would_let_go_is_what_it_lets_go() {
    block_on(async {
        for limit in ["0", "2", "9", "1B", "0s"] {
            let desk = five().await;
            desk.room.snapshot("third", number(3)).await.unwrap();
            let foreseen = desk.room.preview_retention(&keep(limit), now()).await.unwrap();
            assert_eq!(
                desk.room.changes(None, 10).await.unwrap().len(),
                5,
                "nothing goes by it"
            );
            let retained = desk.room.retain(&keep(limit), now()).await.unwrap();
            assert_eq!(foreseen, retained, "{limit}");
            let rest = desk.room.preview_retention(&keep(limit), now()).await.unwrap();
            assert_eq!((rest.changes, rest.versions), (0, 0), "{limit}");
        }
    });
}

#[test]
fn the_newest_changes_are_kept_and_older_points_are_not_found() {
    block_on(async {
        let desk = five().await;
        let first = desk.room.changes(None, 10).await.unwrap().pop().unwrap();
        let retained = desk.room.retain(&keep("2"), now()).await.unwrap();
        assert_eq!((retained.oldest, retained.changes, retained.versions), (3, 3, 2));
        assert_eq!(desk.probe.text("f").await, "5");
        let numbers: Vec<_> = desk
            .room
            .changes(None, 10)
            .await
            .unwrap()
            .iter()
            .map(|one| one.number)
            .collect();
        assert_eq!(numbers, [5, 4]);
        for point in [
            number(0),
            number(2),
            Point::Change(first.id.clone()),
            Point::Named("1".into()),
        ] {
            gone(desk.room.open_view_at(&point).await);
            gone(desk.room.diff(&point, &Point::Now, &WsPath::root()).await);
            gone(
                desk.room
                    .restore(point.clone(), &WsPath::root(), Origin::default())
                    .await,
            );
            gone(desk.room.snapshot("late", point.clone()).await);
            gone(desk.room.branch(NewWorkspace::unnamed(), &point).await);
        }
        gone(desk.room.open_view_at(&Point::Time(first.at)).await);
        gone(desk.room.change(&number(3)).await);
        let kept = tree_of(desk.room.open_view_at(&number(3)).await.unwrap()).await;
        assert_eq!(kept.len(), 1, "the state before the oldest kept change is kept");
        let versions = desk.room.versions(&path("f"), 10).await.unwrap();
        assert_eq!(versions.len(), 2);
        assert_eq!(desk.room.depot().check().await.unwrap(), []);
    });
}

#[test]
fn kept_changes_can_be_undone_and_dropped_ones_cannot() {
    block_on(async {
        let desk = five().await;
        let first = desk.room.changes(None, 10).await.unwrap().pop().unwrap();
        desk.room.retain(&keep("2"), now()).await.unwrap();
        let undo = desk.room.undo(UndoSelection::Change(first.id), Origin::default()).await;
        assert_eq!(undo.unwrap_err().kind(), ErrorKind::NotFound);
        desk.undone(UndoSelection::Last(10)).await;
        assert_eq!(desk.probe.text("f").await, "3");
        desk.redone().await;
        assert_eq!(desk.probe.text("f").await, "5");
        assert_eq!(desk.room.retain(&keep("2"), now()).await.unwrap().changes, 2);
        let undo = desk.room.undo(UndoSelection::Last(1), Origin::default()).await;
        assert_eq!(
            undo.unwrap_err().kind(),
            ErrorKind::NotFound,
            "only an undo and a redo are left"
        );
        assert_eq!(desk.room.depot().check().await.unwrap(), []);
    });
}

#[test]
fn a_view_that_was_open_does_not_show_what_is_no_longer_kept() {
    block_on(async {
        let desk = five().await;
        let view = desk.room.open_view_at(&number(2)).await.unwrap();
        desk.room.retain(&keep("1"), now()).await.unwrap();
        gone(view.list(&WsPath::root(), ListOptions::default()).await);
        gone(view.read(&path("f"), Default::default()).await);
    });
}

#[test]
fn snapshots_branches_and_what_they_begin_with_are_never_touched() {
    block_on(async {
        let desk = five().await;
        desk.room.snapshot("two", number(2)).await.unwrap();
        let branch = desk
            .room
            .branch(NewWorkspace::named("branch"), &number(3))
            .await
            .unwrap();
        desk.room.forget_history(&Point::Now).await.unwrap();
        let two = tree_of(desk.room.open_view_at(&Point::Snapshot("two".into())).await.unwrap()).await;
        assert_eq!(text_of(&two, "f"), "2");
        assert_eq!(Desk::over(branch.clone()).probe.text("f").await, "3");
        gone(desk.room.open_view_at(&number(1)).await);
        gone(desk.room.open_view_at(&number(4)).await);
        let differing = desk.room.diff_with(&branch, &WsPath::root()).await.unwrap();
        assert_eq!(differing.len(), 1);
        desk.room.depot().collect(Duration::ZERO).await.unwrap();
        assert_eq!(Desk::over(branch).probe.text("f").await, "3");
        assert_eq!(desk.room.depot().check().await.unwrap(), []);
        desk.room.delete_snapshot("two").await.unwrap();
        assert_eq!(desk.room.depot().collect(Duration::ZERO).await.unwrap().versions, 1);
        gone(desk.room.open_view_at(&number(2)).await);
    });
}

fn text_of(tree: &Tree, path: &str) -> String {
    match tree.get(path) {
        Some(garret_testkit::Node::File { content, .. }) => String::from_utf8(content.to_vec()).expect("it is text"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_branch_that_forgot_its_history_still_knows_what_it_removed() {
    block_on(async {
        let desk = Desk::in_memory().await;
        desk.probe.batch(vec![write("a", "x"), write("b", "x")]).await;
        let branch = Desk::over(desk.room.branch(NewWorkspace::unnamed(), &Point::Now).await.unwrap());
        branch.room.flatten().await.unwrap();
        branch.probe.apply(remove_tree("a")).await;
        branch.room.forget_history(&Point::Now).await.unwrap();
        let differing = desk.room.diff_with(&branch.room, &WsPath::root()).await.unwrap();
        let paths: Vec<_> = differing.iter().map(|one| one.path.display_path()).collect();
        assert_eq!(paths, ["a"]);
    });
}

#[test]
fn a_file_is_not_given_the_versions_of_another_whose_name_it_took() {
    block_on(async {
        let desk = Desk::in_memory().await;
        desk.probe.batch(vec![write("a", "x"), write("b", "y")]).await;
        let branch = Desk::over(desk.room.branch(NewWorkspace::unnamed(), &Point::Now).await.unwrap());
        branch.probe.batch(vec![remove_tree("b"), rename_into("a", "b")]).await;
        branch.probe.apply(write("c", "z")).await;
        branch.room.retain(&keep("1"), now()).await.unwrap();
        assert_eq!(branch.room.versions(&path("b"), 10).await.unwrap(), []);
        assert_eq!(branch.room.versions(&path("c"), 10).await.unwrap().len(), 1);
    });
}

#[test]
fn an_age_drops_what_is_older() {
    block_on(async {
        let clock = Arc::new(FixedClock::starting_at(now()));
        let context = OpenContext {
            clock: clock.clone(),
            ..crate::depot::support::context()
        };
        let depot = Depot::in_memory(options(), context).unwrap();
        let desk = Desk::over(workspace(&depot, "box").await);
        for turn in 1..=5 {
            desk.write("f", &turn.to_string()).await;
            clock.advance(Duration::from_secs(86_400));
        }
        let today = now() + Duration::from_secs(5 * 86_400);
        assert_eq!(desk.room.retain(&keep("30d"), today).await.unwrap().oldest, 0);
        let retained = desk.room.retain(&keep("2d"), today).await.unwrap();
        assert_eq!((retained.oldest, retained.changes), (3, 3));
        let on_day = |day: u64| Point::Time(now() + Duration::from_secs(day * 86_400 + 60));
        gone(desk.room.open_view_at(&on_day(1)).await);
        assert_eq!(text_of(&desk.tree_at(&on_day(2)).await, "f"), "3");
        assert_eq!(text_of(&desk.tree_at(&on_day(3)).await, "f"), "4");
        desk.room.retain(&keep("1h"), today).await.unwrap();
        assert_eq!(desk.room.changes(None, 10).await.unwrap(), []);
        assert_eq!(desk.probe.text("f").await, "5");
    });
}

#[test]
fn a_size_keeps_the_changes_whose_before_images_fit() {
    block_on(async {
        let desk = Desk::in_memory().await;
        for seed in 0..10_u8 {
            let content: Vec<u8> = blake3::Hasher::new().update(&[seed]).finalize_xof_bytes();
            desk.probe.apply(write("f", content)).await;
        }
        let retained = desk.room.retain(&keep("35000B"), now()).await.unwrap();
        assert_eq!(
            retained.oldest, 7,
            "the before-images of three changes take 30,000 bytes and a little"
        );
        // What is renamed, or appended to, takes no more room than what is new.
        let desk = Desk::in_memory().await;
        for _ in 0..200 {
            desk.probe.apply(append_or_create("log", vec![b'x'; 10])).await;
        }
        desk.probe.apply(write("large", large())).await;
        for turn in 0..20 {
            desk.probe.apply(rename_into(&name(turn), &name(turn + 1))).await;
        }
        let retained = desk.room.retain(&keep("400KB"), now()).await.unwrap();
        assert_eq!(retained.oldest, 0, "{retained:?}");
    });
}

fn name(turn: usize) -> String {
    if turn == 0 {
        "large".to_owned()
    } else {
        format!("large{turn}")
    }
}

fn large() -> Bytes {
    let mut bytes = vec![0; 3_000_000];
    blake3::Hasher::new().update(b"large").finalize_xof().fill(&mut bytes);
    bytes.into()
}

trait Noise {
    fn finalize_xof_bytes(&self) -> Vec<u8>;
}

impl Noise for blake3::Hasher {
    fn finalize_xof_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; 10_000];
        self.finalize_xof().fill(&mut bytes);
        bytes
    }
}

#[test]
fn every_workspace_keeps_what_it_was_told_to() {
    block_on(async {
        let depot = in_memory();
        let (one, two) = (
            Desk::over(workspace(&depot, "one").await),
            Desk::over(workspace(&depot, "two").await),
        );
        for desk in [&one, &two] {
            desk.write("f", "1").await;
            desk.write("f", "2").await;
        }
        assert!(one.room.keep().await.unwrap().keeps_everything());
        one.room.set_keep(&keep("1")).await.unwrap();
        assert_eq!(one.room.keep().await.unwrap(), keep("1"));
        let all = depot.retain_all(now()).await.unwrap();
        assert_eq!(all.len(), 1);
        assert_eq!((all[0].0.as_str(), all[0].1.changes), (one.room.id(), 1));
        assert_eq!(two.room.changes(None, 10).await.unwrap().len(), 2);
    });
}

#[test]
fn retention_and_collection_while_another_process_writes_lose_nothing() {
    block_on(async {
        let home = tempfile::tempdir().unwrap();
        let (first, second) = (on_disk(home.path()).await, on_disk(home.path()).await);
        let desk = Desk::over(workspace(&first, "box").await);
        let writing = tokio::spawn(async move {
            for turn in 0..150 {
                let content = vec![(turn % 5) as u8; 3_000];
                while let Err(error) = desk.probe.try_apply(write("f", content.clone())).await {
                    assert_eq!(error.kind(), ErrorKind::Unavailable);
                }
                desk.probe.apply(append_or_create("log", format!("{turn}\n"))).await;
                if turn % 30 == 7 {
                    desk.room.snapshot(&format!("at{turn}"), Point::Now).await.unwrap();
                }
            }
        });
        let other = second.workspace("box").await.unwrap();
        while !writing.is_finished() {
            other.retain(&keep("3"), now()).await.unwrap();
            second.collect(Duration::ZERO).await.unwrap();
        }
        writing.await.unwrap();
        second.collect(Duration::ZERO).await.unwrap();
        assert_eq!(first.check().await.unwrap(), []);
        let desk = Desk::over(first.workspace("box").await.unwrap());
        assert_eq!(desk.probe.text("log").await.lines().count(), 150);
        for snapshot in desk.room.snapshots().await.unwrap() {
            let turn: usize = snapshot.label[2..].parse().unwrap();
            let tree = desk.tree_at(&Point::Snapshot(snapshot.label)).await;
            assert_eq!(text_of(&tree, "log").lines().count(), turn + 1);
            assert_eq!(text_of(&tree, "f").as_bytes(), vec![(turn % 5) as u8; 3_000]);
        }
    });
}

/// Random work, with retention and collection at random moments, against trees that were noted as they came to be.
#[derive(Debug, Clone)]
enum Step {
    Write(u8, u8),
    Remove(u8),
    Move(u8, u8),
    Directory(u8),
    Undo,
    Snapshot,
    DeleteSnapshot(usize),
    Branch(usize),
    Switch(usize),
    Flatten,
    Retain(u64),
    Collect,
}

#[derive(Debug)]
struct Noted {
    id: String,
    trees: BTreeMap<u64, Tree>,
    oldest: u64,
    /// The label of each snapshot, and its number.
    snapshots: Vec<(String, u64)>,
    forks: Vec<u64>,
}

impl Noted {
    fn is_kept(&self, number: u64) -> bool {
        let is_named = self.snapshots.iter().any(|(_, named)| *named == number);
        number >= self.oldest || is_named || self.forks.contains(&number)
    }
}

struct Run {
    depot: Depot,
    noted: Vec<Noted>,
    current: usize,
    labels: usize,
}

impl Run {
    async fn desk(&self, index: usize) -> Desk {
        Desk::over(self.depot.workspace(&self.noted[index].id).await.expect("it is there"))
    }

    async fn note(&mut self) {
        let desk = self.desk(self.current).await;
        let head = desk.room.describe().await.expect("it is there").head;
        let tree = desk.probe.tree().await;
        self.noted[self.current].trees.insert(head, tree);
    }

    async fn step(&mut self, step: &Step) {
        let desk = self.desk(self.current).await;
        let name = |name: &u8| ["a", "b", "d/a", "d/b", "d/e/f"][usize::from(*name) % 5].to_owned();
        let content = |byte: &u8| Bytes::from(vec![*byte; if byte.is_multiple_of(2) { 5 } else { 3_000 }]);
        let made = match step {
            Step::Write(path, byte) => Some(write(&name(path), content(byte))),
            Step::Remove(path) => Some(remove_tree(&name(path))),
            Step::Move(from, to) => Some(rename_into(&name(from), &name(to))),
            Step::Directory(path) => Some(make_dirs(&name(path))),
            _ => None,
        };
        if let Some(mutation) = made {
            // A refused one changes nothing.
            let _ = desk.probe.try_apply(mutation).await;
        }
        let head = desk.room.describe().await.expect("it is there").head;
        match step {
            Step::Undo => {
                let _ = desk.room.undo(UndoSelection::Last(1), Origin::default()).await;
            }
            Step::Snapshot => {
                self.labels += 1;
                let label = format!("s{}", self.labels);
                desk.room.snapshot(&label, Point::Now).await.expect("the label is free");
                self.noted[self.current].snapshots.push((label, head));
            }
            Step::DeleteSnapshot(index) => {
                let snapshots = &mut self.noted[self.current].snapshots;
                if !snapshots.is_empty() {
                    let (label, _) = snapshots.remove(index % snapshots.len());
                    desk.room.delete_snapshot(&label).await.expect("it is there");
                }
            }
            Step::Branch(index) => {
                let noted = &mut self.noted[self.current];
                let kept: Vec<u64> = noted
                    .trees
                    .keys()
                    .copied()
                    .filter(|number| noted.is_kept(*number))
                    .collect();
                let from = kept[index % kept.len()];
                let branch = desk
                    .room
                    .branch(NewWorkspace::unnamed(), &number(from))
                    .await
                    .expect("it is kept");
                noted.forks.push(from);
                let tree = noted.trees[&from].clone();
                self.noted.push(Noted {
                    id: branch.id().to_owned(),
                    trees: BTreeMap::from([(0, tree)]),
                    oldest: 0,
                    snapshots: Vec::new(),
                    // What a branch begins with is what its fork holds.
                    forks: vec![0],
                });
                self.current = self.noted.len() - 1;
            }
            Step::Switch(index) => self.current = index % self.noted.len(),
            Step::Flatten => desk.room.flatten().await.expect("it can be flattened"),
            Step::Retain(count) => {
                let retained = desk
                    .room
                    .retain(&keep(&count.to_string()), now())
                    .await
                    .expect("it can be run");
                let noted = &mut self.noted[self.current];
                noted.oldest = noted.oldest.max(head.saturating_sub(*count));
                assert_eq!(retained.oldest, noted.oldest);
            }
            Step::Collect => {
                self.depot.collect(Duration::ZERO).await.expect("it can be run");
            }
            _ => {}
        }
        self.note().await;
    }

    async fn compare(&self) {
        for (index, noted) in self.noted.iter().enumerate() {
            let desk = self.desk(index).await;
            for (at, tree) in &noted.trees {
                match desk.room.open_view_at(&number(*at)).await {
                    Ok(view) => {
                        assert!(noted.is_kept(*at), "{at} should be gone: {noted:?}");
                        assert_eq!(tree_of(view).await, *tree, "at {at}");
                    }
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::NotFound);
                        assert!(!noted.is_kept(*at), "{at} should be kept: {noted:?}");
                    }
                }
            }
            self.compare_differences(&desk, noted).await;
            if noted.oldest > 0 {
                let changes = desk.room.changes(None, 1_000).await.expect("they can be read");
                assert!(changes.iter().all(|change| change.number > noted.oldest));
            }
        }
        assert_eq!(self.depot.check().await.expect("it can be looked over"), []);
    }

    async fn compare_differences(&self, desk: &Desk, noted: &Noted) {
        let kept: Vec<_> = noted.trees.iter().filter(|(at, _)| noted.is_kept(**at)).collect();
        for (from, to) in kept
            .iter()
            .zip(kept.iter().skip(1))
            .chain(kept.first().zip(kept.last()))
        {
            let root = WsPath::root();
            let real = desk
                .room
                .diff(&number(*from.0), &number(*to.0), &root)
                .await
                .expect("both are kept");
            let wanted = from
                .1
                .keys()
                .chain(to.1.keys())
                .filter(|path| from.1.get(*path) != to.1.get(*path));
            let wanted: std::collections::BTreeSet<_> = wanted.cloned().collect();
            let real: std::collections::BTreeSet<_> = real.iter().map(|one| one.path.display_path()).collect();
            assert_eq!(real, wanted, "between {} and {}", from.0, to.0);
        }
    }
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (any::<u8>(), 0..6_u8).prop_map(|(path, byte)| Step::Write(path, byte)),
        3 => any::<u8>().prop_map(Step::Remove),
        3 => (any::<u8>(), any::<u8>()).prop_map(|(from, to)| Step::Move(from, to)),
        1 => any::<u8>().prop_map(Step::Directory),
        3 => Just(Step::Undo),
        2 => Just(Step::Snapshot),
        1 => any::<usize>().prop_map(Step::DeleteSnapshot),
        2 => any::<usize>().prop_map(Step::Branch),
        2 => any::<usize>().prop_map(Step::Switch),
        1 => Just(Step::Flatten),
        3 => (0..5_u64).prop_map(Step::Retain),
        2 => Just(Step::Collect),
    ]
}

#[test]
fn every_kept_point_stays_what_it_was_through_retention_and_collection() {
    let config = Config {
        cases: 200,
        failure_persistence: None,
        max_shrink_iters: 1_000,
        ..Config::default()
    };
    let outcome = TestRunner::new(config).run(&vec(step(), 1..=40), |steps| {
        block_on(async {
            let depot = in_memory();
            let first = depot.create(NewWorkspace::unnamed()).await.expect("it needs no name");
            let noted = Noted {
                id: first.id().to_owned(),
                trees: BTreeMap::from([(0, Tree::new())]),
                oldest: 0,
                snapshots: Vec::new(),
                forks: Vec::new(),
            };
            let mut run = Run {
                depot,
                noted: vec![noted],
                current: 0,
                labels: 0,
            };
            for step in &steps {
                run.step(step).await;
            }
            run.compare().await;
        });
        Ok(())
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}

#[test]
fn a_snapshot_from_before_what_retention_dropped_still_tells_what_is_new_since() {
    block_on(async {
        let desk = Desk::in_memory().await;
        desk.write("old", "1").await;
        desk.room.snapshot("then", Point::Now).await.unwrap();
        for name in ["new", "d/newer", "old", "last"] {
            desk.write(name, "2").await;
        }
        let retained = desk.room.retain(&keep("1"), now()).await.unwrap();
        assert_eq!((retained.oldest, retained.changes), (4, 4));
        let then = Point::Snapshot("then".to_owned());
        let differences = desk.room.diff(&then, &Point::Now, &WsPath::root()).await.unwrap();
        let paths: Vec<_> = differences.iter().map(|one| one.path.display_path()).collect();
        assert_eq!(paths, ["d", "d/newer", "last", "new", "old"]);
        assert_eq!(desk.room.depot().check().await.unwrap(), []);
    });
}

#[test]
fn a_change_of_many_paths_is_told_whole() {
    block_on(async {
        let desk = Desk::in_memory().await;
        let names: Vec<_> = (0..100).map(|number| format!("name-{number:03}")).collect();
        let mutations = names.iter().map(|name| write(name, "x")).collect();
        let batch = garret_core::Batch {
            mutations,
            ..garret_core::Batch::default()
        };
        desk.room.apply(batch).await.unwrap();
        let (change, paths) = desk.room.change(&number(1)).await.unwrap();
        assert_eq!((change.path_count, paths.len()), (100, 100));
        let told: Vec<_> = paths.iter().map(|one| one.path.display_path()).collect();
        assert_eq!(told, names);
        desk.room.undo(UndoSelection::Last(1), Origin::default()).await.unwrap();
        assert!(desk.probe.names_deep("").await.is_empty());
    });
}
