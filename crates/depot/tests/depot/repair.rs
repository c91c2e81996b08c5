//! Looking a depot over and repairing it.

use std::io::Cursor;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use garret_core::{ErrorKind, Storage};
use garret_depot::{Depot, DepotOptions, Durability, NewWorkspace, Point, UndoSelection};
use garret_testkit::fixture::block_on;
use garret_testkit::mutations::write;
use garret_transfer::{ExportExtent, export_workspace, import_workspace};

use crate::depot::support::{Desk, context, on_disk, options, workspace};

fn noise(seed: u8, length: usize) -> Bytes {
    let mut bytes = vec![0; length];
    blake3::Hasher::new().update(&[seed]).finalize_xof().fill(&mut bytes);
    bytes.into()
}

fn blobs(home: &Path) -> Vec<PathBuf> {
    let folders = std::fs::read_dir(home.join("blobs")).expect("there are blobs");
    let files = folders.flat_map(|folder| std::fs::read_dir(folder.expect("it is there").path()).expect("a folder"));
    files.map(|file| file.expect("it is there").path()).collect()
}

fn harm(home: &Path, sql: &str) {
    let database = rusqlite::Connection::open(home.join("depot.db")).expect("the test has set it up");
    database.execute_batch(sql).expect("the test has set it up");
}

/// A home whose blobs are synced, and so relied on.
async fn lasting(home: &Path) -> Depot {
    let options = DepotOptions {
        durability: Durability::Full,
        ..options()
    };
    Depot::open(home, options, context())
        .await
        .expect("the home can be opened")
}

async fn harmed(home: &Path) -> (Depot, Desk) {
    let depot = on_disk(home).await;
    let desk = Desk::over(workspace(&depot, "box").await);
    desk.probe
        .batch(vec![write("d/e/f", "x"), write("large", noise(1, 500_000))])
        .await;
    desk.probe.apply(write("d/e/f", "y")).await;
    desk.room
        .snapshot("then", Point::Number(1))
        .await
        .expect("the test has set it up");
    (depot, desk)
}

#[test]
fn what_can_be_derived_is_repaired() {
    block_on(async {
        for (sql, named) in [
            ("UPDATE workspace SET head = 7", "its newest change is 2, not 7"),
            (
                "UPDATE change SET began = NULL WHERE seq = 1",
                "was listed again in the change",
            ),
            (
                "DELETE FROM entry WHERE path = CAST('d/e' AS BLOB)",
                "the directory was created again",
            ),
            (
                "DELETE FROM entry WHERE path IN (CAST('d' AS BLOB), CAST('d/e' AS BLOB))",
                "the directory was created again",
            ),
            (
                "INSERT INTO unsynced VALUES (zeroblob(32))",
                "no longer listed as unsynced",
            ),
            (
                "DELETE FROM content WHERE data IS NULL",
                "was added to the database again",
            ),
            ("UPDATE content SET size = 99, stored = 1", "was corrected"),
            ("UPDATE content SET data = x'00' WHERE data IS NULL", "was corrected"),
            ("UPDATE entry SET size = 77 WHERE kind = 1", "the size of"),
            (
                "INSERT INTO snapshot VALUES (1, 'lost', 1, 99, 0, 0)",
                "its snapshot `lost` named a point that does not exist",
            ),
            (
                "INSERT INTO snapshot VALUES (1, 'lost', 77, 1, 0, 0)",
                "its snapshot `lost` named a point that does not exist",
            ),
            (
                "UPDATE change SET undone_by = 50 WHERE seq = 1",
                "no longer marked as undone",
            ),
            (
                "INSERT INTO move VALUES (55, 1, 1, x'61', x'62')",
                "removed 1 rows of workspaces",
            ),
            (
                "UPDATE workspace SET parent = 99, fork = 1, flat = 1",
                "its link to a parent workspace",
            ),
        ] {
            let home = tempfile::tempdir().unwrap();
            let (depot, desk) = harmed(home.path()).await;
            let before = desk.probe.tree().await;
            assert_eq!(depot.check().await.unwrap(), []);
            harm(home.path(), sql);
            assert_ne!(depot.check().await.unwrap(), [], "{sql}");
            let repaired = depot.repair().await.unwrap();
            assert!(
                repaired.repaired.iter().any(|one| one.what.contains(named)),
                "{sql}: {repaired:?}"
            );
            assert_eq!(repaired.remaining, [], "{sql}");
            assert!(desk.probe.tree().await == before, "{sql}");
            desk.probe.write("d/new", "x").await;
            assert_eq!(depot.repair().await.unwrap(), Default::default(), "{sql}");
        }
    });
}

#[test]
fn what_cannot_be_derived_is_reported_by_name_and_left_alone() {
    block_on(async {
        for (sql, named) in [
            ("DELETE FROM content WHERE data IS NOT NULL", "its content is missing"),
            (
                "DELETE FROM change WHERE seq = 1",
                "its journal has 1 changes up to change 2, but should have 2",
            ),
            (
                "UPDATE workspace SET parent = 99, fork = 1",
                "branched off a point that does not exist",
            ),
        ] {
            let home = tempfile::tempdir().unwrap();
            let (depot, desk) = harmed(home.path()).await;
            harm(home.path(), sql);
            let repaired = depot.repair().await.unwrap();
            let problem = repaired.remaining.iter().find(|one| one.what.contains(named));
            let problem = problem.unwrap_or_else(|| panic!("{sql}: {repaired:?}"));
            assert_eq!(problem.workspace.as_deref(), Some(desk.room.id()));
        }
    });
}

#[test]
fn a_lineage_in_a_circle_is_corrupt_and_a_check_names_it() {
    block_on(async {
        for sql in [
            "UPDATE workspace SET parent = 2, fork = 1 WHERE id = 2",
            "UPDATE workspace SET parent = 2, fork = 0 WHERE id = 1",
            "UPDATE workspace SET parent = 2, fork = 0, flat = 1 WHERE id = 1",
        ] {
            let home = tempfile::tempdir().unwrap();
            let (depot, desk) = harmed(home.path()).await;
            let branch = desk
                .room
                .branch(NewWorkspace::named("branch"), &Point::Now)
                .await
                .unwrap();
            let branch = Desk::over(branch);
            branch.probe.write("own", "x").await;
            let other = Desk::over(workspace(&depot, "other").await);
            other.probe.write("a", "1").await;
            harm(home.path(), sql);
            let problems = depot.check().await.unwrap();
            let named = problems
                .iter()
                .find(|one| one.what.contains("its parent is not an older workspace"));
            assert!(named.is_some_and(|one| one.workspace.is_some()), "{sql}: {problems:?}");
            let remaining = depot.repair().await.unwrap().remaining;
            assert!(
                remaining
                    .iter()
                    .any(|one| one.what.contains("its parent is not an older workspace")),
                "{sql}"
            );
            assert_eq!(depot.workspaces().await.unwrap().len(), 3, "{sql}: the others are seen");
            let error = branch.room.open_view_at(&Point::Number(0)).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{sql}");
            let taken = desk
                .room
                .branch(NewWorkspace::named("other"), &Point::Now)
                .await
                .unwrap_err();
            assert!(
                matches!(taken.kind(), ErrorKind::Corrupt | ErrorKind::AlreadyExists),
                "{sql}"
            );
            if !sql.contains("flat") {
                let error = branch.probe.try_read("large").await.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Corrupt, "{sql}");
                let error = branch.room.apply(write("more", "x").into()).await.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Corrupt, "{sql}");
            }
            assert_eq!(other.probe.text("a").await, "1");
            other.probe.write("a", "2").await;
        }
    });
}

#[test]
fn a_blob_that_cannot_be_read_is_a_finding_and_the_rest_is_looked_at() {
    block_on(async {
        for is_lasting in [true, false] {
            let home = tempfile::tempdir().unwrap();
            let depot = match is_lasting {
                true => lasting(home.path()).await,
                false => on_disk(home.path()).await,
            };
            let desk = Desk::over(workspace(&depot, "box").await);
            desk.probe.write("large", noise(1, 5_000)).await;
            desk.probe.write("other", noise(2, 5_000)).await;
            let found = blobs(home.path());
            std::fs::remove_file(&found[0]).unwrap();
            std::fs::create_dir(&found[0]).unwrap();
            if is_lasting {
                std::fs::remove_file(&found[1]).unwrap();
            }
            drop((desk, depot));
            let depot = on_disk(home.path()).await;
            for problems in [depot.check().await.unwrap(), depot.repair().await.unwrap().remaining] {
                let named = |what: &str| problems.iter().filter(|one| one.what.contains(what)).count();
                assert_eq!(named("cannot be read"), 2, "{problems:?}");
                assert_eq!(named("damaged or lost"), if is_lasting { 2 } else { 0 }, "{problems:?}");
            }
        }
    });
}

#[test]
fn a_home_without_its_blobs_opens_and_names_what_is_lost() {
    block_on(async {
        let home = tempfile::tempdir().unwrap();
        let depot = lasting(home.path()).await;
        let desk = Desk::over(workspace(&depot, "box").await);
        desk.probe
            .batch(vec![write("s", "x"), write("large", noise(1, 5_000))])
            .await;
        drop((desk, depot));
        std::fs::remove_dir_all(home.path().join("blobs")).unwrap();
        let depot = lasting(home.path()).await;
        let problems = depot.check().await.unwrap();
        let named: Vec<_> = problems.iter().filter_map(|one| one.path.as_ref()).collect();
        assert_eq!(named.len(), 1);
        assert_eq!(named[0].display_path(), "large");
        let desk = Desk::over(depot.workspace("box").await.unwrap());
        assert_eq!(desk.probe.text("s").await, "x");
        desk.probe.write("large", noise(1, 5_000)).await;
        assert_eq!(depot.check().await.unwrap(), []);
    });
}

#[test]
fn what_is_no_blob_among_the_blobs_keeps_nobody_from_them() {
    use std::os::unix::ffi::OsStrExt;
    block_on(async {
        let home = tempfile::tempdir().unwrap();
        let (depot, _) = harmed(home.path()).await;
        let blobs = home.path().join("blobs");
        let odd = std::ffi::OsStr::from_bytes(b"\xff\xfe");
        std::fs::write(blobs.join("00").join(odd), b"x").unwrap();
        std::os::unix::fs::symlink("loop", blobs.join("loop")).unwrap();
        std::os::unix::fs::symlink(&blobs, blobs.join("00").join("up")).unwrap();
        assert_eq!(depot.check().await.unwrap(), []);
        assert!(depot.usage().await.unwrap().blobs > 1);
        depot.collect(std::time::Duration::ZERO).await.unwrap();
        assert_eq!(depot.repair().await.unwrap().remaining, []);
    });
}

#[test]
fn a_damaged_index_is_made_again() {
    block_on(async {
        let home = tempfile::tempdir().unwrap();
        let (depot, desk) = harmed(home.path()).await;
        let before = desk.probe.tree().await;
        drop((desk, depot));
        let defined = |condition: &str| {
            format!(
                "PRAGMA writable_schema = ON;
                 UPDATE sqlite_schema SET sql = 'CREATE INDEX content_list ON content (hash) WHERE list = {condition}'
                 WHERE name = 'content_list'"
            )
        };
        harm(home.path(), &defined("7"));
        harm(home.path(), "REINDEX content_list");
        harm(home.path(), &defined("1"));
        let depot = on_disk(home.path()).await;
        let problems = depot.check().await.unwrap();
        assert!(
            problems.iter().any(|one| one.what.contains("missing from index")),
            "{problems:?}"
        );
        let repaired = depot.repair().await.unwrap();
        assert!(repaired.repaired[0].what.contains("indexes"), "{repaired:?}");
        assert_eq!(repaired.remaining, []);
        let desk = Desk::over(depot.workspace("box").await.unwrap());
        assert!(desk.probe.tree().await == before);
    });
}

#[test]
fn a_workspace_whose_row_is_lost_is_found_again_under_another_name() {
    block_on(async {
        let home = tempfile::tempdir().unwrap();
        let (depot, desk) = harmed(home.path()).await;
        let branch = desk.room.branch(NewWorkspace::named("branch"), &Point::Now).await;
        let branch = Desk::over(branch.unwrap());
        branch.probe.write("own", "x").await;
        let (before, shown) = (desk.probe.tree().await, branch.probe.tree().await);
        harm(home.path(), "DELETE FROM workspace WHERE id = 1");
        assert_ne!(depot.check().await.unwrap(), []);
        let repaired = depot.repair().await.unwrap();
        assert!(repaired.repaired[0].what.contains("`recovered-1`"), "{repaired:?}");
        assert_eq!(repaired.remaining, []);
        let found = Desk::over(depot.workspace("recovered-1").await.unwrap());
        assert!(found.probe.tree().await == before);
        assert_eq!(found.newest().await.number, 2);
        assert!(branch.probe.tree().await == shown);
        found.undone(UndoSelection::Last(1)).await;
        assert_eq!(found.probe.text("d/e/f").await, "x");
        assert_eq!(depot.repair().await.unwrap(), Default::default());
    });
}

#[test]
fn the_numbers_of_lost_changes_are_not_used_again() {
    block_on(async {
        for sql in ["DELETE FROM change WHERE seq = 3", "DELETE FROM change WHERE seq >= 2"] {
            let home = tempfile::tempdir().unwrap();
            let (depot, desk) = harmed(home.path()).await;
            desk.probe.write("last", "3").await;
            desk.room.snapshot("newest", Point::Now).await.unwrap();
            let before = desk.probe.tree().await;
            harm(home.path(), sql);
            assert_ne!(depot.check().await.unwrap(), [], "{sql}");
            let repaired = depot.repair().await.unwrap();
            assert_eq!(repaired.remaining, [], "{sql}");
            assert_eq!(desk.newest().await.operation, "lost", "{sql}");
            assert!(desk.tree_at(&Point::Snapshot("newest".into())).await == before, "{sql}");
            assert_eq!(desk.write("more", "4").await.number, 4, "{sql}");
            desk.undone(UndoSelection::Last(1)).await;
            assert!(desk.probe.tree().await == before, "{sql}");
            assert_eq!(depot.repair().await.unwrap(), Default::default(), "{sql}");
        }
    });
}

#[test]
fn a_flipped_bit_and_a_missing_blob_are_found_with_the_file_that_has_them() {
    block_on(async {
        let home = tempfile::tempdir().unwrap();
        let (depot, desk) = harmed(home.path()).await;
        for blob in blobs(home.path()) {
            let whole = std::fs::read(&blob).unwrap();
            let mut flipped = whole.clone();
            flipped[whole.len() / 2] ^= 4;
            for damage in [Some(flipped), None] {
                match damage {
                    Some(bytes) => std::fs::write(&blob, bytes).unwrap(),
                    None => std::fs::remove_file(&blob).unwrap(),
                }
                let problems = depot.repair().await.unwrap().remaining;
                let named = problems
                    .iter()
                    .find(|one| one.path.is_some())
                    .expect("the file is named");
                assert_eq!(named.path.as_ref().unwrap().display_path(), "large");
                assert_eq!(named.change, Some(1));
                assert_eq!(named.workspace.as_deref(), Some(desk.room.id()));
                assert_eq!(
                    desk.probe.try_read("large").await.unwrap_err().kind(),
                    ErrorKind::Corrupt
                );
            }
            std::fs::write(&blob, whole).unwrap();
        }
        assert_eq!(depot.check().await.unwrap(), []);
        // Writing the content again heals it.
        std::fs::remove_file(&blobs(home.path())[0]).unwrap();
        harm(home.path(), "UPDATE content SET touched = 0");
        desk.probe.write("again", noise(1, 500_000)).await;
        assert_eq!(depot.check().await.unwrap(), []);
    });
}

#[test]
fn what_is_written_over_damaged_content_is_whole() {
    block_on(async {
        for sql in [
            "UPDATE content SET data = CAST(x'00' || 'hellO' AS BLOB) WHERE data IS NOT NULL",
            "UPDATE content SET data = x'' WHERE data IS NOT NULL",
            "UPDATE content SET data = NULL",
            "UPDATE content SET data = x'00' WHERE data IS NULL",
            "UPDATE content SET size = 3",
            "UPDATE content SET list = 1 - list",
        ] {
            let home = tempfile::tempdir().unwrap();
            let depot = lasting(home.path()).await;
            let (one, other) = (workspace(&depot, "one").await, workspace(&depot, "other").await);
            let (one, other) = (Desk::over(one), Desk::over(other));
            let text = Bytes::from("all work and no play\n".repeat(1_000));
            for desk in [&one, &other] {
                desk.probe.write("s", "hello").await;
                desk.probe.write("large", noise(1, 500_000)).await;
                desk.probe.write("text", text.clone()).await;
            }
            harm(home.path(), sql);
            one.probe.write("s", "hello").await;
            one.probe.write("large", noise(1, 500_000)).await;
            one.probe.write("text", text.clone()).await;
            for desk in [&one, &other] {
                assert_eq!(desk.probe.text("s").await, "hello", "{sql}");
                assert_eq!(desk.probe.read("large").await.bytes, noise(1, 500_000), "{sql}");
                assert_eq!(desk.probe.read("text").await.bytes, text, "{sql}");
            }
            assert_eq!(depot.check().await.unwrap(), [], "{sql}");
        }
    });
}

#[test]
fn what_is_written_over_a_damaged_blob_is_whole() {
    block_on(async {
        let home = tempfile::tempdir().unwrap();
        let depot = lasting(home.path()).await;
        let desk = Desk::over(workspace(&depot, "box").await);
        desk.probe.write("large", noise(1, 500_000)).await;
        for blob in blobs(home.path()) {
            let whole = std::fs::read(&blob).unwrap();
            let mut flipped = whole.clone();
            flipped[whole.len() / 2] ^= 4;
            for damage in [flipped.as_slice(), &whole[..whole.len() - 1], b""] {
                std::fs::write(&blob, damage).unwrap();
                desk.probe.write("large", noise(1, 500_000)).await;
                assert_eq!(desk.probe.read("large").await.bytes, noise(1, 500_000));
                assert_eq!(depot.check().await.unwrap(), []);
            }
        }
    });
}

#[test]
fn what_is_imported_over_damaged_content_is_whole() {
    block_on(async {
        let home = tempfile::tempdir().unwrap();
        let depot = lasting(home.path()).await;
        let desk = Desk::over(workspace(&depot, "box").await);
        desk.probe
            .batch(vec![write("s", "hello"), write("large", noise(1, 500_000))])
            .await;
        let mut backup = Vec::new();
        let exported = export_workspace(&desk.room, &ExportExtent::History, &mut backup, &mut |_| ()).await;
        exported.expect("it can be exported");
        harm(home.path(), "UPDATE content SET data = x'00' WHERE size = 5");
        for blob in blobs(home.path()) {
            std::fs::write(blob, b"x").unwrap();
        }
        let new = NewWorkspace::named("again");
        let imported = import_workspace(&depot, new, Cursor::new(backup), &mut |_| ()).await;
        let again = Desk::over(imported.unwrap().0);
        assert_eq!(again.probe.text("s").await, "hello");
        assert!(again.probe.tree().await == desk.probe.tree().await);
        assert_eq!(depot.check().await.unwrap(), []);
    });
}

#[test]
fn blobs_that_a_loss_of_power_took_are_found_and_the_rest_works_on() {
    block_on(async {
        let home = tempfile::tempdir().unwrap();
        let (depot, desk) = harmed(home.path()).await;
        desk.probe.write("later", noise(8, 200_000)).await;
        let written: Vec<_> = blobs(home.path());
        let newest = written
            .iter()
            .max_by_key(|blob| std::fs::metadata(blob).unwrap().modified().unwrap());
        // A file that was made but never written out, as it is found after a loss of power.
        std::fs::write(newest.unwrap(), b"").unwrap();
        let problems = depot.check().await.unwrap();
        let named = problems
            .iter()
            .find(|one| one.path.is_some())
            .expect("the file is named");
        assert!(named.what.contains("power failure"), "{named:?}");
        assert_eq!(
            desk.probe.try_read("later").await.unwrap_err().kind(),
            ErrorKind::Corrupt
        );
        drop((desk, depot));
        let depot = on_disk(home.path()).await;
        assert_eq!(depot.check().await.unwrap(), []);
        let desk = Desk::over(depot.workspace("box").await.unwrap());
        assert_eq!(desk.probe.text("d/e/f").await, "y");
        desk.probe.write("later", noise(8, 200_000)).await;
        drop((desk, depot));
        let depot = on_disk(home.path()).await;
        let desk = Desk::over(depot.workspace("box").await.unwrap());
        assert_eq!(desk.probe.read("later").await.bytes, noise(8, 200_000));
        let found = depot.inspect().await.unwrap();
        assert_eq!((found.problems.len(), found.unsynced), (0, 0), "{found:?}");
    });
}

#[test]
fn an_inspection_counts_what_it_looked_at() {
    block_on(async {
        let home = tempfile::tempdir().unwrap();
        let (depot, _) = harmed(home.path()).await;
        depot.create(NewWorkspace::named("other")).await.unwrap();
        let found = depot.inspect().await.unwrap();
        assert_eq!((found.workspaces, found.entries, found.orphans), (2, 5, 0));
        assert!(found.pieces > 4);
    });
}
