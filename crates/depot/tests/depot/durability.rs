//! What is on the disk: reopening, damage, several depots on one home.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use garret_core::{ErrorKind, ReadOptions, Storage, WsPath};
use garret_depot::{Depot, DepotOptions, Durability, NewWorkspace, Point, UndoSelection};
use garret_testkit::fixture::block_on;
use garret_testkit::mutations::{append, append_or_create, path, write, write_if};
use garret_transfer::{TreeTarget, export_tree};

use crate::depot::support::{Desk, context, on_disk, options, workspace};

fn home() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary directory can be made")
}

fn noise(seed: u8, length: usize) -> Bytes {
    let mut bytes = vec![0; length];
    let mut state = u64::from(seed) + 1;
    for byte in &mut bytes {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        *byte = (state >> 33) as u8;
    }
    bytes.into()
}

fn blobs(home: &Path) -> Vec<PathBuf> {
    let folders = std::fs::read_dir(home.join("blobs")).expect("there are blobs");
    let files = folders.flat_map(|folder| std::fs::read_dir(folder.expect("it is there").path()).expect("a folder"));
    files.map(|file| file.expect("it is there").path()).collect()
}

#[test]
fn everything_is_there_after_reopening() {
    block_on(async {
        for durability in [Durability::Full, Durability::Relaxed] {
            let home = home();
            let options = DepotOptions {
                durability,
                ..options()
            };
            let before = {
                let depot = Depot::open(home.path(), options.clone(), context()).await.unwrap();
                let desk = Desk::over(workspace(&depot, "box").await);
                desk.probe.write("small", "x").await;
                desk.probe.write("large", noise(1, 3_000_000)).await;
                desk.room.snapshot("then", Point::Now).await.unwrap();
                desk.probe.apply(append("large", noise(2, 1_000))).await;
                desk.probe.tree().await
            };
            let depot = Depot::open(home.path(), options, context()).await.unwrap();
            let desk = Desk::over(depot.workspace("box").await.unwrap());
            assert!(desk.probe.tree().await == before);
            desk.undone(UndoSelection::Last(1)).await;
            assert!(desk.probe.tree().await == desk.tree_at(&Point::Snapshot("then".into())).await);
        }
    });
}

#[test]
fn a_home_that_was_removed_takes_no_more_writes() {
    block_on(async {
        for durability in [Durability::Full, Durability::Relaxed] {
            let home = home();
            let depot = on_disk(home.path()).await;
            let room = workspace(&depot, "box").await.with_durability(durability);
            let desk = Desk::over(room);
            desk.probe.write("a", "1").await;
            std::fs::remove_dir_all(home.path()).unwrap();
            let error = desk.room.apply(write("a", "2").into()).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
            let snapshot = desk.room.snapshot("s", Point::Now).await;
            assert_eq!(snapshot.unwrap_err().kind(), ErrorKind::Unavailable);
        }
    });
}

#[test]
fn a_newer_home_is_refused_and_left_alone() {
    block_on(async {
        let home = home();
        drop(on_disk(home.path()).await);
        let database = rusqlite::Connection::open(home.path().join("depot.db")).unwrap();
        database.pragma_update(None, "user_version", 4_711).unwrap();
        drop(database);
        let error = Depot::open(home.path(), options(), context()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(
            error.message().contains("4711") && !error.message().contains("/"),
            "{error}"
        );
    });
}

#[test]
fn a_home_whose_database_is_lost_is_corrupt_and_no_new_one_is_begun() {
    block_on(async {
        for loses_lock in [false, true] {
            let home = home();
            {
                let depot = on_disk(home.path()).await;
                let desk = Desk::over(workspace(&depot, "box").await);
                desk.probe.write("large", noise(1, 100_000)).await;
            }
            let database = home.path().join("depot.db");
            let kept = std::fs::read(&database).unwrap();
            std::fs::remove_file(&database).unwrap();
            if loses_lock {
                std::fs::remove_file(home.path().join("depot.lock")).unwrap();
            }
            for lost in [None, Some("")] {
                if let Some(content) = lost {
                    std::fs::write(&database, content).unwrap();
                }
                let error = Depot::open(home.path(), options(), context()).await.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
                assert!(error.to_string().contains("is missing"), "{error}");
            }
            std::fs::write(&database, kept).unwrap();
            let depot = on_disk(home.path()).await;
            let desk = Desk::over(depot.workspace("box").await.unwrap());
            assert_eq!(desk.probe.read("large").await.bytes, noise(1, 100_000));
        }
    });
}

#[test]
fn a_database_without_one_of_its_tables_is_corrupt() {
    block_on(async {
        for table in ["change", "entry", "content", "workspace"] {
            let home = home();
            let depot = on_disk(home.path()).await;
            let desk = Desk::over(workspace(&depot, "box").await);
            desk.probe.write("a", "1").await;
            let other = rusqlite::Connection::open(home.path().join("depot.db")).unwrap();
            other.execute_batch(&format!("DROP TABLE {table}")).unwrap();
            let error = desk.room.apply(write("a", "2").into()).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{table}: {error}");
            let error = match Depot::open(home.path(), options(), context()).await {
                Ok(depot) => depot.check().await.unwrap_err(),
                Err(error) => error,
            };
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{table}: {error}");
        }
    });
}

#[test]
fn damaged_and_missing_blobs_are_corrupt_and_never_other_bytes() {
    block_on(async {
        let home = home();
        let depot = on_disk(home.path()).await;
        let desk = Desk::over(workspace(&depot, "box").await);
        desk.probe.write("large", noise(1, 1_000_000)).await;
        desk.probe.write("text", "all work and no play\n".repeat(10_000)).await;
        for blob in blobs(home.path()) {
            let whole = std::fs::read(&blob).unwrap();
            for position in [0, 1, whole.len() / 2, whole.len() - 1] {
                let mut flipped = whole.clone();
                flipped[position] ^= 0x10;
                std::fs::write(&blob, flipped).unwrap();
                let results = [desk.probe.try_read("large").await, desk.probe.try_read("text").await];
                assert!(
                    results.iter().any(Result::is_err),
                    "a flipped bit at {position} is not noticed"
                );
                for error in results.into_iter().filter_map(Result::err) {
                    assert_eq!(error.kind(), ErrorKind::Corrupt);
                    assert!(error.path().is_some_and(|path| path == "large" || path == "text"));
                    desk.probe.check_error(&error);
                }
            }
            let problems = depot.check().await.unwrap();
            assert!(
                problems
                    .iter()
                    .any(|one| one.path.is_none() && one.what.contains("damaged")),
                "{problems:?}"
            );
            std::fs::remove_file(&blob).unwrap();
            let results = [desk.probe.try_read("large").await, desk.probe.try_read("text").await];
            assert!(
                results
                    .iter()
                    .any(|one| one.as_ref().is_err_and(|error| error.kind() == ErrorKind::Corrupt))
            );
            std::fs::write(&blob, whole).unwrap();
        }
        assert_eq!(desk.probe.read("large").await.bytes, noise(1, 1_000_000));
        assert_eq!(depot.check().await.unwrap(), []);
    });
}

#[test]
fn a_flipped_bit_in_a_row_is_corrupt_and_never_other_bytes() {
    block_on(async {
        let home = home();
        let depot = on_disk(home.path()).await;
        let desk = Desk::over(workspace(&depot, "box").await);
        let text = "kept in the database\n".repeat(20);
        desk.probe.write("d/small", text.clone()).await;
        desk.probe.write("beside", "other content").await;
        let database = rusqlite::Connection::open(home.path().join("depot.db")).unwrap();
        let whole: Vec<u8> = database
            .query_row("SELECT data FROM content WHERE size = ?1", [text.len() as i64], |row| {
                row.get(0)
            })
            .unwrap();
        let set = |data: Option<&[u8]>| {
            let sql = "UPDATE content SET data = ?1 WHERE size = ?2";
            assert_eq!(database.execute(sql, (data, text.len() as i64)).unwrap(), 1);
        };
        let mut harms: Vec<Option<Vec<u8>>> = vec![None, Some(Vec::new()), Some(whole[..whole.len() - 1].to_vec())];
        for position in [0, 1, whole.len() / 2, whole.len() - 1] {
            for bit in 0..8 {
                let mut flipped = whole.clone();
                flipped[position] ^= 1 << bit;
                harms.push(Some(flipped));
            }
        }
        for harm in harms {
            set(harm.as_deref());
            let error = desk.probe.try_read("d/small").await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{harm:?}");
            assert_eq!(error.path(), Some("d/small"));
            desk.probe.check_error(&error);
            assert_eq!(desk.probe.text("beside").await, "other content");
            let named = |one: &garret_depot::CheckProblem| {
                one.path.as_ref().is_some_and(|path| path.display_path() == "d/small") && one.what.contains("damaged")
            };
            let problems = depot.check().await.unwrap();
            assert!(problems.iter().any(named), "{problems:?}");
        }
        set(Some(&whole));
        assert_eq!(desk.probe.text("d/small").await, text);
        assert_eq!(depot.check().await.unwrap(), []);
    });
}

#[test]
fn damage_is_named_when_a_file_is_appended_to_or_taken_from_the_past() {
    block_on(async {
        let home = home();
        let depot = on_disk(home.path()).await;
        let desk = Desk::over(workspace(&depot, "box").await);
        desk.probe.write("large", noise(1, 300_000)).await;
        desk.probe.write("large", "replaced").await;
        for blob in blobs(home.path()) {
            std::fs::write(&blob, "").unwrap();
        }
        let past = desk.room.open_view_at(&Point::Number(1)).await.unwrap();
        let error = past.read(&path("large"), ReadOptions::default()).await.unwrap_err();
        assert_eq!((error.kind(), error.path()), (ErrorKind::Corrupt, Some("large")));
        // Bringing it back is not stopped by the damage, and does not hide it either.
        desk.undone(UndoSelection::Last(1)).await;
        assert_eq!(
            desk.probe.try_read("large").await.unwrap_err().kind(),
            ErrorKind::Corrupt
        );
        let before = desk.newest().await;
        let error = desk.probe.try_apply(append("large", "more")).await.unwrap_err();
        assert_eq!((error.kind(), error.path()), (ErrorKind::Corrupt, Some("large")));
        assert_eq!(desk.newest().await, before, "nothing was appended");
    });
}

#[test]
fn a_file_whose_row_has_lost_its_content_is_corrupt_and_work_goes_on() {
    block_on(async {
        let home = home();
        let depot = on_disk(home.path()).await;
        let desk = Desk::over(workspace(&depot, "box").await);
        desk.probe.write("f", "x").await;
        let database = rusqlite::Connection::open(home.path().join("depot.db")).unwrap();
        assert_eq!(database.execute("UPDATE entry SET hash = NULL", []).unwrap(), 1);
        let error = desk.probe.try_apply(append("f", "more")).await.unwrap_err();
        assert_eq!((error.kind(), error.path()), (ErrorKind::Corrupt, Some("f")));
        assert_eq!(desk.probe.try_read("f").await.unwrap_err().kind(), ErrorKind::Corrupt);
        desk.probe.write("f", "written again").await;
        desk.probe.apply(append("f", ", and more")).await;
        assert_eq!(desk.probe.text("f").await, "written again, and more");
    });
}

#[test]
fn a_file_whose_size_is_damaged_is_corrupt_in_every_way_of_reading_it() {
    block_on(async {
        for (content, sizes) in [
            (noise(1, 100), ["101", "99", "0", "1 << 60"]),
            (noise(1, 3_000_000), ["size + 1", "size - 1", "0", "1 << 60"]),
        ] {
            for size in sizes {
                let home = home();
                let depot = on_disk(home.path()).await;
                let desk = Desk::over(workspace(&depot, "box").await);
                desk.probe.write("box", content.clone()).await;
                let database = rusqlite::Connection::open(home.path().join("depot.db")).unwrap();
                database
                    .execute(&format!("UPDATE entry SET size = {size}"), [])
                    .unwrap();
                let (limited, ranged) = (
                    ReadOptions {
                        max_bytes: Some(10_000_000),
                        ..ReadOptions::default()
                    },
                    ReadOptions {
                        range: Some(0..10),
                        ..ReadOptions::default()
                    },
                );
                for options in [ReadOptions::default(), limited, ranged] {
                    let error = desk.room.read(&path("box"), options).await.unwrap_err();
                    assert_eq!(error.kind(), ErrorKind::Corrupt, "{size}: {error}");
                    assert_eq!(error.path(), Some("box"));
                }
                let out = tempfile::tempdir().unwrap();
                let target = TreeTarget::Directory(out.path().join("made"));
                let exported = export_tree(&desk.room, &Point::Now, &WsPath::root(), target, &mut |_| ()).await;
                let error = exported.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Corrupt, "{size}: {error}");
                assert_eq!(error.path(), Some("box"));
                assert_eq!(depot.repair().await.unwrap().remaining, []);
                assert_eq!(desk.probe.read("box").await.bytes, content);
            }
        }
    });
}

#[test]
fn a_row_that_holds_what_it_cannot_hold_is_corrupt() {
    block_on(async {
        for sql in [
            "UPDATE entry SET size = 'many'",
            "UPDATE entry SET hash = x'00'",
            "UPDATE entry SET mode = x'00'",
            "UPDATE entry SET kind = 'file'",
            "UPDATE content SET data = 7",
            "UPDATE content SET size = 'many'",
        ] {
            let home = home();
            let depot = on_disk(home.path()).await;
            let desk = Desk::over(workspace(&depot, "box").await);
            desk.probe.write("small", "x").await;
            let database = rusqlite::Connection::open(home.path().join("depot.db")).unwrap();
            database.execute(sql, []).unwrap();
            let error = desk.probe.try_read("small").await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{sql}: {error}");
        }
    });
}

#[test]
fn the_same_content_is_stored_once_across_workspaces() {
    block_on(async {
        let home = home();
        let depot = on_disk(home.path()).await;
        let one = Desk::over(workspace(&depot, "one").await);
        one.probe.write("a", noise(1, 2_000_000)).await;
        let count = blobs(home.path()).len();
        let two = Desk::over(workspace(&depot, "two").await);
        two.probe.write("b", noise(1, 2_000_000)).await;
        two.probe.apply(append_or_create("c", noise(1, 1_500_000))).await;
        two.probe
            .apply(append("c", noise(1, 2_000_000).slice(1_500_000..)))
            .await;
        let versions = [two.probe.read("b").await.version, two.probe.read("c").await.version];
        assert_eq!(
            versions[0], versions[1],
            "written at once or in parts, the content has one address"
        );
        assert!(
            blobs(home.path()).len() <= count + 2,
            "only the cut end of the first part is new"
        );
    });
}

#[test]
fn a_range_of_a_large_file_reads_only_the_parts_it_touches() {
    block_on(async {
        let home = home();
        let depot = on_disk(home.path()).await;
        let desk = Desk::over(workspace(&depot, "box").await);
        let content = noise(7, 4_000_000);
        desk.probe.write("large", content.clone()).await;
        let read = |range: std::ops::Range<u64>| {
            let (room, range) = (desk.room.clone(), Some(range));
            async move {
                let options = ReadOptions {
                    range,
                    ..ReadOptions::default()
                };
                room.read(&path("large"), options).await
            }
        };
        for range in [0..10, 1_000_000..1_300_000, 3_999_990..5_000_000, 2_000_000..2_000_000] {
            let expected = content.slice(range.start as usize..range.end.min(4_000_000) as usize);
            assert_eq!(read(range).await.unwrap().bytes, expected);
        }
        // With every part but those of the range gone, the range can still be read.
        let first = noise(7, 4_000_000).slice(..10);
        let needed = {
            let all = blobs(home.path());
            let mut needed = 0;
            for blob in &all {
                let kept = std::fs::read(blob).unwrap();
                std::fs::remove_file(blob).unwrap();
                match read(0..10).await {
                    Ok(read) => assert_eq!(read.bytes, first),
                    Err(_) => needed += 1,
                }
                std::fs::write(blob, kept).unwrap();
            }
            assert!(all.len() > 5);
            needed
        };
        assert!(needed <= 2, "the first part and perhaps the list, not {needed}");
    });
}

#[test]
fn two_depots_on_one_home_lose_nothing() {
    block_on(async {
        let home = home();
        let first = on_disk(home.path()).await;
        workspace(&first, "box").await;
        let second = on_disk(home.path()).await;
        let tasks = [first, second]
            .into_iter()
            .enumerate()
            .flat_map(|(side, depot)| (0..4).map(move |task| (side * 4 + task, depot.clone())));
        let handles: Vec<_> = tasks
            .map(|(task, depot)| {
                tokio::spawn(async move {
                    let desk = Desk::over(depot.workspace("box").await.unwrap());
                    for turn in 0..25 {
                        desk.probe
                            .apply(append_or_create("log", format!("{task}:{turn}\n")))
                            .await;
                        increment(&desk).await;
                    }
                })
            })
            .collect();
        for handle in handles {
            handle.await.unwrap();
        }
        let desk = Desk::over(on_disk(home.path()).await.workspace("box").await.unwrap());
        assert_eq!(desk.probe.text("counter").await, "200");
        assert_eq!(desk.probe.text("log").await.lines().count(), 200);
        let changes = desk.room.changes(None, 1_000).await.unwrap();
        assert_eq!(changes.len(), 400);
        assert!(changes.windows(2).all(|pair| pair[0].number == pair[1].number + 1));
    });
}

/// Counts up by conditional writes until one of them is not overtaken.
async fn increment(desk: &Desk) {
    loop {
        let (next, wanted) = match desk.probe.try_read("counter").await {
            Ok(read) => {
                let text = std::str::from_utf8(&read.bytes).expect("it is text");
                let value: u32 = text.parse().expect("it is a number");
                (value + 1, garret_core::Precondition::Version(read.version))
            }
            Err(_) => (1, garret_core::Precondition::Absent),
        };
        match desk
            .probe
            .try_apply(write_if("counter", next.to_string(), wanted))
            .await
        {
            Ok(_) => return,
            Err(error) => assert_eq!(error.kind(), ErrorKind::Conflict),
        }
    }
}

#[test]
fn a_fresh_home_can_be_opened_by_many_at_once() {
    for _ in 0..5 {
        let home = home();
        std::thread::scope(|scope| {
            for number in 0..12 {
                let home = home.path();
                scope.spawn(move || {
                    block_on(async {
                        let depot = Depot::open(home, options(), context()).await.unwrap();
                        workspace(&depot, &format!("box-{number}")).await;
                    });
                });
            }
        });
        let depot = block_on(on_disk(home.path()));
        assert_eq!(block_on(depot.workspaces()).unwrap().len(), 12);
    }
}

#[test]
fn what_another_program_has_locked_is_waited_for_and_nothing_is_half_done() {
    block_on(async {
        let home = home();
        let depot = on_disk(home.path()).await;
        for durability in [Durability::Full, Durability::Relaxed] {
            let room = workspace(&depot, &format!("{durability:?}")).await;
            let desk = Desk::over(room.with_durability(durability));
            desk.probe.write("a", "1").await;
            let other = rusqlite::Connection::open(home.path().join("depot.db")).unwrap();
            other.execute_batch("BEGIN IMMEDIATE").unwrap();
            let freed = std::thread::spawn(move || {
                std::thread::sleep(std::time::Duration::from_millis(300));
                other.execute_batch("ROLLBACK").unwrap();
            });
            desk.probe.write("a", "2").await;
            desk.probe.write("b", "3").await;
            freed.join().unwrap();
            assert_eq!(desk.newest().await.number, 3);
            desk.undone(UndoSelection::Last(2)).await;
            assert_eq!(desk.probe.read("a").await.bytes.as_ref(), b"1");
        }
        assert_eq!(depot.check().await.unwrap(), []);
    });
}

#[test]
fn a_refused_job_does_not_touch_its_neighbours_in_the_group() {
    block_on(async {
        let home = home();
        let depot = on_disk(home.path()).await;
        let room = depot.create(NewWorkspace::named("box")).await.unwrap();
        let writes: Vec<_> = (0..200)
            .map(|index| {
                let room = room.clone();
                let name = if index % 2 == 0 {
                    format!("f{index}")
                } else {
                    format!("f0/below{index}")
                };
                tokio::spawn(async move { room.apply(write(&name, "x").into()).await.is_ok() })
            })
            .collect();
        let mut kept = 0;
        for write in writes {
            kept += usize::from(write.await.unwrap());
        }
        let desk = Desk::over(room);
        let files = desk.probe.names_deep("").await;
        assert_eq!(desk.room.changes(None, 1_000).await.unwrap().len(), kept);
        assert!(kept >= 100 && files.len() >= kept, "{kept} kept, {} files", files.len());
    });
}

#[test]
fn a_check_names_what_does_not_fit() {
    block_on(async {
        for (harm, named) in [
            ("DELETE FROM content", "its content is missing"),
            ("UPDATE content SET size = 99", "its content has 99 bytes"),
            (
                "DELETE FROM entry WHERE path = CAST('d' AS BLOB)",
                "it is not in a directory",
            ),
            ("UPDATE entry SET until = 1", "does not match the journal"),
            (
                "UPDATE change SET began = x'6400'",
                "the change that created it does not list it",
            ),
            (
                "UPDATE workspace SET head = 7",
                "its journal has 1 changes up to change 1, but should have 7",
            ),
            (
                "UPDATE workspace SET parent = 99, fork = 1",
                "a point that does not exist",
            ),
        ] {
            let home = home();
            let depot = on_disk(home.path()).await;
            let desk = Desk::over(workspace(&depot, "box").await);
            desk.probe.write("d/f", "x").await;
            assert_eq!(depot.check().await.unwrap(), []);
            let database = rusqlite::Connection::open(home.path().join("depot.db")).unwrap();
            database.execute_batch(harm).unwrap();
            let problems = depot.check().await.unwrap();
            assert!(
                problems.iter().any(|one| one.what.contains(named)),
                "{harm}: {problems:?}"
            );
        }
    });
}

#[test]
fn a_home_that_cannot_be_is_refused_without_its_path() {
    block_on(async {
        let home = home();
        std::fs::write(home.path().join("file"), "x").unwrap();
        let error = Depot::open(&home.path().join("file"), options(), context())
            .await
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotADirectory);
        assert!(!error.to_string().contains(home.path().to_str().unwrap()), "{error}");
        std::fs::write(
            home.path().join("depot.db"),
            "this is no database, but long enough to be read as one".repeat(20),
        )
        .unwrap();
        let error = Depot::open(home.path(), options(), context()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
    });
}
