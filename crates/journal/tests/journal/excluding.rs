//! Paths that `exclude` covers although the journal recorded them before.

use std::sync::Arc;

use garret_core::{
    ChangeKind, EntryPath, Exclusions, History, HistoryOperation, PathExpectation, PathPut, PlacedEntry, Point,
    PutBatch, RestoreTarget, SnapshotOptions, UndoSelection, WsPath,
};
use garret_depot::{ChangesOptions, Durability};
use garret_journal::Journaled;
use garret_testkit::mutations::{make_dir, write};

use crate::journal::desk::{Desk, done, making};
use crate::journal::support::{depot_at, local};

/// A change of files, two of which are excluded only afterwards, and then changed by another program.
async fn desk() -> (Desk, Arc<Journaled>) {
    let desk = Desk::over(&[("kept", "1")]).await;
    desk.room
        .snapshot("start", SnapshotOptions::default())
        .await
        .expect("it can be taken");
    desk.apply(vec![
        make_dir("p"),
        make_dir("p/target"),
        write("p/target/x", "recorded"),
        write("p/a", "recorded"),
        write("b.log", "recorded"),
        write("kept", "2"),
    ])
    .await;
    desk.put_outside("p/target/x", "built by hand");
    desk.put_outside("b.log", "logged by hand");
    let exclusions = Exclusions::new(&["target/".to_owned(), "*.log".to_owned()]).expect("they are valid");
    let (files, depot) = (local(&desk.path("")).await, depot_at(desk.home.path()));
    let room = Journaled::open_excluding(files, depot, Durability::Relaxed, exclusions).await;
    (desk, room.expect("the journal can be opened"))
}

/// Asserts that no program but Garret changed anything that the journal records, and that the excluded files stand.
async fn assert_left_alone(desk: &Desk, room: &Journaled) {
    assert_eq!(desk.on_disk("p/target/x").as_deref(), Some("built by hand"));
    assert_eq!(desk.on_disk("b.log").as_deref(), Some("logged by hand"));
    let changes = room.changes(ChangesOptions::default()).await.expect("it can be read");
    let outside = changes.iter().filter(|change| change.kind == ChangeKind::Outside);
    assert_eq!(outside.count(), 0, "{changes:?}");
}

#[tokio::test]
async fn an_undo_and_a_redo_leave_alone_what_is_excluded_by_now() {
    let (desk, room) = desk().await;
    let operation = HistoryOperation::Undo(UndoSelection::Last(1));
    let plan = room.plan(&operation).await.unwrap();
    let left: Vec<_> = plan.left_alone.iter().map(EntryPath::display_path).collect();
    assert_eq!(left, ["b.log", "p/target"]);
    done(room.undo(UndoSelection::Last(1), making()).await.unwrap());
    assert_left_alone(&desk, &room).await;
    assert_eq!(
        (desk.on_disk("kept").as_deref(), desk.on_disk("p/a")),
        (Some("1"), None)
    );
    done(room.redo(making()).await.unwrap());
    assert_left_alone(&desk, &room).await;
    assert_eq!(desk.on_disk("p/a").as_deref(), Some("recorded"));
}

#[tokio::test]
async fn a_restore_leaves_alone_what_is_excluded_by_now() {
    let (desk, room) = desk().await;
    let restore = async |path: &str| {
        let (point, path) = (Point::Snapshot("start".into()), WsPath::parse(path).unwrap());
        let operation = HistoryOperation::Restore(RestoreTarget::Point { point, path });
        let plan = room.plan(&operation).await.unwrap();
        room.put(plan.puts, making()).await.unwrap()
    };
    for path in ["b.log", "p/target", "p/target/x"] {
        assert_eq!(restore(path).await, None, "{path}");
        assert_left_alone(&desk, &room).await;
    }
    restore("").await.expect("the other files differ");
    assert_left_alone(&desk, &room).await;
    assert_eq!(desk.on_disk("kept").as_deref(), Some("1"));
}

#[tokio::test]
async fn a_put_leaves_alone_what_is_excluded_by_now() {
    let (desk, room) = desk().await;
    let (_, changed) = room.change(&Point::Number(2)).await.unwrap();
    let put = |path: &str, placed| {
        let path = EntryPath::from(WsPath::parse(path).unwrap());
        let before = changed.iter().find(|one| one.path == path);
        let expected = PathExpectation::Is(before.and_then(|one| one.after.clone()));
        PathPut { path, expected, placed }
    };
    let file = |content: &str| PlacedEntry::File {
        content: content.to_owned().into(),
        mode: 0o644,
    };
    let puts = PutBatch {
        puts: vec![
            put("b.log", PlacedEntry::Nothing),
            put("p/target/x", file("merged")),
            put("p/a", file("merged")),
            put("c.log", file("merged")),
        ],
        ..PutBatch::default()
    };
    let planned = room.plan_put(&puts).await.unwrap();
    assert_eq!(planned.len(), 1, "{planned:?}");
    room.put(puts, making()).await.unwrap().expect("one file differs");
    assert_left_alone(&desk, &room).await;
    assert_eq!(
        (desk.on_disk("p/a").as_deref(), desk.on_disk("c.log")),
        (Some("merged"), None)
    );
}
