//! What a crash leaves is settled by whoever comes next.

use garret_core::{Mutation, Storage, WsPath};
use garret_depot::{ChangeKind, Depot, History, UndoSelection};
use garret_testkit::mutations::{append, link, make_dir, remove, rename, set_mode, write};

use crate::journal::desk::{Desk, making};
use crate::journal::support::{context, options};

/// Each with what must be there in the end.
fn batches() -> Vec<Vec<Mutation>> {
    vec![
        vec![write("a", "new"), write("b", "new"), remove("c")],
        vec![write("new/x", "1"), write("new/y", "2")],
        vec![rename("a", "moved"), write("a", "other"), append("b", "more")],
        vec![make_dir("d"), link("d/link", "../a"), set_mode("b", 0o600)],
        vec![remove("a"), make_dir("a"), write("a/inside", "x")],
    ]
}

#[tokio::test]
async fn a_change_is_rolled_forward_from_wherever_it_stopped() {
    for batch in batches() {
        for steps in 0..=batch.len() {
            let mut desk = Desk::over(&[("a", "1"), ("b", "2"), ("c", "3")]).await;
            desk.room.snapshot("start", Default::default()).await.unwrap();
            let start = desk.trees().await.1;
            let wanted = {
                let other = Desk::over(&[("a", "1"), ("b", "2"), ("c", "3")]).await;
                other.apply(batch.clone()).await;
                other.trees().await.1
            };
            let mutations = batch.clone();
            desk.crash(steps, |room| async move {
                let batch = garret_core::Batch {
                    mutations,
                    ..Default::default()
                };
                room.apply(batch).await
            })
            .await;
            desk.reopen().await;
            let (known, there) = desk.trees().await;
            assert_eq!(there, wanted, "{batch:?} after {steps} steps");
            assert_eq!(known, there, "{batch:?} after {steps} steps");
            assert_eq!(
                desk.kinds().await,
                [ChangeKind::Capture, ChangeKind::Change],
                "{batch:?} {steps}"
            );
            desk.undo().await;
            assert_eq!(desk.trees().await.1, start, "{batch:?} after {steps} steps");
        }
    }
}

#[tokio::test]
async fn an_undo_is_rolled_forward_from_wherever_it_stopped() {
    for steps in 0..=3 {
        let mut desk = Desk::over(&[("a", "1"), ("b", "2")]).await;
        desk.room.snapshot("start", Default::default()).await.unwrap();
        let start = desk.trees().await.1;
        desk.apply(vec![write("a", "new"), remove("b"), write("d/c", "new")])
            .await;
        desk.crash(steps, |room| async move {
            room.undo(UndoSelection::Last(1), making()).await
        })
        .await;
        desk.reopen().await;
        let (known, there) = desk.trees().await;
        assert_eq!(there, start, "after {steps} steps");
        assert_eq!(known, there);
        let kinds = [ChangeKind::Capture, ChangeKind::Change, ChangeKind::Undo];
        assert_eq!(desk.kinds().await, kinds, "after {steps} steps");
        desk.redo().await;
        assert_eq!(desk.on_disk("d/c").as_deref(), Some("new"));
    }
}

#[tokio::test]
async fn what_others_changed_meanwhile_is_left_alone_and_recorded() {
    for steps in 0..=2 {
        let mut desk = Desk::over(&[("a", "1"), ("b", "2")]).await;
        desk.crash(steps, |room| async move {
            let batch = garret_core::Batch {
                mutations: vec![write("a", "new"), write("b", "new")],
                ..Default::default()
            };
            room.apply(batch).await
        })
        .await;
        desk.put_outside("a", "theirs");
        desk.reopen().await;
        assert_eq!(desk.on_disk("a").as_deref(), Some("theirs"), "after {steps} steps");
        assert_eq!(desk.on_disk("b").as_deref(), Some("new"), "after {steps} steps");
        let kinds = [ChangeKind::Capture, ChangeKind::Change, ChangeKind::Outside];
        assert_eq!(desk.kinds().await, kinds);
        let (known, there) = desk.trees().await;
        assert_eq!(known, there);
    }
}

#[tokio::test]
async fn a_change_whose_content_is_lost_is_rolled_back() {
    let mut desk = Desk::over(&[("a", "1"), ("b", "2")]).await;
    let mut large = vec![0; 300_000];
    blake3::Hasher::new().finalize_xof().fill(&mut large);
    desk.crash(1, |room| async move {
        let batch = garret_core::Batch {
            mutations: vec![write("a", "new"), write("b", large)],
            ..Default::default()
        };
        room.apply(batch).await
    })
    .await;
    assert_eq!(desk.on_disk("a").as_deref(), Some("new"));
    assert!(remove_blobs(&desk.home.path().join("blobs")) > 0);
    desk.reopen().await;
    assert_eq!(desk.on_disk("a").as_deref(), Some("1"));
    assert_eq!(desk.on_disk("b").as_deref(), Some("2"));
    assert_eq!(desk.kinds().await, [ChangeKind::Capture]);
}

#[tokio::test]
async fn an_append_that_was_cut_off_is_finished() {
    let mut desk = Desk::over(&[("log", "one\n")]).await;
    desk.crash(0, |room| async move { room.apply(append("log", "two\n").into()).await })
        .await;
    desk.put_outside("log", "one\ntw");
    desk.reopen().await;
    assert_eq!(desk.on_disk("log").as_deref(), Some("one\ntwo\n"));
}

#[tokio::test]
async fn a_reader_never_sees_half_of_a_change() {
    let desk = Desk::over(&[("a", "1"), ("b", "1")]).await;
    desk.crash(1, |room| async move {
        let batch = garret_core::Batch {
            mutations: vec![write("a", "2"), write("b", "2")],
            ..Default::default()
        };
        room.apply(batch).await
    })
    .await;
    assert_eq!(
        desk.on_disk("a").as_deref(),
        Some("2"),
        "other programs see it path by path"
    );
    let read = |path: &'static str| {
        let room = desk.room.clone();
        async move {
            room.read(&WsPath::parse(path).unwrap(), Default::default())
                .await
                .unwrap()
                .bytes
        }
    };
    assert_eq!(read("b").await, "2");
    assert_eq!(read("a").await, "2");
}

fn remove_blobs(folder: &std::path::Path) -> usize {
    let mut count = 0;
    for entry in std::fs::read_dir(folder).expect("the blobs are this test's own") {
        let path = entry.expect("the blobs are this test's own").path();
        if path.is_dir() {
            count += remove_blobs(&path);
        } else {
            std::fs::remove_file(path).expect("the blobs are this test's own");
            count += 1;
        }
    }
    count
}

/// A workspace that was deleted after a crash left it with half of a change, with its home and its id.
async fn deleted_in_the_middle() -> (Desk, Depot, String) {
    let desk = Desk::over(&[("a", "1"), ("b", "2")]).await;
    desk.crash(1, |room| async move {
        let mutations = vec![write("b", "new"), write("c", "new")];
        let batch = garret_core::Batch {
            mutations,
            ..Default::default()
        };
        room.apply(batch).await
    })
    .await;
    let depot = Depot::open(desk.home.path(), options(), context()).await;
    let depot = depot.expect("the home is fine");
    let id = depot.workspaces().await.expect("they can be read").remove(0).id;
    depot.delete(&id).await.expect("it is there");
    (desk, depot, id)
}

#[tokio::test]
async fn what_a_crash_left_open_takes_no_change_of_a_deleted_workspace_into_the_next_one() {
    let (mut desk, depot, first) = deleted_in_the_middle().await;
    desk.reopen().await;
    desk.write("d", "4").await;
    assert!(depot.workspace(&first).await.is_err(), "it stays deleted");
    assert_eq!(desk.kinds().await, [ChangeKind::Change, ChangeKind::Change]);
    assert_eq!(
        desk.on_disk("c").as_deref(),
        Some("new"),
        "the change is settled all the same"
    );
    desk.room.snapshot("all", Default::default()).await.unwrap();
    let (known, there) = desk.trees().await;
    assert_eq!(known, there);
    assert_eq!(depot.check().await.unwrap(), []);
}

#[tokio::test]
async fn what_a_crash_left_open_is_settled_by_a_workspace_that_was_deleted_and_is_recovered() {
    let (mut desk, depot, first) = deleted_in_the_middle().await;
    depot.recover(&first).await.unwrap();
    desk.reopen().await;
    assert_eq!(desk.kinds().await, [ChangeKind::Capture, ChangeKind::Change]);
    assert_eq!(desk.on_disk("c").as_deref(), Some("new"));
    desk.undo().await;
    assert_eq!((desk.on_disk("b").as_deref(), desk.on_disk("c")), (Some("2"), None));
}
