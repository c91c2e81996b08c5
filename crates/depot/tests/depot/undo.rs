//! Undo and redo.

use garret_core::{
    Actor, EntryPath, ErrorKind, History, HistoryOperation, Origin, PathExpectation, PathPut, PlacedEntry, PutBatch,
    StatOptions, Storage, WsPath,
};
use garret_depot::{ChangeKind, ClashReason, Point, ReversalOutcome, UndoSelection};
use garret_testkit::fixture::block_on;
use garret_testkit::mutations::{link, make_dir, remove, remove_tree, rename, set_mode, write};

use crate::depot::support::Desk;

#[test]
fn undo_brings_back_bytes_mode_links_and_absence() {
    block_on(async {
        let desk = Desk::in_memory().await;
        desk.probe
            .batch(vec![write("d/a", "one"), set_mode("d/a", 0o600), link("d/l", "a")])
            .await;
        let before = desk.probe.tree().await;
        let all = vec![
            write("d/a", "two"),
            set_mode("d/a", 0o755),
            remove("d/l"),
            rename("d", "e"),
            write("new/deep/file", "x"),
        ];
        desk.probe.batch(all).await;
        let after = desk.probe.tree().await;
        let undo = desk.undone(UndoSelection::Last(1)).await;
        assert_eq!((undo.kind, undo.reverses), (ChangeKind::Undo, vec![2]));
        assert_eq!(desk.probe.tree().await, before);
        assert_eq!(desk.redone().await.kind, ChangeKind::Redo);
        assert_eq!(desk.probe.tree().await, after);
    });
}

#[test]
fn repeating_undo_steps_back_and_repeating_redo_steps_forward() {
    block_on(async {
        let desk = Desk::in_memory().await;
        let mut trees = vec![desk.probe.tree().await];
        for content in ["one", "two", "three"] {
            desk.write("f", content).await;
            trees.push(desk.probe.tree().await);
        }
        for expected in trees.iter().rev().skip(1) {
            desk.undone(UndoSelection::Last(1)).await;
            assert_eq!(desk.probe.tree().await, *expected);
        }
        let error = desk
            .room
            .undo(UndoSelection::Last(1), Origin::default())
            .await
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        for expected in &trees[1..] {
            desk.redone().await;
            assert_eq!(desk.probe.tree().await, *expected);
        }
        assert_eq!(
            desk.room.redo(Origin::default()).await.unwrap_err().kind(),
            ErrorKind::NotFound
        );
        // What was redone can be undone again.
        desk.undone(UndoSelection::Last(1)).await;
        assert_eq!(desk.probe.text("f").await, "two");
    });
}

#[test]
fn a_new_change_clears_redo() {
    block_on(async {
        let desk = Desk::in_memory().await;
        desk.write("f", "one").await;
        desk.undone(UndoSelection::Last(1)).await;
        desk.write("g", "new").await;
        assert_eq!(
            desk.room.redo(Origin::default()).await.unwrap_err().kind(),
            ErrorKind::NotFound
        );
        assert!(!desk.probe.exists("f").await);
    });
}

#[test]
fn the_last_n_are_undone_together_and_redone_together() {
    block_on(async {
        let desk = Desk::in_memory().await;
        desk.write("f", "zero").await;
        let before = desk.probe.tree().await;
        desk.write("f", "one").await;
        desk.probe.apply(rename("f", "g")).await;
        desk.write("g", "two").await;
        let after = desk.probe.tree().await;
        let undo = desk.undone(UndoSelection::Last(3)).await;
        assert_eq!(undo.reverses, [4, 3, 2]);
        assert_eq!(desk.probe.tree().await, before);
        desk.redone().await;
        assert_eq!(desk.probe.tree().await, after);
    });
}

#[test]
fn a_change_out_of_the_middle_leaves_later_work_alone() {
    block_on(async {
        let desk = Desk::in_memory().await;
        desk.write("a", "one").await;
        let middle = desk.write("b", "two").await;
        desk.write("c", "three").await;
        desk.undone(UndoSelection::Change(middle.id.clone())).await;
        assert!(!desk.probe.exists("b").await);
        assert_eq!(desk.probe.text("c").await, "three");
        let again = desk
            .room
            .undo(UndoSelection::Change(middle.id), Origin::default())
            .await
            .unwrap_err();
        assert_eq!(again.kind(), ErrorKind::Invalid);
        // The plain undo skips what is undone already.
        assert_eq!(desk.undone(UndoSelection::Last(1)).await.reverses, [3]);
        assert_eq!(desk.undone(UndoSelection::Last(1)).await.reverses, [1]);
    });
}

#[test]
fn a_clash_names_each_path_and_touches_nothing() {
    block_on(async {
        let desk = Desk::in_memory().await;
        let middle = {
            desk.probe
                .batch(vec![write("a", "1"), write("b", "1"), write("c", "1")])
                .await;
            desk.newest().await
        };
        desk.write("a", "2").await;
        desk.probe.apply(remove("c")).await;
        let before = (desk.probe.tree().await, desk.newest().await);
        let ReversalOutcome::Clashed(clashes) = desk.undo(UndoSelection::Change(middle.id)).await else {
            panic!("two paths were changed since");
        };
        let shown: Vec<_> = clashes
            .iter()
            .map(|clash| (clash.path.display_path(), clash.reason))
            .collect();
        assert_eq!(
            shown,
            [("a".into(), ClashReason::Changed), ("c".into(), ClashReason::Changed)]
        );
        assert_eq!(clashes[0].left.as_ref().map(|image| image.size), Some(1));
        assert_eq!(clashes[1].found, None);
        assert_eq!((desk.probe.tree().await, desk.newest().await), before);
    });
}

#[test]
fn a_directory_with_later_files_is_not_taken_away() {
    block_on(async {
        let desk = Desk::in_memory().await;
        desk.probe.apply(make_dir("d")).await;
        let made = desk.newest().await;
        desk.write("d/later", "x").await;
        let ReversalOutcome::Clashed(clashes) = desk.undo(UndoSelection::Change(made.id)).await else {
            panic!("a file is in the directory");
        };
        assert_eq!(clashes[0].path.display_path(), "d/later");
        assert_eq!(clashes[0].reason, ClashReason::WouldLoseItsDirectory);
    });
}

#[test]
fn a_file_whose_directory_is_gone_is_not_brought_back_alone() {
    block_on(async {
        let desk = Desk::in_memory().await;
        desk.probe.batch(vec![write("d/f", "x"), write("d/g", "y")]).await;
        desk.probe.apply(remove("d/f")).await;
        let removed = desk.newest().await;
        desk.probe.apply(remove_tree("d")).await;
        let ReversalOutcome::Clashed(clashes) = desk.undo(UndoSelection::Change(removed.id)).await else {
            panic!("the directory is gone");
        };
        assert_eq!(clashes[0].reason, ClashReason::DirectoryIsGone);
        // Together with the removal of the directory it can be.
        desk.undone(UndoSelection::Last(2)).await;
        assert_eq!(desk.probe.text("d/f").await, "x");
    });
}

#[test]
fn everything_by_one_session_or_one_tool_call_is_undone() {
    block_on(async {
        let desk = Desk::in_memory().await;
        desk.write_as("a", "1", "alice", "call-1").await;
        desk.write_as("b", "1", "bob", "call-2").await;
        desk.write_as("a", "2", "alice", "call-3").await;
        let undo = desk.undone(UndoSelection::Session("alice".into())).await;
        assert_eq!(undo.reverses, [3, 1]);
        assert_eq!(desk.probe.names("").await, ["b"]);
        desk.undone(tool_call("call-2", None)).await;
        assert!(desk.probe.names("").await.is_empty());
        let nobody = desk
            .room
            .undo(UndoSelection::Session("carol".into()), Origin::default())
            .await;
        assert_eq!(nobody.unwrap_err().kind(), ErrorKind::NotFound);
    });
}

fn tool_call(call: &str, session: Option<&str>) -> UndoSelection {
    UndoSelection::ToolCall {
        call: call.into(),
        session: session.map(Into::into),
    }
}

#[test]
fn a_tool_call_of_several_sessions_is_undone_for_the_one_that_is_named() {
    block_on(async {
        let desk = Desk::in_memory().await;
        desk.write_as("a", "1", "alice", "2").await;
        desk.write_as("b", "1", "bob", "2").await;
        let refused = desk.room.undo(tool_call("2", None), Origin::default()).await;
        let refused = refused.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Invalid);
        assert!(refused.message().contains("`alice`, `bob`"), "{refused}");
        desk.undone(tool_call("2", Some("alice"))).await;
        assert_eq!(desk.probe.names("").await, ["b"]);
        desk.undone(tool_call("2", None)).await;
        assert!(
            desk.probe.names("").await.is_empty(),
            "one session is left that made it"
        );
    });
}

#[test]
fn undoing_an_undo_by_its_id_is_a_redo() {
    block_on(async {
        let desk = Desk::in_memory().await;
        desk.write("f", "one").await;
        let undo = desk.undone(UndoSelection::Last(1)).await;
        let redo = desk.undone(UndoSelection::Change(undo.id)).await;
        assert_eq!(redo.kind, ChangeKind::Redo);
        assert_eq!(desk.probe.text("f").await, "one");
        let first = desk.room.changes(None, 10).await.unwrap().pop().unwrap();
        assert_eq!(first.undone_by, None);
    });
}

#[test]
fn a_change_that_two_undos_hold_stays_undone_when_one_lets_go() {
    block_on(async {
        let desk = Desk::in_memory().await;
        desk.write("f", "same").await;
        let change = desk.write("f", "same").await;
        desk.undone(UndoSelection::Change(change.id.clone())).await;
        let redo = desk.redone().await;
        let second = desk.undone(UndoSelection::Change(change.id)).await;
        // Since the change left everything as it was, its reversals can be reversed in any order.
        let third = desk.undone(UndoSelection::Change(redo.id)).await;
        desk.undone(UndoSelection::Change(third.id)).await;
        let (change, _) = desk.room.change(&Point::Number(2)).await.unwrap();
        assert_eq!(change.undone_by, Some(second.number));
    });
}

#[test]
fn the_way_forward_costs_no_more_than_the_way_back() {
    block_on(async {
        let desk = Desk::in_memory().await;
        for number in 0..2_000 {
            desk.write(&format!("f{}", number % 100), &number.to_string()).await;
        }
        let start = std::time::Instant::now();
        desk.undone(UndoSelection::Last(1_000)).await;
        let back = start.elapsed();
        let start = std::time::Instant::now();
        desk.redone().await;
        let forward = start.elapsed();
        // It was a hundred times as much where every change that stands was looked at for each that comes back.
        assert!(forward < back * 6, "{forward:?} after {back:?}");
    });
}

#[test]
fn a_long_row_of_reversals_stays_as_short_as_its_first() {
    block_on(async {
        let desk = Desk::in_memory().await;
        let mut newest = desk.write("a", "one").await;
        for _ in 0..40 {
            newest = desk.undone(UndoSelection::Change(newest.id)).await;
        }
        assert_eq!(newest.summary, "redo: write `a`");
        assert_eq!(desk.probe.text("a").await, "one");
        assert_eq!(
            desk.undone(UndoSelection::Change(newest.id)).await.summary,
            "undo: write `a`"
        );
    });
}

#[test]
fn a_file_that_an_undo_brings_back_has_its_time_of_creation() {
    block_on(async {
        let desk = Desk::in_memory().await;
        desk.write("f", "one").await;
        let path = WsPath::parse("f").expect("a path");
        let stat = desk.room.stat(&path, StatOptions::default()).await;
        let created = stat.expect("it is there").created;
        desk.probe.batch(vec![remove("f")]).await;
        desk.undone(UndoSelection::Last(1)).await;
        let stat = desk.room.stat(&path, StatOptions::default()).await;
        assert_eq!(stat.expect("it is back").created, created);
    });
}

#[test]
fn a_planned_reversal_holds_beside_changes_of_other_paths() {
    block_on(async {
        let call = UndoSelection::ToolCall {
            call: "call".into(),
            session: None,
        };
        for selection in [UndoSelection::Last(1), UndoSelection::Session("session".into()), call] {
            let desk = Desk::in_memory().await;
            let written = desk.write_as("f", "one", "session", "call").await;
            let undo = HistoryOperation::Undo(selection);
            let plan = History::plan(&desk.room, &undo).await.expect("it can be planned");
            desk.write_as("g", "two", "session", "call").await;
            let undone = desk.room.put(plan.puts, Origin::default()).await;
            let undone = undone.expect("others changed other paths").expect("it is a change");
            assert_eq!(undone.reverses, vec![written.number]);
            assert!(!desk.probe.exists("f").await && desk.probe.exists("g").await);
        }
    });
}

#[test]
fn a_planned_redo_holds_beside_changes_of_other_paths() {
    block_on(async {
        let desk = Desk::in_memory().await;
        desk.write("f", "one").await;
        desk.undone(UndoSelection::Last(1)).await;
        let plan = History::plan(&desk.room, &HistoryOperation::Redo).await;
        desk.write("g", "two").await;
        let redone = desk
            .room
            .put(plan.expect("it can be planned").puts, Origin::default())
            .await;
        assert_eq!(
            redone
                .expect("others changed other paths")
                .map(|change| change.reverses),
            Some(vec![2])
        );
        assert_eq!(desk.probe.text("f").await, "one");
    });
}

#[test]
fn of_two_planned_undos_of_one_change_the_second_is_refused() {
    block_on(async {
        let desk = Desk::in_memory().await;
        desk.write("f", "one").await;
        desk.write("g", "two").await;
        let undo = HistoryOperation::Undo(UndoSelection::Last(1));
        let first = History::plan(&desk.room, &undo).await.expect("it can be planned");
        let second = History::plan(&desk.room, &undo).await.expect("it can be planned");
        desk.room
            .put(first.puts, Origin::default())
            .await
            .expect("nothing changed since");
        let error = desk.room.put(second.puts, Origin::default()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict);
        assert_eq!(desk.undone(UndoSelection::Last(1)).await.reverses, vec![1]);
    });
}

/// Writes a file as a command of a session does that makes derived files and nothing else.
async fn derive(desk: &Desk, path: &str, session: &str) {
    let put = PathPut {
        path: EntryPath::from_bytes(path.as_bytes().to_vec()),
        expected: PathExpectation::Is(None),
        placed: PlacedEntry::File {
            content: "derived".into(),
            mode: 0o644,
        },
    };
    let puts = PutBatch {
        puts: vec![put],
        kind: ChangeKind::Derived,
        ..PutBatch::default()
    };
    let origin = Origin {
        actor: Actor {
            session: Some(session.into()),
            ..Actor::default()
        },
        ..Origin::default()
    };
    let change = desk.room.put(puts, origin).await.expect("it can be put");
    assert_eq!(change.expect("it differs").kind, ChangeKind::Derived);
}

#[test]
fn an_undo_of_the_newest_changes_steps_over_derived_ones_but_one_of_a_session_does_not() {
    block_on(async {
        let desk = Desk::in_memory().await;
        derive(&desk, "0.pyc", "s").await;
        desk.write_as("a", "1", "s", "1").await;
        derive(&desk, "1.pyc", "s").await;
        desk.write_as("b", "1", "s", "2").await;
        derive(&desk, "2.pyc", "s").await;
        let plan = |selection| {
            let room = &desk.room;
            async move { room.plan(&HistoryOperation::Undo(selection)).await.unwrap() }
        };
        for (count, reverses, stepped_over) in [
            (1, vec![4], vec![5]),
            (2, vec![4, 2], vec![5, 3]),
            (9, vec![4, 2], vec![5, 3]),
        ] {
            let plan = plan(UndoSelection::Last(count)).await;
            assert_eq!(
                (plan.puts.reverses, plan.stepped_over),
                (reverses, stepped_over),
                "{count}"
            );
        }
        let session = plan(UndoSelection::Session("s".into())).await;
        assert_eq!(
            (session.puts.reverses, session.stepped_over),
            (vec![5, 4, 3, 2, 1], vec![])
        );
        desk.undone(UndoSelection::Last(2)).await;
        let error = desk.room.undo(UndoSelection::Last(1), Origin::default()).await;
        assert_eq!(
            error.unwrap_err().message(),
            "only changes of derived files are left to undo: 5, 3, 1"
        );
        desk.undone(UndoSelection::Change("3".into())).await;
        assert!(!desk.probe.exists("1.pyc").await);
    });
}

#[test]
fn an_undo_takes_along_the_derived_changes_in_its_way_and_no_others() {
    block_on(async {
        let desk = Desk::in_memory().await;
        desk.write("project/a", "1").await;
        derive(&desk, "tool", "s").await;
        derive(&desk, "project/a.pyc", "s").await;
        derive(&desk, "project.log", "s").await;
        let plan = desk.room.plan(&HistoryOperation::Undo(UndoSelection::Last(1))).await;
        let plan = plan.unwrap();
        assert_eq!((plan.puts.reverses, plan.stepped_over), (vec![3, 1], vec![4, 2]));
        desk.undone(UndoSelection::Last(1)).await;
        assert!(!desk.probe.exists("project").await);
        assert!(desk.probe.exists("tool").await && desk.probe.exists("project.log").await);
    });
}

#[test]
fn a_derived_change_does_not_clear_redo() {
    block_on(async {
        let desk = Desk::in_memory().await;
        desk.write("f", "one").await;
        desk.undone(UndoSelection::Last(1)).await;
        derive(&desk, "f.pyc", "s").await;
        desk.redone().await;
        assert_eq!(desk.probe.text("f").await, "one");
    });
}
