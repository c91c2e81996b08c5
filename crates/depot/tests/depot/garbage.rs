//! Collecting garbage.

use std::time::Duration;

use bytes::Bytes;
use garret_core::{ErrorKind, Precondition};
use garret_depot::{CollectOptions, NewWorkspace, Point};
use garret_testkit::fixture::block_on;
use garret_testkit::mutations::{remove_tree, write, write_if};

use crate::depot::support::{Desk, on_disk, workspace};

/// Content above the threshold, of several parts.
fn large(seed: u8) -> Bytes {
    let mut state = u64::from(seed) + 1;
    let next = |_| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u8
    };
    (0..600_000).map(next).collect()
}

fn blob_count(home: &std::path::Path) -> usize {
    let folders = std::fs::read_dir(home.join("blobs")).expect("there are blobs");
    folders
        .map(|folder| {
            std::fs::read_dir(folder.expect("it is there").path())
                .expect("a folder")
                .count()
        })
        .sum()
}

#[test]
fn only_what_nothing_names_is_collected() {
    block_on(async {
        let home = tempfile::tempdir().unwrap();
        let depot = on_disk(home.path()).await;
        let one = Desk::over(workspace(&depot, "one").await);
        let two = Desk::over(workspace(&depot, "two").await);
        one.probe
            .batch(vec![
                write("shared", large(1)),
                write("own", large(2)),
                write("small", "x"),
            ])
            .await;
        two.probe
            .batch(vec![write("shared", large(1)), write("past", large(3))])
            .await;
        two.probe.apply(remove_tree("past")).await;
        let branch = one
            .room
            .branch(NewWorkspace::named("branch"), &Point::Now)
            .await
            .unwrap();
        depot.delete("one").await.unwrap();
        let kept = depot.collect(Duration::ZERO).await.unwrap();
        assert_eq!((kept.workspaces, kept.pieces), (0, 0), "a branch still shows it all");
        drop(branch);
        depot.delete("branch").await.unwrap();
        let spared = depot.collect(Duration::from_secs(3_600)).await.unwrap();
        assert_eq!(spared.workspaces, 0, "what was deleted just now can be recovered");
        let before = blob_count(home.path());
        let collected = depot.collect(Duration::ZERO).await.unwrap();
        assert_eq!(collected.workspaces, 2);
        assert!(collected.pieces > 2 && collected.blob_bytes > 500_000, "{collected:?}");
        assert!(blob_count(home.path()) < before);
        assert_eq!(two.probe.read("shared").await.bytes, large(1));
        two.room
            .restore(
                Point::Number(1),
                &garret_core::WsPath::root(),
                garret_core::Origin::default(),
            )
            .await
            .unwrap();
        assert_eq!(two.probe.read("past").await.bytes, large(3), "history names it too");
        assert_eq!(depot.check().await.unwrap(), []);
        assert_eq!(depot.collect(Duration::ZERO).await.unwrap(), Default::default());
    });
}

#[test]
fn the_blobs_of_a_refused_write_are_collected() {
    block_on(async {
        let home = tempfile::tempdir().unwrap();
        let depot = on_disk(home.path()).await;
        let desk = Desk::over(workspace(&depot, "box").await);
        desk.probe.write("f", "x").await;
        desk.probe
            .refuses(ErrorKind::Conflict, write_if("f", large(1), Precondition::Absent))
            .await;
        assert!(blob_count(home.path()) > 0);
        tokio::time::sleep(Duration::from_millis(20)).await;
        let collected = depot.collect(Duration::ZERO).await.unwrap();
        assert!(collected.blob_bytes > 500_000, "{collected:?}");
        assert_eq!(blob_count(home.path()), 0);
    });
}

#[test]
fn collecting_while_others_write_loses_nothing() {
    block_on(async {
        let home = tempfile::tempdir().unwrap();
        let (first, second) = (on_disk(home.path()).await, on_disk(home.path()).await);
        let writers: Vec<_> = (0..3)
            .map(|number| {
                let depot = first.clone();
                tokio::spawn(async move {
                    for turn in 0..10_u8 {
                        let name = format!("w{number}-{turn}");
                        let desk = Desk::over(workspace(&depot, &name).await);
                        // The same few contents come and go.
                        write_until_done(&desk, large(turn % 3)).await;
                        assert_eq!(desk.probe.read("f").await.bytes, large(turn % 3));
                        depot.delete(&name).await.expect("it is there");
                    }
                    let desk = Desk::over(workspace(&depot, &format!("last-{number}")).await);
                    write_until_done(&desk, large(number)).await;
                })
            })
            .collect();
        while !writers.iter().all(tokio::task::JoinHandle::is_finished) {
            second.collect(Duration::ZERO).await.unwrap();
        }
        for writer in writers {
            writer.await.unwrap();
        }
        second.collect(Duration::ZERO).await.unwrap();
        assert_eq!(first.check().await.unwrap(), []);
        for number in 0..3 {
            let desk = Desk::over(first.workspace(&format!("last-{number}")).await.unwrap());
            assert_eq!(desk.probe.read("f").await.bytes, large(number));
        }
    });
}

/// Without grace, a write may find its content swept, and says so.
async fn write_until_done(desk: &Desk, content: Bytes) {
    while let Err(error) = desk.probe.try_apply(write("f", content.clone())).await {
        assert_eq!(error.kind(), ErrorKind::Unavailable);
    }
}

#[test]
fn what_a_killed_import_left_is_told_before_as_it_is_collected() {
    block_on(async {
        let home = tempfile::tempdir().unwrap();
        let depot = on_disk(home.path()).await;
        let kept = Desk::over(workspace(&depot, "kept").await);
        kept.probe.write("s", "x").await;
        let gone = Desk::over(workspace(&depot, "gone").await);
        gone.probe.write("a", "deleted").await;
        depot.delete("gone").await.unwrap();
        let left = Desk::over(workspace(&depot, "left").await);
        left.probe
            .batch(vec![write("large", large(1)), write("small", "y")])
            .await;
        // As an import is, until it is whole.
        let database = rusqlite::Connection::open(home.path().join("depot.db")).unwrap();
        let hide = "INSERT INTO unseen SELECT id, 0, 0 FROM workspace WHERE name = 'left';
                    UPDATE workspace SET name = NULL WHERE name = 'left'";
        database.execute_batch(hide).unwrap();
        let told = CollectOptions {
            grace: Duration::ZERO,
            is_dry_run: true,
        };
        let (told, done) = (
            depot.collect(told).await.unwrap(),
            depot.collect(Duration::ZERO).await.unwrap(),
        );
        assert_eq!((done.workspaces, done.imports), (1, 1));
        assert_eq!(told, done);
        assert_eq!(depot.collect(Duration::ZERO).await.unwrap(), Default::default());
        assert_eq!(kept.probe.text("s").await, "x");
    });
}
