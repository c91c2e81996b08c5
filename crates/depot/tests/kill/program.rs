//! What a task does in a workspace of its own: always the same, step by step, so that the state after each step is known without it.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use garret_core::{
    Batch, ChangesOptions, ErrorKind, Mutation, Origin, Point, RestoreTarget, Result, ReversalOutcome, SnapshotOptions,
    UndoSelection, WsPath,
};
use garret_testkit::mutations::{append_or_create, remove_tree, rename_into, set_mode, write};
use garret_testkit::{Probe, Tree};

use crate::place::Room;

/// Everything about a workspace that a step can change.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct State {
    tree: Tree,
    changes: usize,
    snapshots: BTreeSet<String>,
    branches: BTreeSet<String>,
}

impl State {
    pub(crate) async fn of(room: &Room) -> Self {
        let everything = ChangesOptions {
            limit: usize::MAX >> 1,
            ..ChangesOptions::default()
        };
        let changes = room.history.changes(everything).await.expect("the journal can be read");
        assert!(
            changes.windows(2).all(|pair| pair[0].number == pair[1].number + 1),
            "the journal has a gap"
        );
        let snapshots = room.history.snapshots().await.expect("they can be listed");
        let branches = room.history.branches().await.expect("they can be listed");
        Self {
            tree: Probe::new(room.storage.clone(), None).tree().await,
            changes: changes.len(),
            snapshots: snapshots.into_iter().map(|snapshot| snapshot.label).collect(),
            branches: branches.into_iter().filter_map(|branch| branch.name).collect(),
        }
    }
}

/// One step: one change, snapshot or branch.
pub(crate) async fn step(room: &Room, name: &str, index: usize) {
    let turn = index / 10;
    let content = content(name, turn);
    match index % 10 {
        0 => apply(room, vec![write("left", content.clone()), write("right", content)]).await,
        1 => apply(room, vec![append_or_create("log", content)]).await,
        2 => {
            apply(
                room,
                vec![
                    write("d/a", content),
                    write("d/e/b", turn.to_string()),
                    set_mode("d", 0o700),
                ],
            )
            .await
        }
        3 => {
            apply(
                room,
                vec![rename_into("d", &format!("moved-{turn}/d")), write("left", "alone")],
            )
            .await
        }
        4 => reverse(room, UndoSelection::Last(2)).await,
        5 => redo(room).await,
        6 => take_snapshot(room, &format!("turn-{turn}")).await,
        7 => branch(room, &format!("{name}-{turn}")).await,
        8 => {
            apply(
                room,
                vec![remove_tree(&format!("moved-{turn}")), write("after", turn.to_string())],
            )
            .await
        }
        _ => restore(room, &format!("turn-{turn}")).await,
    }
}

/// Above the threshold of a blob in every other turn, and of several parts in some.
fn content(name: &str, turn: usize) -> Bytes {
    let lines = [3, 9_000, 5, 40_000][turn % 4];
    format!("{name} {turn}\n").repeat(lines).into()
}

/// Does `work` until it is neither busy nor overtaken by a collection without grace; both say that nothing was changed.
pub(crate) async fn done<T, F: Future<Output = Result<T>>>(work: impl Fn() -> F) -> T {
    loop {
        match work().await {
            Ok(done) => return done,
            Err(error) if error.kind() == ErrorKind::Unavailable => tokio::time::sleep(Duration::from_millis(1)).await,
            Err(error) => panic!("the disk is fine: {error:?}"),
        }
    }
}

async fn apply(room: &Room, mutations: Vec<Mutation>) {
    let batch = Batch {
        mutations,
        ..Batch::default()
    };
    done(|| room.storage.apply(batch.clone())).await;
}

async fn reverse(room: &Room, selection: UndoSelection) {
    let reversed = done(|| room.history.undo(selection.clone(), Origin::default())).await;
    assert!(
        matches!(reversed, ReversalOutcome::Done(_)),
        "nobody else works here: {reversed:?}"
    );
}

async fn redo(room: &Room) {
    let reversed = done(|| room.history.redo(Origin::default())).await;
    assert!(
        matches!(reversed, ReversalOutcome::Done(_)),
        "nobody else works here: {reversed:?}"
    );
}

async fn take_snapshot(room: &Room, label: &str) {
    done(|| room.history.snapshot(label, SnapshotOptions::default())).await;
}

async fn branch(room: &Room, name: &str) {
    done(|| room.history.branch(name.into(), &Point::Now)).await;
}

async fn restore(room: &Room, label: &str) {
    let restore = RestoreTarget::Point {
        point: Point::Snapshot(label.to_owned()),
        path: WsPath::root(),
    };
    done(|| room.history.restore(restore.clone(), Origin::default())).await;
}
