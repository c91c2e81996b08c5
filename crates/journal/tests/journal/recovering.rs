//! A change that a crash interrupted is recovered with its operation, its author and its time.

use std::sync::Arc;

use garret_core::{
    Actor, Batch, ChangeKind, Clock, EntryPath, History, MergePoint, NewBranch, Origin, PathExpectation, PathPut,
    PlacedEntry, Point, PutBatch, RestoreTarget, SnapshotOptions, Storage, SystemClock, UndoSelection, WsPath,
};
use garret_journal::Journaled;
use garret_testkit::mutations::write;

use crate::journal::desk::Desk;

/// Two files with a change that can be undone, and with an undone change before it if `is_undone`.
async fn desk(is_undone: bool) -> Desk {
    let desk = Desk::over(&[("a", "1"), ("b", "1")]).await;
    let options = SnapshotOptions::default();
    desk.room.snapshot("start", options).await.expect("it can be taken");
    desk.apply(vec![write("a", "2"), write("b", "2")]).await;
    if is_undone {
        desk.undo().await;
    }
    desk
}

/// Begins an operation, lets its process die after `steps` mutations, and checks the change that is recovered.
async fn assert_recovered<W: Future>(
    mut desk: Desk,
    steps: usize,
    (operation, kind): (&'static str, ChangeKind),
    work: impl FnOnce(Arc<Journaled>, Origin) -> W,
) {
    let origin = Origin {
        operation: operation.into(),
        summary: format!("a {operation}"),
        actor: Actor {
            agent: Some("builder".into()),
            door: "my-editor".into(),
            ..Actor::default()
        },
        command: Some("make".into()),
    };
    let clock = SystemClock::default();
    let begun = clock.now();
    desk.crash(steps, |room| work(room, origin)).await;
    let died = clock.now();
    std::thread::sleep(std::time::Duration::from_millis(20));
    desk.reopen().await;
    let recovered = desk.changes().await.remove(0);
    let described = (recovered.operation.as_str(), recovered.summary.as_str(), recovered.kind);
    let at = format!("{operation} after {steps} steps");
    assert_eq!(described, (operation, format!("a {operation}").as_str(), kind), "{at}");
    assert!(begun <= recovered.at && recovered.at <= died, "{at}: {recovered:?}");
    let actor = recovered.actor;
    let authors = (actor.agent.as_deref(), actor.door.as_ref(), actor.command.as_deref());
    assert_eq!(authors, (Some("builder"), "my-editor", Some("make")), "{at}");
}

/// Returns puts of new content at both files.
fn puts(change: u64, merged: Option<MergePoint>) -> PutBatch {
    let at = SystemClock::default().now();
    let put = |path: &str| PathPut {
        path: EntryPath::from_bytes(path.as_bytes().to_vec()),
        expected: PathExpectation::UnchangedSince { change, at },
        placed: PlacedEntry::File {
            content: "put".into(),
            mode: 0o644,
        },
    };
    PutBatch {
        puts: vec![put("a"), put("b")],
        merged,
        ..PutBatch::default()
    }
}

#[tokio::test]
async fn an_undo_is_recovered_as_it_was_begun() {
    for steps in 0..=2 {
        let work = |room: Arc<Journaled>, origin| async move { room.undo(UndoSelection::Last(1), origin).await };
        assert_recovered(desk(false).await, steps, ("undo", ChangeKind::Undo), work).await;
    }
}

#[tokio::test]
async fn a_redo_is_recovered_as_it_was_begun() {
    for steps in 0..=2 {
        let work = |room: Arc<Journaled>, origin| async move { room.redo(origin).await };
        assert_recovered(desk(true).await, steps, ("redo", ChangeKind::Redo), work).await;
    }
}

#[tokio::test]
async fn a_restore_is_recovered_as_it_was_begun() {
    for steps in 0..=2 {
        let (point, path) = (Point::Snapshot("start".into()), WsPath::root());
        let target = RestoreTarget::Point { point, path };
        let work = |room: Arc<Journaled>, origin| async move { room.restore(target, origin).await };
        assert_recovered(desk(false).await, steps, ("restore", ChangeKind::Restore), work).await;
    }
}

#[tokio::test]
async fn a_merge_is_recovered_as_it_was_begun() {
    for steps in 0..=2 {
        let desk = desk(false).await;
        let (name, config) = ("side".to_owned(), None);
        let branch = desk.room.branch(NewBranch { name, config }, &Point::Now).await;
        let workspace = branch.expect("it can be made").id;
        let merged = Some(MergePoint { workspace, change: 0 });
        let work = |room: Arc<Journaled>, origin| async move { room.put(puts(2, merged), origin).await };
        assert_recovered(desk, steps, ("merge", ChangeKind::Merge), work).await;
    }
}

#[tokio::test]
async fn what_a_command_or_code_did_is_recovered_as_it_was_begun() {
    for operation in ["run", "run_code"] {
        for steps in 0..=2 {
            let work = |room: Arc<Journaled>, origin| async move { room.put(puts(2, None), origin).await };
            assert_recovered(desk(false).await, steps, (operation, ChangeKind::Change), work).await;
        }
    }
}

#[tokio::test]
async fn a_change_of_derived_files_is_recovered_as_one() {
    for steps in 0..=2 {
        let puts = PutBatch {
            kind: ChangeKind::Derived,
            ..puts(2, None)
        };
        let work = |room: Arc<Journaled>, origin| async move { room.put(puts, origin).await };
        assert_recovered(desk(false).await, steps, ("run", ChangeKind::Derived), work).await;
    }
}

#[tokio::test]
async fn a_batch_is_recovered_as_it_was_begun() {
    let both = || vec![write("a", "batch"), write("b", "batch")];
    for (steps, mutations) in [(0, both()), (1, both()), (2, both()), (1, vec![write("a", "batch")])] {
        let work = |room: Arc<Journaled>, origin| async move {
            let batch = Batch {
                mutations,
                origin,
                ..Batch::default()
            };
            room.apply(batch).await
        };
        assert_recovered(desk(false).await, steps, ("write", ChangeKind::Change), work).await;
    }
}
