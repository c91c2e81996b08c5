//! Reopening after relaxed changes whose blobs never reached the disk: they are taken back whole, and nothing else is.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use garret_core::{ErrorKind, Storage};
use garret_depot::{Durability, NewWorkspace, Point, UndoSelection};
use garret_testkit::fixture::block_on;
use garret_testkit::mutations::write;

use crate::depot::support::{Desk, on_disk, workspace};

fn blobs(home: &Path) -> Vec<PathBuf> {
    let folders = std::fs::read_dir(home.join("blobs")).expect("there are blobs");
    let files = folders.flat_map(|folder| std::fs::read_dir(folder.expect("it is there").path()).expect("a folder"));
    files.map(|file| file.expect("it is there").path()).collect()
}

/// Content of one blob.
fn blob(byte: u8) -> Bytes {
    let mut bytes = vec![0; 5_000];
    blake3::Hasher::new().update(&[byte]).finalize_xof().fill(&mut bytes);
    bytes.into()
}

/// Loses the blobs that were written since `before`.
fn lose_since(home: &Path, before: &[PathBuf]) {
    let new: Vec<_> = blobs(home).into_iter().filter(|blob| !before.contains(blob)).collect();
    assert!(!new.is_empty(), "there is something to lose");
    for (index, blob) in new.iter().enumerate() {
        match index % 2 {
            0 => std::fs::remove_file(blob).expect("it is there"),
            _ => std::fs::write(blob, "").expect("it is there"),
        }
    }
}

#[test]
fn a_relaxed_change_that_lost_its_blob_is_taken_back_whole_with_those_after_it() {
    block_on(async {
        let home = tempfile::tempdir().unwrap();
        let (kept, other) = {
            let depot = on_disk(home.path()).await;
            let desk = Desk::over(workspace(&depot, "box").await);
            let other = Desk::over(workspace(&depot, "other").await);
            desk.write("a", "one").await;
            desk.write("b", "one").await;
            desk.undone(UndoSelection::Last(1)).await;
            let kept = desk.probe.tree().await;
            desk.room.snapshot("kept", Point::Now).await.unwrap();
            let before = blobs(home.path());
            desk.redone().await;
            desk.probe.batch(vec![write("a", "two"), write("large", blob(1))]).await;
            desk.write("c", "three").await;
            desk.room.snapshot("lost", Point::Now).await.unwrap();
            desk.room
                .branch(NewWorkspace::named("lost"), &Point::Now)
                .await
                .unwrap();
            desk.room
                .branch(NewWorkspace::named("kept"), &Point::Number(2))
                .await
                .unwrap();
            other.write("a", "elsewhere").await;
            lose_since(home.path(), &before);
            (kept, other.probe.tree().await)
        };
        let depot = on_disk(home.path()).await;
        assert_eq!(depot.check().await.unwrap(), []);
        let desk = Desk::over(depot.workspace("box").await.unwrap());
        let head = desk.room.describe().await.unwrap().head;
        assert_eq!(head, 4, "the redo stays; the batch and what came after it are gone");
        desk.undone(UndoSelection::Last(1)).await;
        assert_eq!(desk.probe.tree().await, kept, "what is undone is known again");
        let labels: Vec<_> = desk
            .room
            .snapshots()
            .await
            .unwrap()
            .into_iter()
            .map(|one| one.label)
            .collect();
        assert_eq!(labels, ["kept"]);
        assert_eq!(depot.workspace("lost").await.unwrap_err().kind(), ErrorKind::NotFound);
        assert!(depot.workspace("kept").await.is_ok());
        let untouched = Desk::over(depot.workspace("other").await.unwrap());
        assert_eq!(untouched.probe.tree().await, other);
    });
}

#[test]
fn undone_changes_are_undone_again_when_their_redo_is_taken_back() {
    block_on(async {
        let home = tempfile::tempdir().unwrap();
        {
            let depot = on_disk(home.path()).await;
            let desk = Desk::over(workspace(&depot, "box").await);
            desk.probe.write("large", blob(1)).await;
            desk.undone(UndoSelection::Last(1)).await;
            // From here on it is lost: a redo names the content again.
            let room = depot.workspace("box").await.unwrap().with_durability(Durability::Full);
            room.snapshot("durable", Point::Now).await.unwrap();
            desk.redone().await;
            desk.probe.batch(vec![write("new", blob(2))]).await;
            let (redo, _) = desk.room.change(&Point::Number(3)).await.unwrap();
            assert_eq!(redo.reverses, [2]);
            let newest = blobs(home.path())
                .into_iter()
                .max_by_key(|one| std::fs::metadata(one).unwrap().modified().unwrap());
            std::fs::remove_file(newest.unwrap()).unwrap();
        }
        let depot = on_disk(home.path()).await;
        assert_eq!(depot.check().await.unwrap(), []);
        let desk = Desk::over(depot.workspace("box").await.unwrap());
        assert_eq!(desk.room.describe().await.unwrap().head, 3);
        assert_eq!(desk.probe.read("large").await.bytes, blob(1));
        desk.undone(UndoSelection::Last(1)).await;
        assert_eq!(desk.probe.names_deep("").await, Vec::<String>::new());
    });
}

#[test]
fn content_that_a_durable_change_relies_on_is_not_taken_back() {
    block_on(async {
        let home = tempfile::tempdir().unwrap();
        let blob_of_both = {
            let depot = on_disk(home.path()).await;
            let desk = Desk::over(workspace(&depot, "box").await);
            desk.probe.write("relaxed", blob(1)).await;
            let durable = desk.room.clone().with_durability(Durability::Full);
            durable.apply(write("durable", "x").into()).await.unwrap();
            blobs(home.path()).remove(0)
        };
        // Damage to what is durable is not a loss of power: it is named, and nothing is taken back.
        std::fs::remove_file(blob_of_both).unwrap();
        let depot = on_disk(home.path()).await;
        let desk = Desk::over(depot.workspace("box").await.unwrap());
        assert_eq!(desk.probe.text("durable").await, "x");
        assert_eq!(
            desk.probe.try_read("relaxed").await.unwrap_err().kind(),
            ErrorKind::Corrupt
        );
        assert!(!depot.check().await.unwrap().is_empty());
    });
}
