//! The journal, the past, differences, versions, snapshots and restores.

use garret_core::{EntryKind, ErrorKind, Origin, Storage, Timestamp, WsPath};
use garret_depot::{ChangeKind, Point, UndoSelection};
use garret_testkit::fixture::block_on;
use garret_testkit::mutations::{make_dirs, path, remove, remove_tree, rename, set_mode, write};

use crate::depot::support::{Desk, tree_of};

#[test]
fn a_change_says_who_did_what_and_what_each_path_was() {
    block_on(async {
        let desk = Desk::in_memory().await;
        desk.write("d/a", "one").await;
        let change = desk.write_as("d/a", "three", "session-1", "call-1").await;
        assert_eq!((change.number, change.kind), (2, ChangeKind::Change));
        assert_eq!(
            (change.operation.as_str(), change.summary.as_str()),
            ("write_file", "write `d/a`")
        );
        assert_eq!(change.actor.agent.as_deref(), Some("tester"));
        assert_eq!(change.actor.tool_call.as_deref(), Some("call-1"));
        let (again, paths) = desk.room.change(&Point::Change(change.id.clone())).await.unwrap();
        assert_eq!(again, change);
        assert_eq!(paths.len(), 1);
        let (before, after) = (paths[0].before.as_ref().unwrap(), paths[0].after.as_ref().unwrap());
        assert_eq!(
            (before.size, after.size, after.kind, after.mode),
            (3, 5, EntryKind::File, 0o644)
        );
        assert_ne!(before.version, after.version);
    });
}

#[test]
fn a_batch_is_one_change_and_what_changes_nothing_is_none() {
    block_on(async {
        let desk = Desk::in_memory().await;
        desk.probe
            .batch(vec![write("a", "1"), write("b/c", "2"), remove("a")])
            .await;
        desk.probe.apply(make_dirs("b")).await;
        desk.probe.apply(rename("b", "b")).await;
        desk.probe.refuses(ErrorKind::NotFound, remove("nothing")).await;
        let changes = desk.room.changes(None, 10).await.unwrap();
        assert_eq!(changes.len(), 1);
        let (_, paths) = desk.room.change(&Point::Number(1)).await.unwrap();
        let shown: Vec<_> = paths.iter().map(|one| one.path.display_path()).collect();
        assert_eq!(shown, ["b", "b/c"], "what came and went within the change is not in it");
    });
}

#[test]
fn changes_come_in_pages_newest_first() {
    block_on(async {
        let desk = Desk::in_memory().await;
        for number in 0..5 {
            desk.write("f", &number.to_string()).await;
        }
        let numbers = |changes: Vec<garret_depot::Change>| changes.iter().map(|one| one.number).collect::<Vec<_>>();
        assert_eq!(numbers(desk.room.changes(None, 2).await.unwrap()), [5, 4]);
        assert_eq!(numbers(desk.room.changes(Some(4), 9).await.unwrap()), [3, 2, 1]);
    });
}

#[test]
fn every_point_of_the_past_can_be_read_and_listed_and_not_changed() {
    block_on(async {
        let desk = Desk::in_memory().await;
        let mut trees = vec![desk.probe.tree().await];
        for step in [
            write("d/a", "one"),
            write("d/b", "two"),
            set_mode("d/a", 0o600),
            rename("d", "e"),
            write("e/a", "three"),
            remove_tree("e"),
            write("e", "now a file"),
        ] {
            desk.probe.apply(step).await;
            trees.push(desk.probe.tree().await);
        }
        for (number, expected) in trees.iter().enumerate() {
            assert_eq!(
                desk.tree_at(&Point::Number(number as u64)).await,
                *expected,
                "at {number}"
            );
        }
        let view = desk.room.open_view_at(&Point::Number(2)).await.unwrap();
        let refused = view.apply(write("x", "y").into()).await.unwrap_err();
        assert_eq!((refused.kind(), refused.path()), (ErrorKind::Denied, Some("x")));
        let unknown = desk.room.open_view_at(&Point::Number(99)).await.unwrap_err();
        assert_eq!(unknown.kind(), ErrorKind::NotFound);
    });
}

#[test]
fn a_point_has_many_names() {
    block_on(async {
        let desk = Desk::in_memory().await;
        let first = desk.write("f", "one").await;
        desk.room.snapshot("before", Point::Now).await.unwrap();
        let second = desk.write("f", "two").await;
        let text = |point: Point| {
            let desk = desk.clone();
            async move {
                let view = desk.room.open_view_at(&point).await.unwrap();
                view.read(&path("f"), Default::default()).await.unwrap().bytes
            }
        };
        for named in ["before", &first.id, "1", &first.at.to_string()] {
            assert_eq!(text(Point::Named(named.into())).await, "one", "{named}");
        }
        assert_eq!(text(Point::Snapshot("before".into())).await, "one");
        assert_eq!(text(Point::Time(second.at)).await, "two");
        assert_eq!(text(Point::Now).await, "two");
        assert!(desk.tree_at(&Point::Time(Timestamp::UNIX_EPOCH)).await.is_empty());
        let error = desk.room.open_view_at(&Point::Named("never".into())).await.unwrap_err();
        assert_eq!(error.message(), "there is no snapshot, change or time `never`");
    });
}

#[test]
fn a_difference_names_the_paths_that_differ_and_no_others() {
    block_on(async {
        let desk = Desk::in_memory().await;
        desk.probe
            .batch(vec![
                write("a", "1"),
                write("d/b", "1"),
                write("d/c", "1"),
                write("dd", "1"),
            ])
            .await;
        desk.write("d/b", "2").await;
        desk.write("dd", "2").await;
        desk.write("dd", "1").await;
        desk.probe.apply(remove("d/c")).await;
        desk.write("d/new", "1").await;
        let shown = |within: &str, from: u64, to: u64| {
            let (desk, within) = (desk.clone(), path(within));
            async move {
                let (from, to) = (Point::Number(from), Point::Number(to));
                let paths = desk.room.diff(&from, &to, &within).await.unwrap();
                let word = |one: &garret_depot::PathChange| match (&one.before, &one.after) {
                    (None, _) => format!("+{}", one.path.display_path()),
                    (_, None) => format!("-{}", one.path.display_path()),
                    _ => format!("~{}", one.path.display_path()),
                };
                paths.iter().map(word).collect::<Vec<_>>()
            }
        };
        assert_eq!(shown("", 1, 6).await, ["~d/b", "-d/c", "+d/new"]);
        assert_eq!(shown("", 6, 1).await, ["~d/b", "+d/c", "-d/new"]);
        assert_eq!(shown("d/b", 1, 6).await, ["~d/b"]);
        assert_eq!(shown("", 2, 3).await, ["~dd"]);
        assert_eq!(shown("d", 2, 4).await, Vec::<String>::new());
    });
}

#[test]
fn the_versions_of_a_file_are_followed_across_renames_and_removal() {
    block_on(async {
        let desk = Desk::in_memory().await;
        desk.write("old/a", "1").await;
        desk.write("old/a", "22").await;
        desk.probe.apply(rename("old", "new")).await;
        desk.write("new/a", "333").await;
        desk.write("old/a", "another file of the old name").await;
        let versions = desk.room.versions(&path("new/a"), 10).await.unwrap();
        let shown: Vec<_> = versions
            .iter()
            .map(|one| (one.path.display_path(), one.image.size, one.change.number))
            .collect();
        let expected = [("new/a", 3, 4), ("new/a", 2, 3), ("old/a", 2, 2), ("old/a", 1, 1)];
        assert_eq!(
            shown,
            expected.map(|(name, size, number)| (name.to_owned(), size, number))
        );
        desk.probe.apply(remove("new/a")).await;
        assert_eq!(desk.room.versions(&path("new/a"), 2).await.unwrap().len(), 2);
        let first = &versions[3].change.id;
        desk.room
            .restore_version(&path("new/a"), first, Origin::default())
            .await
            .unwrap();
        assert_eq!(desk.probe.text("new/a").await, "1");
        let missing = desk
            .room
            .restore_version(&path("new/a"), "no-such-change", Origin::default())
            .await;
        assert_eq!(missing.unwrap_err().kind(), ErrorKind::NotFound);
    });
}

#[test]
fn an_undone_rename_is_followed_too() {
    block_on(async {
        let desk = Desk::in_memory().await;
        desk.write("a", "1").await;
        desk.probe.apply(rename("a", "b")).await;
        desk.undone(UndoSelection::Last(1)).await;
        let versions = desk.room.versions(&path("a"), 10).await.unwrap();
        let shown: Vec<_> = versions
            .iter()
            .map(|one| (one.path.display_path(), one.change.number))
            .collect();
        assert_eq!(shown, [("a".to_owned(), 3), ("b".to_owned(), 2), ("a".to_owned(), 1)]);
    });
}

#[test]
fn a_snapshot_is_immutable_and_a_restore_is_one_change_that_can_be_undone() {
    block_on(async {
        let desk = Desk::in_memory().await;
        desk.probe
            .batch(vec![write("d/a", "1"), write("d/b", "1"), write("e", "1")])
            .await;
        let before = desk.probe.tree().await;
        desk.room.snapshot("before", Point::Now).await.unwrap();
        let again = desk.room.snapshot("before", Point::Now).await.unwrap_err();
        assert_eq!(again.kind(), ErrorKind::AlreadyExists);
        desk.probe
            .batch(vec![
                write("d/a", "2"),
                remove_tree("d"),
                write("d", "a file"),
                write("new", "x"),
            ])
            .await;
        desk.write("e", "2").await;
        let changed = desk.probe.tree().await;
        let point = Point::Snapshot("before".into());
        assert_eq!(desk.tree_at(&point).await, before);
        let restore = desk
            .room
            .restore(point.clone(), &WsPath::root(), Origin::default())
            .await
            .unwrap();
        assert_eq!(restore.unwrap().kind, ChangeKind::Restore);
        assert_eq!(desk.probe.tree().await, before);
        let nothing = desk
            .room
            .restore(point.clone(), &WsPath::root(), Origin::default())
            .await
            .unwrap();
        assert_eq!(nothing, None);
        desk.undone(UndoSelection::Last(1)).await;
        assert_eq!(desk.probe.tree().await, changed);
        desk.room.restore(point, &path("e"), Origin::default()).await.unwrap();
        assert_eq!(
            (desk.probe.text("e").await, desk.probe.text("new").await),
            ("1".into(), "x".into())
        );
        assert_eq!(desk.room.snapshots().await.unwrap().len(), 1);
        desk.room.delete_snapshot("before").await.unwrap();
        assert_eq!(
            desk.room.delete_snapshot("before").await.unwrap_err().kind(),
            ErrorKind::NotFound
        );
    });
}

#[test]
fn a_view_stays_what_it_is_while_the_workspace_changes() {
    block_on(async {
        let desk = Desk::in_memory().await;
        desk.write("f", "one").await;
        let view = desk.room.open_view_at(&Point::Now).await.unwrap();
        desk.write("f", "two").await;
        desk.write("g", "new").await;
        assert_eq!(tree_of(view).await.len(), 1);
    });
}

#[test]
fn a_label_cannot_take_the_place_of_the_id_of_a_change() {
    block_on(async {
        let desk = Desk::in_memory().await;
        let first = desk.write("a", "one").await;
        desk.write("a", "two").await;
        let error = desk.room.snapshot(&first.id, Point::Now).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    });
}
