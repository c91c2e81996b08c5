//! Branches: lineage, flattening, and that nobody disturbs anybody.

use garret_core::{ErrorKind, WsPath};
use garret_depot::{NewWorkspace, Point, UndoSelection};
use garret_testkit::fixture::block_on;
use garret_testkit::mutations::{path, remove, remove_tree, rename, write};

use crate::depot::support::Desk;

async fn branch(desk: &Desk, name: &str, point: Point) -> Desk {
    Desk::over(
        desk.room
            .branch(NewWorkspace::named(name), &point)
            .await
            .expect("the name is free"),
    )
}

#[test]
fn a_branch_begins_at_its_point_and_neither_disturbs_the_other() {
    block_on(async {
        let desk = Desk::in_memory().await;
        desk.probe.batch(vec![write("d/a", "1"), write("d/b", "1")]).await;
        let then = desk.probe.tree().await;
        desk.write("d/a", "2").await;
        let try_out = branch(&desk, "try", Point::Number(1)).await;
        assert_eq!(try_out.probe.tree().await, then);
        let parent = desk.probe.tree().await;
        try_out
            .probe
            .batch(vec![remove("d/a"), write("d/c", "3"), write("d/b", "3")])
            .await;
        assert_eq!(desk.probe.tree().await, parent);
        assert_eq!(try_out.probe.names("d").await, ["d/b", "d/c"]);
        desk.probe.apply(remove_tree("d")).await;
        assert_eq!(try_out.probe.names("d").await, ["d/b", "d/c"]);
        assert_eq!(try_out.probe.text("d/b").await, "3");
    });
}

#[test]
fn what_a_branch_removes_can_come_back_by_undo() {
    block_on(async {
        let desk = Desk::in_memory().await;
        desk.probe.batch(vec![write("d/a", "1"), write("d/b", "1")]).await;
        let then = desk.probe.tree().await;
        let try_out = branch(&desk, "try", Point::Now).await;
        try_out.probe.apply(remove_tree("d")).await;
        assert!(try_out.probe.tree().await.is_empty());
        let (_, paths) = try_out.room.change(&Point::Number(1)).await.unwrap();
        assert_eq!(paths.len(), 3);
        try_out.undone(UndoSelection::Last(1)).await;
        assert_eq!(try_out.probe.tree().await, then);
        let nothing = try_out
            .room
            .undo(UndoSelection::Last(1), garret_core::Origin::default())
            .await
            .unwrap_err();
        assert_eq!(
            nothing.kind(),
            ErrorKind::NotFound,
            "the changes of the parent are not the branch's to undo"
        );
    });
}

#[test]
fn the_difference_of_two_branches_counts_from_where_they_parted() {
    block_on(async {
        let desk = Desk::in_memory().await;
        desk.probe
            .batch(vec![write("a", "1"), write("b", "1"), write("c", "1")])
            .await;
        let one = branch(&desk, "one", Point::Now).await;
        let two = branch(&one, "two", Point::Now).await;
        desk.write("a", "2").await;
        one.write("b", "2").await;
        two.write("c", "2").await;
        let shown = |from: &Desk, to: &Desk| {
            let (from, to) = (from.room.clone(), to.room.clone());
            async move {
                let paths = from.diff_with(&to, &WsPath::root()).await.unwrap();
                paths.iter().map(|one| one.path.display_path()).collect::<Vec<_>>()
            }
        };
        assert_eq!(shown(&desk, &one).await, ["a", "b"]);
        assert_eq!(shown(&one, &two).await, ["b", "c"]);
        assert_eq!(shown(&two, &desk).await, ["a", "c"]);
    });
}

#[test]
fn the_versions_of_a_file_reach_back_before_the_fork() {
    block_on(async {
        let desk = Desk::in_memory().await;
        desk.write("a", "1").await;
        let try_out = branch(&desk, "try", Point::Now).await;
        desk.write("a", "parent only").await;
        try_out.probe.apply(rename("a", "b")).await;
        try_out.write("b", "22").await;
        let versions = try_out.room.versions(&path("b"), 10).await.unwrap();
        let shown: Vec<_> = versions
            .iter()
            .map(|one| (one.path.display_path(), one.image.size))
            .collect();
        assert_eq!(shown, [("b".to_owned(), 2), ("b".to_owned(), 1), ("a".to_owned(), 1)]);
    });
}

#[test]
fn flattening_changes_nothing_that_can_be_seen() {
    block_on(async {
        let desk = Desk::in_memory().await;
        for index in 0..5_000 {
            if index % 500 == 0 {
                let many = (index..index + 500)
                    .map(|index| write(&format!("d{}/f{index}", index % 7), "x"))
                    .collect();
                desk.probe.batch(many).await;
            }
        }
        let middle = branch(&desk, "middle", Point::Now).await;
        middle.write("d1/f1", "changed").await;
        let leaf = branch(&middle, "leaf", Point::Now).await;
        leaf.probe
            .batch(vec![
                remove("d1/f8"),
                write("d1/f1", "again"),
                write("new", "x"),
                remove_tree("d3"),
            ])
            .await;
        leaf.write("d1/f8", "back").await;
        let points = [Point::Number(0), Point::Number(1), Point::Number(2)];
        let mut before = Vec::new();
        for point in &points {
            before.push(leaf.tree_at(point).await);
        }
        assert_eq!(leaf.room.depth().await.unwrap(), 3);
        leaf.room.flatten().await.unwrap();
        leaf.room.flatten().await.unwrap();
        assert_eq!(leaf.room.depth().await.unwrap(), 1);
        for (point, expected) in points.iter().zip(&before) {
            assert!(
                leaf.tree_at(point).await == *expected,
                "{point:?} differs after flattening"
            );
        }
        leaf.undone(UndoSelection::Last(2)).await;
        assert!(leaf.probe.tree().await == before[0]);
        let differing = leaf.room.diff_with(&middle.room, &WsPath::root()).await.unwrap();
        assert_eq!(differing, []);
    });
}

#[test]
fn a_long_line_of_branches_stays_right_and_is_flattened() {
    block_on(async {
        let mut desk = Desk::in_memory().await;
        for depth in 0..80 {
            desk.write(&format!("f{depth}"), &depth.to_string()).await;
            if depth % 10 == 9 {
                desk.probe.apply(remove(&format!("f{}", depth - 5))).await;
            }
            desk = branch(&desk, &format!("b{depth}"), Point::Now).await;
        }
        assert_eq!(desk.probe.names("").await.len(), 72);
        assert_eq!(desk.probe.text("f0").await, "0");
        assert!(desk.room.depth().await.unwrap() <= 65);
    });
}

#[test]
fn workspaces_are_listed_renamed_deleted_and_recovered() {
    block_on(async {
        let desk = Desk::in_memory().await;
        desk.write("a", "1").await;
        let try_out = branch(&desk, "try", Point::Now).await;
        let depot = desk.room.depot();
        let taken = depot.create(NewWorkspace::named("try")).await.unwrap_err();
        assert_eq!(taken.kind(), ErrorKind::AlreadyExists);
        for odd in ["", "a b", "a@b", "../x", "-x"] {
            let error = depot.create(NewWorkspace::named(odd)).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{odd:?}");
        }
        depot.rename("try", "tried").await.unwrap();
        let listed = depot.workspaces().await.unwrap();
        let names: Vec<_> = listed.iter().map(|one| one.name.clone().unwrap()).collect();
        assert_eq!(names, ["box", "tried"]);
        let fork = listed[1].fork.clone().unwrap();
        assert_eq!((fork.workspace.as_str(), fork.change), (desk.room.id(), 1));
        depot.delete("box").await.unwrap();
        assert_eq!(depot.workspace("box").await.unwrap_err().kind(), ErrorKind::NotFound);
        desk.probe.refuses(ErrorKind::NotFound, write("a", "2")).await;
        assert_eq!(
            try_out.probe.text("a").await,
            "1",
            "a branch outlives what it was branched off"
        );
        depot.recover("box").await.unwrap();
        assert_eq!(depot.workspace("box").await.unwrap().id(), desk.room.id());
    });
}
