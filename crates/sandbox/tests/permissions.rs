//! What a command left without the bits of its owner, taken back by somebody who is not root.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
#![allow(
    clippy::disallowed_methods,
    reason = "the test looks at the directory from outside, and is another user there"
)]

use std::collections::BTreeMap;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::sync::Arc;

use garret_core::{
    Clock, Durability, EntryPath, History, HistoryMode, OpenContext, Origin, PathExpectation, PathPut, PlacedEntry,
    PutBatch, RandomIds, ReversalOutcome, StorageFactory, SystemClock, UndoSelection,
};
use garret_depot::{DepotOptions, LazyDepot};
use garret_journal::Journaled;
use garret_storage::local::LocalFactory;
use serde_json::{Map, json};

/// Bits mean nothing to root, so a thread of root becomes somebody else; those that it starts are the same.
fn as_somebody<F: Future<Output = ()>>(directories: &[&Path], work: impl FnOnce() -> F + Send) {
    let somebody = rustix::process::Uid::from_raw(65_534);
    let is_root = rustix::process::geteuid().is_root();
    if is_root {
        directories
            .iter()
            .for_each(|directory| chown(directory, Some(somebody.as_raw()), None).unwrap());
    }
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            if is_root {
                rustix::thread::set_thread_res_uid(somebody, somebody, somebody).unwrap();
            }
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(work());
        });
        thread.join().unwrap();
    });
}

async fn journaled(directory: &Path, home: &Path) -> Arc<Journaled> {
    let context = OpenContext {
        clock: Arc::new(SystemClock::default()),
        ids: Arc::new(RandomIds),
        history: HistoryMode::Durable,
    };
    let options = Map::from_iter([("dir".to_owned(), json!(directory.to_str().unwrap()))]);
    let opened = LocalFactory.open(options, &context).await.unwrap();
    let depot = Arc::new(LazyDepot::new(home, DepotOptions::default(), context));
    Journaled::open(opened, depot, Durability::Relaxed).await.unwrap()
}

/// Puts things as a command that ran until now.
async fn put(room: &Journaled, all: Vec<(&[u8], PlacedEntry)>) {
    let change = History::head(room).await.unwrap();
    let at = SystemClock::default().now();
    let put = |(path, placed): (&[u8], PlacedEntry)| PathPut {
        path: EntryPath::from_bytes(path.to_vec()),
        expected: PathExpectation::UnchangedSince { change, at },
        placed,
    };
    let puts = PutBatch {
        puts: all.into_iter().map(put).collect(),
        ..PutBatch::default()
    };
    room.put(puts, Origin::default()).await.unwrap();
}

fn file(content: &'static str) -> PlacedEntry {
    PlacedEntry::File {
        content: content.into(),
        mode: 0o640,
    }
}

fn directory(mode: u32) -> PlacedEntry {
    PlacedEntry::Directory { mode }
}

/// The modes of everything, seen by whoever may see it all.
fn modes(directory: &Path) -> BTreeMap<String, u32> {
    let mut modes = BTreeMap::new();
    let mut ahead = vec![directory.to_owned()];
    while let Some(next) = ahead.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            let stat = std::fs::symlink_metadata(&path).unwrap();
            let name = path.strip_prefix(directory).unwrap().to_string_lossy().into_owned();
            modes.insert(name, stat.permissions().mode() & 0o7777);
            if stat.is_dir() {
                ahead.push(path);
            }
        }
    }
    modes
}

async fn undo(room: &Journaled) {
    let undone = room.undo(UndoSelection::Last(1), Origin::default()).await.unwrap();
    assert!(matches!(undone, ReversalOutcome::Done(_)), "{undone:?}");
}

async fn redo(room: &Journaled) {
    let redone = room.redo(Origin::default()).await.unwrap();
    assert!(matches!(redone, ReversalOutcome::Done(_)), "{redone:?}");
}

#[test]
fn directories_that_may_not_be_written_are_undone_and_redone_by_their_owner() {
    let (place, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    as_somebody(&[place.path(), home.path()], || async {
        let (place, home) = (place.path(), home.path());
        let room = journaled(place, home).await;
        put(
            &room,
            vec![
                (b"cache", directory(0o500)),
                (b"cache/deep", directory(0o555)),
                (b"cache/deep/f", file("one")),
                (b"cache/odd-\xff", file("odd")),
            ],
        )
        .await;
        let made = modes(place);
        assert_eq!((made["cache"], made["cache/deep"]), (0o500, 0o555), "{made:?}");
        put(
            &room,
            vec![
                (b"cache/deep/f", file("two")),
                (b"cache/deep/g", file("new")),
                (b"cache/odd-\xff", PlacedEntry::Nothing),
            ],
        )
        .await;
        let changed = modes(place);
        assert_eq!((changed["cache"], changed["cache/deep"]), (0o500, 0o555), "{changed:?}");
        undo(&room).await;
        assert_eq!(modes(place), made);
        assert_eq!(std::fs::read_to_string(place.join("cache/deep/f")).unwrap(), "one");
        undo(&room).await;
        assert!(modes(place).is_empty(), "{:?}", modes(place));
        redo(&room).await;
        assert_eq!(modes(place), made);
        redo(&room).await;
        assert_eq!(modes(place), changed);
    });
}

#[test]
fn what_lies_in_a_directory_that_is_shut_is_taken_back_too() {
    let (place, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    as_somebody(&[place.path(), home.path()], || async {
        let (place, home) = (place.path(), home.path());
        let room = journaled(place, home).await;
        put(&room, vec![(b"shut", directory(0o755)), (b"shut/f", file("one"))]).await;
        put(&room, vec![(b"shut/f", file("two")), (b"shut", directory(0o000))]).await;
        undo(&room).await;
        assert_eq!(std::fs::read_to_string(place.join("shut/f")).unwrap(), "one");
        assert_eq!(modes(place)["shut"], 0o755);
    });
}
