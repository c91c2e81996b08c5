//! What a home holds, and what would be freed.

use std::time::Duration;

use bytes::Bytes;
use garret_depot::{CollectOptions, DepotUsage, NewWorkspace, Point, WorkspaceUsage};
use garret_testkit::fixture::block_on;
use garret_testkit::mutations::{remove_tree, write};

use crate::depot::support::{Desk, on_disk, workspace};

fn noise(seed: u8, length: usize) -> Bytes {
    let mut bytes = vec![0; length];
    blake3::Hasher::new().update(&[seed]).finalize_xof().fill(&mut bytes);
    bytes.into()
}

fn of<'u>(usage: &'u DepotUsage, name: &str) -> &'u WorkspaceUsage {
    usage
        .workspaces
        .iter()
        .find(|one| one.name.as_deref() == Some(name))
        .expect("it is there")
}

fn is_about(bytes: u64, wanted: u64) -> bool {
    (wanted..wanted + 1_000).contains(&bytes)
}

#[test]
fn each_workspace_tells_what_it_holds_and_what_it_holds_alone() {
    block_on(async {
        let home = tempfile::tempdir().unwrap();
        let depot = on_disk(home.path()).await;
        let (one, two) = (
            Desk::over(workspace(&depot, "one").await),
            Desk::over(workspace(&depot, "two").await),
        );
        one.probe
            .batch(vec![write("shared", noise(1, 50_000)), write("own", noise(2, 20_000))])
            .await;
        one.probe.write("own", noise(3, 30_000)).await;
        two.probe.write("shared", noise(1, 50_000)).await;
        let usage = depot.usage().await.unwrap();
        let (first, second) = (of(&usage, "one"), of(&usage, "two"));
        assert_eq!(
            (first.files, first.bytes, first.changes, first.oldest),
            (2, 80_000, 2, 0)
        );
        assert!(is_about(first.history_bytes, 20_000), "{first:?}");
        assert!(is_about(first.alone_bytes, 50_000), "{first:?}");
        assert_eq!((second.files, second.history_bytes, second.alone_bytes), (1, 0, 0));
        assert!(
            usage.blob_bytes > 99_000 && usage.blobs == 3 && usage.database_bytes > 0,
            "{usage:?}"
        );
        let branch = one
            .room
            .branch(NewWorkspace::named("branch"), &Point::Number(1))
            .await
            .unwrap();
        Desk::over(branch).probe.write("new", noise(4, 10_000)).await;
        let usage = depot.usage().await.unwrap();
        let (first, branch) = (of(&usage, "one"), of(&usage, "branch"));
        assert!(
            is_about(first.alone_bytes, 30_000),
            "the branch shows the old version too: {first:?}"
        );
        assert_eq!((branch.files, branch.bytes), (3, 80_000));
        assert!(is_about(branch.alone_bytes, 10_000), "{branch:?}");
        assert_eq!(branch.parent.as_ref(), Some(&first.id));
    });
}

#[test]
fn a_snapshot_holds_alone_what_goes_with_it() {
    block_on(async {
        let home = tempfile::tempdir().unwrap();
        let depot = on_disk(home.path()).await;
        let desk = Desk::over(workspace(&depot, "box").await);
        desk.probe
            .batch(vec![write("a", noise(1, 40_000)), write("b", noise(2, 30_000))])
            .await;
        desk.room.snapshot("first", Point::Now).await.unwrap();
        desk.probe.apply(remove_tree("a")).await;
        desk.room.snapshot("second", Point::Now).await.unwrap();
        desk.probe.apply(remove_tree("b")).await;
        let usage = depot.usage().await.unwrap();
        let alone: Vec<_> = of(&usage, "box").snapshots.iter().map(|one| one.alone_bytes).collect();
        assert_eq!(alone, [0, 0], "the history still holds it all");
        desk.room.forget_history(&Point::Now).await.unwrap();
        let usage = depot.usage().await.unwrap();
        let [first, second] = of(&usage, "box").snapshots.as_slice() else {
            panic!("{usage:?}")
        };
        assert_eq!(
            (first.files, first.bytes, second.files, second.bytes),
            (2, 70_000, 1, 30_000)
        );
        assert!(
            is_about(first.alone_bytes, 40_000) && second.alone_bytes == 0,
            "{usage:?}"
        );
        desk.room.delete_snapshot("first").await.unwrap();
        let rehearsal = CollectOptions {
            grace: Duration::ZERO,
            is_dry_run: true,
        };
        assert_eq!(depot.collect(rehearsal).await.unwrap().pieces, 0, "its rows go first");
        tokio::time::sleep(Duration::from_millis(20)).await;
        let mut freed = depot.collect(Duration::ZERO).await.unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
        freed.blob_bytes += depot.collect(Duration::ZERO).await.unwrap().blob_bytes;
        assert_eq!(freed.versions, 1);
        assert!(is_about(freed.blob_bytes, first.alone_bytes), "{freed:?}");
    });
}

#[test]
fn a_rehearsed_collection_tells_what_the_real_one_does() {
    block_on(async {
        let home = tempfile::tempdir().unwrap();
        let depot = on_disk(home.path()).await;
        let desk = Desk::over(workspace(&depot, "box").await);
        desk.probe
            .batch(vec![write("a", noise(1, 400_000)), write("b", "small")])
            .await;
        let branch = desk
            .room
            .branch(NewWorkspace::named("branch"), &Point::Now)
            .await
            .unwrap();
        drop(branch);
        depot.delete("box").await.unwrap();
        depot.delete("branch").await.unwrap();
        std::fs::write(home.path().join("blobs").join("00#1"), b"not in a folder").unwrap();
        let folder = home.path().join("blobs/aa");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("deadbeef#12"), b"unfinished").unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
        let rehearsal = CollectOptions {
            grace: Duration::ZERO,
            is_dry_run: true,
        };
        let told = depot.collect(rehearsal).await.unwrap();
        assert_eq!((told.workspaces, told.leftovers), (2, 1));
        assert!(told.blob_bytes > 400_000 && told.database_bytes > 5, "{told:?}");
        depot.recover("box").await.unwrap();
        assert_eq!(desk.probe.text("b").await, "small", "nothing was removed");
        depot.delete("box").await.unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
        let done = depot.collect(Duration::ZERO).await.unwrap();
        assert_eq!(done, told);
        assert!(!folder.join("deadbeef#12").exists());
        assert_eq!(depot.workspaces().await.unwrap(), []);
        // The names are free again, and an old handle does not reach the new workspace.
        let new = workspace(&depot, "box").await;
        assert!(desk.probe.try_apply(write("x", "y")).await.is_err());
        assert_eq!(new.changes(None, 10).await.unwrap(), []);
    });
}
