//! The history of files that live elsewhere.

use std::sync::Arc;

use garret_core::{ErrorKind, OpenedStorage, Storage, WsPath};
use garret_depot::{
    ChangeKind, ChangesOptions, ClashReason, Durability, History, Point, RestoreTarget, SnapshotOptions, UndoSelection,
};
use garret_journal::Journaled;
use garret_testkit::Hooked;
use garret_testkit::mutations::{append, copy, link, make_dir, remove, remove_tree, rename, set_mode, write};
use tokio::sync::Notify;

use crate::journal::desk::{Desk, making};
use crate::journal::meddling::Moment;
use crate::journal::stopping::Stopping;
use crate::journal::support::depot_at;

#[tokio::test]
async fn undo_steps_back_and_redo_forward() {
    let desk = Desk::new().await;
    desk.write("a.txt", "one").await;
    desk.write("a.txt", "two").await;
    desk.undo().await;
    assert_eq!(desk.on_disk("a.txt").as_deref(), Some("one"));
    desk.undo().await;
    assert_eq!(desk.on_disk("a.txt"), None);
    desk.redo().await;
    desk.redo().await;
    assert_eq!(desk.on_disk("a.txt").as_deref(), Some("two"));
}

#[tokio::test]
async fn what_was_there_before_the_journal_comes_back() {
    let desk = Desk::over(&[("old/a.txt", "mine")]).await;
    desk.write("old/a.txt", "changed").await;
    assert_eq!(desk.kinds().await, [ChangeKind::Capture, ChangeKind::Change]);
    desk.undo().await;
    assert_eq!(desk.on_disk("old/a.txt").as_deref(), Some("mine"));
}

#[tokio::test]
async fn every_kind_of_mutation_is_taken_back() {
    let desk = Desk::over(&[("dir/a", "a"), ("dir/sub/b", "b"), ("c", "c")]).await;
    desk.room.snapshot("start", SnapshotOptions::default()).await.unwrap();
    let start = desk.trees().await.1;
    let batches = vec![
        vec![write("new/file", "x")],
        vec![write("new/sub/file", "x"), set_mode("new", 0o700)],
        vec![append("c", "more")],
        vec![remove("c")],
        vec![remove_tree("dir")],
        vec![rename("dir", "moved")],
        vec![rename("c", "dir/c")],
        vec![copy("c", "d")],
        vec![make_dir("empty")],
        vec![link("link", "c")],
        vec![set_mode("c", 0o600)],
        vec![set_mode("dir", 0o700)],
        vec![rename("c", "t"), rename("dir/a", "c"), write("t", "swapped")],
        vec![remove_tree("dir"), write("dir", "now a file")],
    ];
    for batch in batches {
        let shown = format!("{batch:?}");
        desk.apply(batch).await;
        let changed = desk.trees().await;
        assert_eq!(changed.0, changed.1, "the journal knows what is there after {shown}");
        assert_ne!(changed.1, start, "{shown} changes something");
        desk.undo().await;
        let undone = desk.trees().await;
        assert_eq!(undone.1, start, "{shown} is taken back");
        assert_eq!(undone.0, start);
        desk.redo().await;
        assert_eq!(desk.trees().await.1, changed.1, "{shown} is done again");
        desk.undo().await;
    }
}

#[tokio::test]
async fn a_batch_that_makes_a_directory_and_sets_its_mode_is_a_change_of_its_maker() {
    let desk = Desk::new().await;
    desk.write("before", "x").await;
    desk.apply(vec![
        write("d/e/file", "x"),
        set_mode("d", 0o700),
        set_mode("d/e", 0o750),
    ])
    .await;
    assert_eq!(desk.kinds().await, [ChangeKind::Change, ChangeKind::Change]);
    desk.undo().await;
    assert!(!desk.path("d").exists(), "the last change is the one that is undone");
    assert_eq!(desk.on_disk("before").as_deref(), Some("x"));
}

#[tokio::test]
async fn what_others_did_is_recorded_before_it_is_overwritten() {
    let desk = Desk::new().await;
    desk.write("a", "ours").await;
    desk.put_outside("a", "theirs");
    desk.write("a", "ours again").await;
    assert_eq!(
        desk.kinds().await,
        [ChangeKind::Change, ChangeKind::Outside, ChangeKind::Change]
    );
    let outside = &desk.changes().await[1];
    assert_eq!(outside.actor.door, "outside");
    desk.undo().await;
    assert_eq!(desk.on_disk("a").as_deref(), Some("theirs"));
}

#[tokio::test]
async fn an_undo_never_overwrites_what_others_did() {
    let desk = Desk::new().await;
    desk.write("a", "ours").await;
    desk.put_outside("a", "theirs");
    let clashes = desk.undo_clashes(UndoSelection::Last(1)).await;
    assert_eq!(clashes.len(), 1);
    assert_eq!(clashes[0].reason, ClashReason::Changed);
    assert_eq!(desk.on_disk("a").as_deref(), Some("theirs"));
    assert_eq!(desk.kinds().await, [ChangeKind::Change, ChangeKind::Outside]);
}

#[tokio::test]
async fn an_undo_leaves_a_directory_that_others_put_files_in() {
    let desk = Desk::new().await;
    desk.apply(vec![make_dir("d")]).await;
    desk.put_outside("d/theirs", "x");
    let clashes = desk.undo_clashes(UndoSelection::Last(1)).await;
    assert_eq!(clashes[0].reason, ClashReason::WouldLoseItsDirectory);
    assert_eq!(desk.on_disk("d/theirs").as_deref(), Some("x"));
}

#[tokio::test]
async fn a_snapshot_meets_everything_and_what_others_do_later_shows() {
    let desk = Desk::over(&[("a", "1"), ("d/b", "2"), ("d/gone", "3")]).await;
    desk.room.snapshot("start", SnapshotOptions::default()).await.unwrap();
    assert_eq!(desk.kinds().await, [ChangeKind::Capture]);
    desk.put_outside("a", "one");
    desk.put_outside("d/new", "4");
    std::fs::remove_file(desk.path("d/gone")).unwrap();
    let expected = [("a", true, true), ("d/gone", true, false), ("d/new", false, true)];
    let expected = expected.map(|(path, before, after)| (path.to_owned(), before, after));
    assert_eq!(desk.diff(Point::Snapshot("start".into())).await, expected);
    assert_eq!(desk.kinds().await, [ChangeKind::Capture, ChangeKind::Outside]);
    let restore = RestoreTarget::Point {
        point: Point::Snapshot("start".into()),
        path: WsPath::root(),
    };
    desk.room
        .restore(restore, making())
        .await
        .unwrap()
        .expect("something differs");
    assert_eq!(desk.on_disk("a").as_deref(), Some("1"));
    assert_eq!(desk.on_disk("d/gone").as_deref(), Some("3"));
    assert_eq!(desk.on_disk("d/new"), None);
}

#[tokio::test]
async fn a_second_snapshot_of_the_same_files_records_nothing() {
    let desk = Desk::over(&[("a", "1"), ("d/b", "2")]).await;
    desk.room.snapshot("one", SnapshotOptions::default()).await.unwrap();
    desk.room.snapshot("two", SnapshotOptions::default()).await.unwrap();
    assert_eq!(desk.kinds().await, [ChangeKind::Capture]);
}

#[tokio::test]
async fn a_lazy_point_says_what_it_never_captured() {
    let desk = Desk::over(&[("met", "1"), ("unmet", "2"), ("later", "3")]).await;
    desk.write("met", "one").await;
    let lazy = SnapshotOptions {
        is_lazy: true,
        ..SnapshotOptions::default()
    };
    assert!(desk.room.snapshot("lazy", lazy).await.unwrap().lazy);
    desk.write("later", "changed").await;
    let past = desk.room.open_view(&Point::Snapshot("lazy".into())).await.unwrap();
    let read = |path: &'static str| {
        let past = past.clone();
        async move { past.read(&WsPath::parse(path).unwrap(), Default::default()).await }
    };
    assert_eq!(read("met").await.unwrap().bytes, "one");
    assert_eq!(
        read("later").await.unwrap().bytes,
        "3",
        "it was met before it was changed"
    );
    assert_eq!(read("unmet").await.unwrap_err().kind(), ErrorKind::Unsupported);
    assert_eq!(read("never").await.unwrap_err().kind(), ErrorKind::NotFound);
}

#[tokio::test]
async fn a_branch_begins_with_what_is_there_and_leads_its_own_life() {
    let desk = Desk::over(&[("a", "1"), ("d/b", "2")]).await;
    let branch = desk.room.branch("try".into(), &Point::Now).await.unwrap();
    assert_eq!(branch.name.as_deref(), Some("try"));
    desk.write("a", "changed").await;
    let depot = crate::journal::support::depot_at(desk.home.path()).get().await.unwrap();
    let branch = depot.workspace("try").await.unwrap();
    let found = branch.read(&WsPath::parse("a").unwrap(), Default::default()).await;
    assert_eq!(found.unwrap().bytes, "1");
    assert_eq!(desk.room.branches().await.unwrap().len(), 1);
}

#[tokio::test]
async fn reading_makes_no_home() {
    let desk = Desk::over(&[("a", "1")]).await;
    desk.room
        .read(&WsPath::parse("a").unwrap(), Default::default())
        .await
        .unwrap();
    assert!(desk.changes().await.is_empty());
    assert!(desk.room.snapshots().await.unwrap().is_empty());
    assert_eq!(std::fs::read_dir(desk.home.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn the_journal_is_there_when_the_place_is_opened_again() {
    let mut desk = Desk::new().await;
    desk.write("a", "1").await;
    let id = desk.room.id().to_owned();
    desk.reopen().await;
    desk.write("a", "2").await;
    assert_eq!(desk.room.id(), id);
    assert_eq!(desk.changes().await.len(), 2);
    desk.undo().await;
    assert_eq!(desk.on_disk("a").as_deref(), Some("1"));
}

#[tokio::test]
async fn two_handles_take_turns_and_see_each_other() {
    let desk = Desk::new().await;
    let other = desk.again().await;
    for round in 0..20 {
        desk.write("a", &format!("ours {round}")).await;
        let theirs = write("a", format!("theirs {round}"));
        other.apply(theirs.into()).await.unwrap();
    }
    assert_eq!(desk.kinds().await, [ChangeKind::Change; 40]);
}

#[tokio::test]
async fn a_point_is_complete_from_the_first_look_at_everything_on() {
    let desk = Desk::over(&[("unmet", "1")]).await;
    desk.write("a", "1").await;
    assert!(!desk.room.is_complete(&Point::Number(1)).await.unwrap());
    assert!(
        desk.room
            .branch("early".into(), &Point::Number(1))
            .await
            .unwrap()
            .incomplete
    );
    desk.room.snapshot("all", SnapshotOptions::default()).await.unwrap();
    for (point, is_complete) in [
        (Point::Number(1), false),
        (Point::Snapshot("all".into()), true),
        (Point::Now, true),
    ] {
        assert_eq!(desk.room.is_complete(&point).await.unwrap(), is_complete, "{point:?}");
    }
    let late = desk
        .room
        .branch("late".into(), &Point::Snapshot("all".into()))
        .await
        .unwrap();
    assert!(!late.incomplete);
    let told = desk.room.branches().await.unwrap();
    assert_eq!(told.iter().filter(|branch| branch.incomplete).count(), 1, "{told:?}");
}

#[tokio::test]
async fn a_branch_that_began_without_some_files_is_never_complete_and_nor_are_its_branches() {
    let desk = Desk::over(&[("unmet", "1")]).await;
    desk.write("a", "1").await;
    desk.room.branch("early".into(), &Point::Number(1)).await.unwrap();
    desk.room.snapshot("all", SnapshotOptions::default()).await.unwrap();
    let depot = crate::journal::support::depot_at(desk.home.path()).get().await.unwrap();
    let branch = depot.workspace("early").await.unwrap();
    branch.apply(write("b", "1").into()).await.unwrap();
    for point in [Point::Number(0), Point::Now] {
        assert!(!History::is_complete(&branch, &point).await.unwrap(), "{point:?}");
    }
    let later = History::branch(&branch, "later".into(), &Point::Now).await.unwrap();
    assert!(later.incomplete);
    branch.flatten().await.unwrap();
    assert!(!History::is_complete(&branch, &Point::Now).await.unwrap());
}

#[tokio::test]
async fn to_a_branch_from_before_a_file_was_met_the_file_is_unknown_and_not_the_base() {
    let desk = Desk::over(&[("d/both", "here"), ("d/unseen", "only here")]).await;
    desk.write("a", "1").await;
    desk.room.branch("try".into(), &Point::Number(1)).await.unwrap();
    let depot = crate::journal::support::depot_at(desk.home.path()).get().await.unwrap();
    let branch = depot.workspace("try").await.unwrap();
    branch.apply(write("d/both", "there").into()).await.unwrap();
    let merging = desk.room.merge_input("try").await.unwrap();
    let told = |side: &garret_core::MergeSide| -> Vec<_> {
        let changes = side.changes.iter();
        changes
            .map(|one| (one.path.display_path(), one.before.is_some()))
            .collect()
    };
    let new = |paths: &[&str]| -> Vec<_> { paths.iter().map(|path| (path.to_string(), false)).collect() };
    assert_eq!(told(&merging.ours), new(&["d", "d/both", "d/unseen"]));
    assert_eq!(told(&merging.theirs), new(&["d", "d/both"]));
}

#[tokio::test]
async fn large_files_are_captured_and_come_back() {
    let desk = Desk::new().await;
    let large: String = (0..1_200_000).map(|number| format!("{number:08}\n")).collect();
    desk.put_outside("large", &large);
    desk.apply(vec![append("large", "end")]).await;
    desk.apply(vec![remove("large")]).await;
    desk.undo().await;
    assert_eq!(desk.on_disk("large"), Some(format!("{large}end")));
    desk.undo().await;
    assert_eq!(desk.on_disk("large"), Some(large));
}

#[tokio::test]
async fn a_branch_is_checked_out_to_a_directory_of_its_own() {
    let desk = Desk::over(&[("a", "1"), ("d/b", "2")]).await;
    desk.room.branch("try".into(), &Point::Now).await.unwrap();
    let lazy = crate::journal::support::depot_at(desk.home.path());
    let branch = lazy.get().await.unwrap().workspace("try").await.unwrap();
    let directory = crate::journal::support::folder();
    let opened = crate::journal::support::local(directory.path()).await;
    let seen = branch.describe().await.unwrap();
    let config = serde_json::json!({});
    let room = Journaled::move_out(&branch, opened, lazy, Durability::Relaxed, &config)
        .await
        .unwrap();
    let depot = branch.depot();
    let is_replaced = depot.replace_config(&branch, &seen, &config).await.unwrap();
    assert!(!is_replaced, "its files are elsewhere than was seen");
    assert_eq!(std::fs::read_to_string(directory.path().join("d/b")).unwrap(), "2");
    room.apply(write("a", "tried").into()).await.unwrap();
    let undone = room.undo(UndoSelection::Last(1), making()).await.unwrap();
    crate::journal::desk::done(undone);
    assert_eq!(std::fs::read_to_string(directory.path().join("a")).unwrap(), "1");
    assert_eq!(
        desk.on_disk("a").as_deref(),
        Some("1"),
        "the branch never disturbs its parent"
    );
}

#[tokio::test]
async fn a_checkout_that_ends_in_its_middle_leaves_the_branch_as_it_was() {
    let desk = Desk::over(&[("a", "1"), ("d/b", "2")]).await;
    desk.room.branch("try".into(), &Point::Now).await.unwrap();
    let lazy = crate::journal::support::depot_at(desk.home.path());
    let depot = lazy.get().await.unwrap();
    let branch = depot.workspace("try").await.unwrap();
    let directory = crate::journal::support::folder();
    let stopped = Arc::new(Notify::new());
    let opened = crate::journal::support::local(directory.path()).await;
    let place = opened.location_id.clone().unwrap();
    let stopping = Stopping {
        steps: 1,
        stopped: stopped.clone(),
    };
    let hooked = OpenedStorage {
        storage: Arc::new(Hooked::new(opened.storage, stopping)),
        ..opened
    };
    let config = serde_json::json!({});
    tokio::select! {
        _ = Journaled::move_out(&branch, hooked, lazy.clone(), Durability::Relaxed, &config) => panic!("it was to stop"),
        () = stopped.notified() => {}
    }
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    let info = branch.describe().await.unwrap();
    assert_eq!(info.kind, "filestore");
    assert!(depot.workspace_at("local", &place).await.unwrap().is_none());
    let other = crate::journal::support::folder();
    let opened = crate::journal::support::local(other.path()).await;
    let again = Journaled::move_out(&branch, opened, lazy, Durability::Relaxed, &config).await;
    assert!(again.is_ok(), "it is checked out elsewhere");
    assert_eq!(std::fs::read_to_string(other.path().join("d/b")).unwrap(), "2");
}

#[tokio::test]
async fn a_home_can_have_all_its_logs_ingested() {
    let desk = Desk::new().await;
    desk.write("a", "1").await;
    let depot = crate::journal::support::depot_at(desk.home.path()).get().await.unwrap();
    let id = desk.room.id().to_owned();
    assert_eq!(depot.workspace(&id).await.unwrap().describe().await.unwrap().head, 0);
    depot.ingest_logs().await.unwrap();
    assert_eq!(depot.workspace(&id).await.unwrap().describe().await.unwrap().head, 1);
    desk.write("a", "2").await;
    assert_eq!(desk.changes().await.len(), 2);
}

#[tokio::test]
async fn a_restore_to_a_point_before_files_were_met_leaves_them_alone_and_names_them() {
    let desk = Desk::over(&[("met", "1"), ("unmet", "2"), ("later", "3")]).await;
    desk.write("met", "one").await;
    let lazy = SnapshotOptions {
        is_lazy: true,
        ..SnapshotOptions::default()
    };
    desk.room.snapshot("lazy", lazy).await.unwrap();
    desk.write("met", "two").await;
    desk.write("later", "changed").await;
    let restore = RestoreTarget::Point {
        point: Point::Snapshot("lazy".into()),
        path: WsPath::root(),
    };
    let change = desk
        .room
        .restore(restore, making())
        .await
        .unwrap()
        .expect("something differs");
    assert_eq!(desk.on_disk("met").as_deref(), Some("one"));
    assert_eq!(desk.on_disk("later").as_deref(), Some("3"));
    assert_eq!(desk.on_disk("unmet").as_deref(), Some("2"));
    assert!(change.summary.contains("`unmet`"), "{}", change.summary);
    assert!(!change.summary.contains("`later`"), "{}", change.summary);
}

#[tokio::test]
async fn names_that_are_not_utf_8_come_back_with_their_directory() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let desk = Desk::over(&[("d/plain", "1"), ("d/sub/x", "2")]).await;
    let odd = desk.path("d/sub").join(OsStr::from_bytes(b"odd-\xff"));
    let inside = desk.path("d").join(OsStr::from_bytes(b"dir-\xfe"));
    std::fs::write(&odd, "odd").unwrap();
    std::fs::create_dir(&inside).unwrap();
    std::fs::write(inside.join("file"), "inside").unwrap();
    desk.apply(vec![remove_tree("d")]).await;
    assert!(!desk.path("d").exists());
    desk.undo().await;
    assert_eq!(std::fs::read_to_string(&odd).unwrap(), "odd");
    assert_eq!(std::fs::read_to_string(inside.join("file")).unwrap(), "inside");
    assert_eq!(desk.on_disk("d/sub/x").as_deref(), Some("2"));
    desk.redo().await;
    assert!(!desk.path("d").exists());
    desk.undo().await;
    desk.apply(vec![rename("d", "moved")]).await;
    desk.undo().await;
    assert_eq!(std::fs::read_to_string(&odd).unwrap(), "odd");
}

#[tokio::test]
async fn a_directory_that_others_take_away_and_bring_back_is_met_anew() {
    let desk = Desk::new().await;
    desk.write("d/sub/a", "one").await;
    let aside = desk.home.path().join("aside");
    std::fs::rename(desk.path("d"), &aside).unwrap();
    std::os::unix::fs::symlink("nowhere", desk.path("d")).unwrap();
    desk.apply(vec![remove("d")]).await;
    std::fs::rename(&aside, desk.path("d")).unwrap();
    desk.write("d/sub/a", "two").await;
    desk.undo().await;
    assert_eq!(desk.on_disk("d/sub/a").as_deref(), Some("one"));
}

#[tokio::test]
async fn where_the_home_was_removed_nothing_is_written_that_cannot_be_recorded() {
    let desk = Desk::new().await;
    desk.write("a", "one").await;
    std::fs::remove_dir_all(desk.home.path()).unwrap();
    let refused = desk.room.apply(write("a", "two").into()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unavailable, "{refused}");
    assert_eq!(desk.on_disk("a").as_deref(), Some("one"));
}

#[tokio::test]
async fn what_others_put_there_just_in_time_is_recorded_with_what_was_made_of_it() {
    for (change, made) in [(copy("d/a", "e"), "e"), (rename("d", "e"), "e/a")] {
        let desk = Desk::over(&[("kept", "1")]).await;
        let theirs = desk.path("d");
        let room = desk
            .meddled(Moment::Change, move || {
                std::fs::create_dir(&theirs).unwrap();
                std::fs::write(theirs.join("a"), "just now").unwrap();
            })
            .await;
        room.apply(change.into()).await.unwrap();
        room.apply(write(made, "later").into()).await.unwrap();
        room.undo(UndoSelection::Last(1), making()).await.unwrap();
        assert_eq!(desk.on_disk(made).as_deref(), Some("just now"));
        room.snapshot("after", SnapshotOptions::default()).await.unwrap();
        let (disk, depot) = desk.trees().await;
        assert_eq!(disk, depot);
    }
}

#[tokio::test]
async fn a_copy_of_what_others_change_just_then_is_recorded_as_what_it_is() {
    let desk = Desk::new().await;
    desk.write("a", "ours").await;
    let theirs = desk.path("a");
    let meddler = move || std::fs::write(&theirs, "them").unwrap();
    let room = desk.meddled(Moment::Change, meddler).await;
    room.apply(copy("a", "b").into()).await.unwrap();
    assert_eq!(desk.on_disk("b").as_deref(), Some("them"));
    let (known, there) = desk.trees().await;
    assert_eq!(known, there);
    let expected = [ChangeKind::Change, ChangeKind::Change, ChangeKind::Outside];
    assert_eq!(desk.kinds().await, expected);
}

#[tokio::test]
async fn what_others_move_in_between_two_looks_has_its_directory_in_the_journal() {
    let desk = Desk::over(&[("kept", "1")]).await;
    let theirs = desk.path("d");
    let meddler = move || {
        std::fs::create_dir(&theirs).unwrap();
        std::fs::write(theirs.join("a"), "just now").unwrap();
    };
    let moment = Moment::Look(WsPath::parse("d/a").unwrap());
    let room = desk.meddled(moment, meddler).await;
    room.apply(write("d/a", "later").into()).await.unwrap();
    room.changes(ChangesOptions::default()).await.unwrap();
    let depot = depot_at(desk.home.path()).get().await.unwrap();
    assert_eq!(depot.check().await.unwrap(), []);
    room.undo(UndoSelection::Last(1), making()).await.unwrap();
    assert_eq!(desk.on_disk("d/a").as_deref(), Some("just now"));
}
