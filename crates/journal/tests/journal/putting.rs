//! Putting what was worked out beside the files, while others may be at work on them.

use garret_core::{
    Clock, EntryPath, ErrorKind, History, PathExpectation, PathPut, PlacedEntry, PutBatch, SystemClock, Timestamp,
};
use garret_testkit::mutations::{make_dir, write};
use garret_testkit::{Probe, Tree};

use crate::journal::desk::{Desk, making};

fn file(content: &str) -> PlacedEntry {
    PlacedEntry::File {
        content: content.to_owned().into(),
        mode: 0o644,
    }
}

/// The puts of somebody who looked at the files when the journal was at `change`, at the time `at`.
fn puts(change: u64, at: Timestamp, all: Vec<(&str, PlacedEntry)>) -> PutBatch {
    let put = |(path, placed): (&str, PlacedEntry)| PathPut {
        path: EntryPath::from_bytes(path.as_bytes().to_vec()),
        expected: PathExpectation::UnchangedSince { change, at },
        placed,
    };
    PutBatch {
        puts: all.into_iter().map(put).collect(),
        ..PutBatch::default()
    }
}

async fn on_disk(desk: &Desk) -> Tree {
    Probe::new(desk.room.clone(), None).tree().await
}

async fn now(desk: &Desk) -> (u64, Timestamp) {
    let head = History::head(&*desk.room).await.expect("the journal can be read");
    // File systems tell the time in ticks; what happens after this is later by more than one.
    std::thread::sleep(std::time::Duration::from_millis(30));
    let at = SystemClock::default().now();
    std::thread::sleep(std::time::Duration::from_millis(30));
    (head, at)
}

#[tokio::test]
async fn everything_that_can_be_put_is_put_and_taken_back_as_one_change() {
    let desk = Desk::over(&[("old/a", "a"), ("gone", "g")]).await;
    let (change, at) = now(&desk).await;
    let before = on_disk(&desk).await;
    let all = vec![
        ("gone", PlacedEntry::Nothing),
        ("new", PlacedEntry::Directory { mode: 0o750 }),
        ("new/empty", PlacedEntry::Directory { mode: 0o755 }),
        (
            "new/link",
            PlacedEntry::Symlink {
                target: "../old/a".into(),
            },
        ),
        (
            "new/tool",
            PlacedEntry::File {
                content: "#!".into(),
                mode: 0o755,
            },
        ),
        ("old/a", file("changed")),
    ];
    let done = desk.room.put(puts(change, at, all), making()).await.unwrap();
    assert_eq!(done.expect("something differs").path_count, 6);
    let (journal, disk) = desk.trees().await;
    assert_eq!(journal, disk);
    assert_eq!(
        desk.on_disk("new/link").as_deref(),
        Some("changed"),
        "the link leads there"
    );
    desk.undo().await;
    assert_eq!(on_disk(&desk).await, before);
}

#[tokio::test]
async fn what_others_did_before_is_recorded_and_no_conflict() {
    let desk = Desk::over(&[("a", "one"), ("b", "one")]).await;
    desk.write("a", "two").await;
    desk.write("b", "two").await;
    desk.put_outside("a", "three, by another program");
    std::fs::remove_file(desk.path("b")).unwrap();
    let (change, at) = now(&desk).await;
    let all = vec![("a", file("four")), ("b", file("five"))];
    desk.room.put(puts(change, at, all), making()).await.unwrap();
    desk.undo().await;
    assert_eq!(desk.on_disk("a").as_deref(), Some("three, by another program"));
    assert_eq!(desk.on_disk("b"), None);
}

#[tokio::test]
async fn what_anybody_did_meanwhile_is_a_conflict_and_nothing_is_touched() {
    let desk = Desk::over(&[("a", "one"), ("b", "one"), ("c", "one")]).await;
    desk.apply(vec![make_dir("d"), write("e", "one")]).await;
    let (change, at) = now(&desk).await;
    desk.write("a", "by a colleague").await;
    desk.put_outside("b", "by another program");
    desk.put_outside("d/new", "by another program");
    std::fs::remove_file(desk.path("e")).unwrap();
    let before = on_disk(&desk).await;
    for (path, placed) in [
        ("a", file("x")),
        ("b", file("x")),
        ("d/new", PlacedEntry::Nothing),
        ("e", file("x")),
    ] {
        let all = vec![("c", file("x")), (path, placed)];
        let error = desk.room.put(puts(change, at, all), making()).await.unwrap_err();
        assert_eq!(
            (error.kind(), error.path()),
            (ErrorKind::Conflict, Some(path)),
            "{error}"
        );
        assert_eq!(on_disk(&desk).await, before);
    }
}
