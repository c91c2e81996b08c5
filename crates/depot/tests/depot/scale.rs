//! Many files in a workspace, many workspaces in a home: everything is there, and what is asked costs what it touches.

use std::sync::Arc;

use garret_core::{
    Batch, History, ListOptions, Mutation, Origin, Point, SnapshotOptions, Storage, UndoSelection, WsPath,
};
use garret_depot::NewWorkspace;
use garret_testkit::Probe;
use garret_testkit::mutations::{path, write};

use crate::depot::support::{on_disk, workspace};

const FILES: usize = 50_000;
const WORKSPACES: usize = 500;

fn file(number: usize) -> String {
    format!("d{:02}/e{:02}/f{number}", number % 100, number / 100 % 100)
}

async fn fill(room: &impl Storage) {
    for start in (0..FILES).step_by(10_000) {
        let batch = Batch {
            mutations: (start..start + 10_000)
                .map(|number| write(&file(number), number.to_string()))
                .collect(),
            ..Batch::default()
        };
        room.apply(batch).await.expect("they are written");
    }
}

#[tokio::test]
async fn fifty_thousand_files_are_listed_diffed_branched_and_undone() {
    let home = tempfile::tempdir().expect("a temporary directory can be made");
    let depot = on_disk(home.path()).await;
    let room = workspace(&depot, "box").await;
    fill(&room).await;
    let probe = Probe::new(Arc::new(room.clone()), None);
    let listed = probe.paths("", true, 7_000).await;
    assert_eq!(listed.len(), FILES + 100 + listed_directories());
    assert!(listed.is_sorted(), "pages follow each other in order");
    History::snapshot(&room, "full", SnapshotOptions::default())
        .await
        .expect("the label is free");
    History::branch(&room, "branch".into(), &Point::Now)
        .await
        .expect("the name is free");
    let branch = depot.workspace("branch").await.expect("it was just made");
    for number in [0, 777, FILES - 1] {
        probe.write(&file(number), "changed").await;
        let text = Probe::new(Arc::new(branch.clone()), None).text(&file(number)).await;
        assert_eq!(text, number.to_string(), "a branch keeps what was there");
    }
    let full = Point::Named("full".into());
    let changes = History::diff(&room, &full, &Point::Now, &WsPath::root()).await;
    assert_eq!(changes.expect("both points are known").len(), 3);
    History::undo(&room, UndoSelection::Last(3), Origin::default())
        .await
        .expect("there is something to undo");
    let changes = History::diff(&room, &full, &Point::Now, &WsPath::root()).await;
    assert!(changes.expect("both points are known").is_empty());
    probe.apply(garret_testkit::mutations::rename("d07", "moved")).await;
    let below = ListOptions {
        is_deep: true,
        limit: FILES,
        ..ListOptions::default()
    };
    let moved = room.list(&path("moved"), below).await.expect("it is there").entries;
    assert_eq!(moved.iter().filter(|entry| entry.size > 0).count(), FILES / 100);
}

/// Each of the hundred directories has as many below it as there are numbers by which its files are spread.
fn listed_directories() -> usize {
    (0..FILES)
        .map(|number| (number % 100, number / 100 % 100))
        .collect::<std::collections::BTreeSet<_>>()
        .len()
}

#[tokio::test]
async fn five_hundred_workspaces_of_a_home_do_not_mix() {
    let home = tempfile::tempdir().expect("a temporary directory can be made");
    let depot = on_disk(home.path()).await;
    let mut rooms = Vec::new();
    for number in 0..WORKSPACES {
        let room = depot.create(NewWorkspace::named(&format!("w{number}"))).await;
        rooms.push(room.expect("the name is free"));
    }
    let write = |number: usize| {
        let room = rooms[number].clone();
        tokio::spawn(async move {
            let mutation = Mutation::write(path("same/name"), format!("content of {number}"));
            room.apply(Batch::from(mutation)).await.expect("it is written");
        })
    };
    for task in (0..WORKSPACES).map(write).collect::<Vec<_>>() {
        task.await.expect("no task fails");
    }
    drop((rooms, depot));
    let depot = on_disk(home.path()).await;
    assert_eq!(depot.workspaces().await.expect("they can be listed").len(), WORKSPACES);
    for number in 0..WORKSPACES {
        let room = depot.workspace(&format!("w{number}")).await.expect("it was made");
        assert_eq!(room.changes(None, 10).await.expect("it has a journal").len(), 1);
        let probe = Probe::new(Arc::new(room), None);
        assert_eq!(probe.text("same/name").await, format!("content of {number}"));
    }
}
