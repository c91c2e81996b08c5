//! What a merge begins with: the point that both sides last had in common.

use garret_core::{
    ErrorKind, MergeInput, MergePoint, MergeSide, Origin, PathExpectation, PathPut, PlacedEntry, PutBatch,
};
use garret_depot::{DepotWorkspace, NewWorkspace, Point, UndoSelection};
use garret_testkit::{Probe, mutations};

use crate::depot::support::{Desk, in_memory, workspace};

async fn branch(desk: &Desk, name: &str) -> Desk {
    let room = desk.room.branch(NewWorkspace::named(name), &Point::Now).await;
    Desk::over(room.expect("the name is free"))
}

async fn merging(into: &DepotWorkspace, other: &DepotWorkspace) -> MergeInput {
    into.merging(other.id()).await.expect("they have met")
}

/// Takes in all of theirs, as a merge in which only they did something would.
async fn take_in(into: &DepotWorkspace, other: &DepotWorkspace) {
    let merging = merging(into, other).await;
    let put = |change: &garret_core::PathChange| PathPut {
        path: change.path.clone(),
        expected: PathExpectation::Is(change.before.clone()),
        placed: change.after.clone().map_or(PlacedEntry::Nothing, PlacedEntry::Image),
    };
    let puts = PutBatch {
        puts: merging.theirs.changes.iter().map(put).collect(),
        moves: merging.theirs.moves.clone(),
        merged: Some(merging.point),
        ..PutBatch::default()
    };
    into.put(puts, Origin::default()).await.expect("nothing clashes");
}

fn paths(side: &MergeSide) -> Vec<String> {
    side.changes.iter().map(|change| change.path.display_path()).collect()
}

fn moves(side: &MergeSide) -> Vec<(String, String)> {
    side.moves
        .iter()
        .map(|(from, to)| (from.display_path(), to.display_path()))
        .collect()
}

#[tokio::test]
async fn a_first_merge_begins_at_the_fork() {
    let ours = Desk::in_memory().await;
    ours.write("a", "1").await;
    let theirs = branch(&ours, "try").await;
    theirs.write("b", "2").await;
    ours.write("c", "3").await;
    let merging = ours.room.merging("try").await.expect("they have met");
    assert_eq!(
        Probe::new(merging.base.clone(), None).tree().await,
        ours.tree_at(&Point::Number(1)).await
    );
    assert_eq!(
        (paths(&merging.ours), paths(&merging.theirs)),
        (vec!["c".into()], vec!["b".into()])
    );
    assert_eq!(
        (merging.ours.name.as_str(), merging.theirs.name.as_str()),
        ("box", "try")
    );
    let point = MergePoint {
        workspace: theirs.room.id().to_owned(),
        change: 1,
    };
    assert_eq!(merging.point, point);
    let back = theirs.room.merging("box").await.expect("they have met");
    assert_eq!(
        (paths(&back.ours), paths(&back.theirs)),
        (vec!["b".into()], vec!["c".into()])
    );
}

#[tokio::test]
async fn a_second_merge_begins_where_the_first_ended_in_either_direction() {
    let ours = Desk::in_memory().await;
    let theirs = branch(&ours, "try").await;
    theirs.write("a", "1").await;
    take_in(&ours.room, &theirs.room).await;
    theirs.write("b", "2").await;
    let again = merging(&ours.room, &theirs.room).await;
    assert_eq!((paths(&again.ours), paths(&again.theirs)), (vec![], vec!["b".into()]));
    ours.write("c", "3").await;
    let back = merging(&theirs.room, &ours.room).await;
    assert_eq!(
        (paths(&back.ours), paths(&back.theirs)),
        (vec!["b".into()], vec!["c".into()])
    );
    take_in(&theirs.room, &ours.room).await;
    let done = merging(&theirs.room, &ours.room).await;
    assert_eq!(paths(&done.theirs), Vec::<String>::new());
    let rest = merging(&ours.room, &theirs.room).await;
    assert_eq!((paths(&rest.ours), paths(&rest.theirs)), (vec![], vec!["b".into()]));
}

#[tokio::test]
async fn what_both_have_from_a_third_is_common() {
    let root = Desk::in_memory().await;
    let (one, other, third) = (
        branch(&root, "one").await,
        branch(&root, "other").await,
        branch(&root, "third").await,
    );
    third.write("shared", "1").await;
    take_in(&one.room, &third.room).await;
    take_in(&other.room, &third.room).await;
    one.write("shared", "2").await;
    let merging = merging(&other.room, &one.room).await;
    assert_eq!(paths(&merging.ours), Vec::<String>::new());
    assert_eq!(paths(&merging.theirs), ["shared"]);
    assert!(merging.theirs.changes[0].before.is_some(), "it was there in the base");
}

#[tokio::test]
async fn a_merge_that_was_undone_is_made_anew() {
    let ours = Desk::in_memory().await;
    ours.write("z", "0").await;
    let theirs = branch(&ours, "try").await;
    theirs.write("a", "1").await;
    take_in(&ours.room, &theirs.room).await;
    ours.undone(UndoSelection::Last(1)).await;
    assert!(!ours.probe.exists("a").await);
    assert_eq!(paths(&merging(&ours.room, &theirs.room).await.theirs), ["a"]);
    ours.redone().await;
    assert_eq!(
        paths(&merging(&ours.room, &theirs.room).await.theirs),
        Vec::<String>::new()
    );
}

#[tokio::test]
async fn moves_are_told_in_order_and_only_those_since_the_base() {
    let ours = Desk::in_memory().await;
    ours.write("d/a", "1").await;
    ours.probe.apply(mutations::rename("d/a", "d/b")).await;
    let theirs = branch(&ours, "try").await;
    theirs.probe.apply(mutations::rename("d", "e")).await;
    theirs.probe.apply(mutations::rename("e/b", "e/c")).await;
    let first = merging(&ours.room, &theirs.room).await;
    let pair = |from: &str, to: &str| (from.to_owned(), to.to_owned());
    assert_eq!(moves(&first.theirs), [pair("d", "e"), pair("e/b", "e/c")]);
    assert_eq!(moves(&first.ours), []);
    take_in(&ours.room, &theirs.room).await;
    theirs.probe.apply(mutations::rename("e/c", "f")).await;
    assert_eq!(
        moves(&merging(&ours.room, &theirs.room).await.theirs),
        [pair("e/c", "f")]
    );
}

#[tokio::test]
async fn a_merge_that_changes_nothing_is_remembered_all_the_same() {
    let ours = Desk::in_memory().await;
    let theirs = branch(&ours, "try").await;
    ours.write("a", "1").await;
    theirs.write("a", "1").await;
    let point = merging(&ours.room, &theirs.room).await.point;
    let puts = PutBatch {
        merged: Some(point),
        ..PutBatch::default()
    };
    assert_eq!(
        ours.room
            .put(puts, Origin::default())
            .await
            .expect("there is nothing to clash"),
        None
    );
    ours.write("a", "2").await;
    let again = merging(&ours.room, &theirs.room).await;
    assert_eq!((paths(&again.ours), paths(&again.theirs)), (vec!["a".into()], vec![]));
    assert!(again.ours.changes[0].before.is_some(), "the base is what was merged");
}

#[tokio::test]
async fn retention_keeps_what_the_next_merge_begins_with() {
    let ours = Desk::in_memory().await;
    let theirs = branch(&ours, "try").await;
    theirs.write("a", "1").await;
    take_in(&ours.room, &theirs.room).await;
    theirs.write("a", "2").await;
    theirs.write("a", "3").await;
    theirs
        .room
        .forget_history(&Point::Now)
        .await
        .expect("there is something to forget");
    let again = merging(&ours.room, &theirs.room).await;
    let path = garret_core::WsPath::parse("a").expect("it is a path");
    let read = again.base.read(&path, garret_core::ReadOptions::default()).await;
    assert_eq!(read.expect("the base is kept").bytes.as_ref(), b"1");
    assert_eq!((paths(&again.ours), paths(&again.theirs)), (vec![], vec!["a".into()]));
}

#[tokio::test]
async fn strangers_deleted_ones_and_oneself_cannot_be_merged() {
    let depot = in_memory();
    let one = workspace(&depot, "one").await;
    workspace(&depot, "other").await;
    let refusal = async |name: &str| one.merging(name).await.expect_err("it cannot be merged");
    assert_eq!(refusal("one").await.kind(), ErrorKind::Invalid);
    let nobody = refusal("nobody").await.to_string();
    assert_eq!(refusal("nobody").await.kind(), ErrorKind::NotFound);
    let told = async || refusal("other").await.to_string().replace("other", "nobody");
    // Else whoever may merge could find out which workspaces there are.
    assert_eq!(told().await.replace("annobody", "another"), nobody);
    depot.delete("other").await.expect("it is there");
    assert_eq!(told().await.replace("annobody", "another"), nobody);
    one.branch(NewWorkspace::named("try"), &Point::Now)
        .await
        .expect("the name is free");
    depot.delete("try").await.expect("it is there");
    let relative = refusal("try").await;
    assert!(relative.hint_text().contains("recovered"), "{relative}");
}

#[tokio::test]
async fn a_name_that_a_stranger_has_tells_nothing_of_the_stranger() {
    let depot = in_memory();
    let (one, _) = (workspace(&depot, "one").await, workspace(&depot, "other").await);
    let refusal = async |name: &str| {
        let made = one.branch(NewWorkspace::named(name), &Point::Now).await;
        made.expect_err("the name is taken").to_string()
    };
    let alive = refusal("other").await;
    depot.delete("other").await.expect("it is there");
    assert_eq!(refusal("other").await, alive);
    depot.delete("one").await.expect("it is there");
    assert!(refusal("one").await.contains("deleted"), "of a relative it does");
}
