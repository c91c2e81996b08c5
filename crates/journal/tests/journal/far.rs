//! Files that are far away: what the journal asks of their storage around each change, and that nothing is lost by asking little.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use garret_core::{
    AccessLimits, EntryPath, ErrorKind, History, ListOptions, MemoryStorage, Mutation, MutationOutcome, OpenedStorage,
    PathExpectation, PathPut, PlacedEntry, Point, Precondition, PutBatch, ReadOptions, Result, SnapshotOptions,
    StatOptions, Storage, SystemClock, Timestamp, UndoSelection, WsPath,
};
use garret_depot::{ChangeKind, ChangesOptions};
use garret_journal::Journaled;
use garret_testkit::mutations::{append, write};
use garret_testkit::{Call, Hook, Hooked};
use tempfile::TempDir;

use crate::journal::desk::making;
use crate::journal::support::{depot_at, folder, journaled};

/// Notes what the storage is asked.
#[derive(Debug, Default)]
struct Asked(Mutex<Vec<&'static str>>);

#[async_trait]
impl Hook for Asked {
    async fn before(&self, call: Call<'_>) {
        let what = match call {
            Call::Resolve(_) => "resolve",
            Call::Stat(_) => "stat",
            Call::Read(_) => "read",
            Call::List(..) => "list",
            Call::Apply => "apply",
        };
        self.0.lock().expect("no holder panics").push(what);
    }
}

struct Far {
    files: Arc<Hooked<Asked>>,
    home: TempDir,
    room: Arc<Journaled>,
}

impl Far {
    async fn new() -> Self {
        let files = Arc::new(MemoryStorage::new(Arc::new(SystemClock::default())));
        let files = Arc::new(Hooked::new(files, Asked::default()));
        let home = folder();
        let room = opened(&files, &home).await;
        Self { files, home, room }
    }

    /// Another handle, as another process would have.
    async fn reopen(&mut self) {
        self.room = opened(&self.files, &self.home).await;
    }

    async fn apply(&self, mutation: Mutation) -> Result<Vec<MutationOutcome>> {
        self.room.apply(mutation.into()).await
    }

    /// What others do.
    async fn outside(&self, path: &str, content: &str) {
        self.files
            .inner()
            .apply(write(path, content.to_owned()).into())
            .await
            .expect("it can be written");
    }

    fn asked(&self) -> Vec<&'static str> {
        std::mem::take(&mut *self.files.hook().0.lock().expect("no holder panics"))
    }

    async fn text(&self, path: &str) -> String {
        let read = self.files.inner().read(&at(path), ReadOptions::default()).await;
        String::from_utf8(read.expect("it is there").bytes.to_vec()).expect("it is text")
    }
}

async fn opened(files: &Arc<Hooked<Asked>>, home: &TempDir) -> Arc<Journaled> {
    let opened = OpenedStorage {
        location_id: Some("far away".into()),
        access_limits: AccessLimits {
            is_remote: true,
            ..AccessLimits::default()
        },
        ..files.clone().into()
    };
    journaled(opened, depot_at(home.path())).await
}

fn at(path: &str) -> WsPath {
    WsPath::parse(path).expect("it is a path")
}

async fn version(far: &Far, path: &str) -> Precondition {
    let options = StatOptions {
        with_version: true,
        ..StatOptions::default()
    };
    let stat = far.files.inner().stat(&at(path), options).await.expect("it is there");
    Precondition::Version(stat.version.expect("it has one"))
}

#[tokio::test]
async fn a_change_of_one_file_is_one_question() {
    let mut far = Far::new().await;
    for _ in 0..2 {
        far.apply(write("a", "one")).await.expect("it is made");
        assert_eq!(far.asked(), ["apply"], "a write");
        far.apply(write("a", "two")).await.expect("it is replaced");
        assert_eq!(far.asked(), ["apply"], "another");
        far.apply(append("a", " and more")).await.expect("it is appended to");
        assert_eq!(far.asked(), ["apply"], "an append");
        let bound = Mutation::Write {
            path: at("a"),
            content: "three".into(),
            precondition: version(&far, "a").await,
            mode: None,
            parents: false,
        };
        far.apply(bound).await.expect("it is what was read");
        assert_eq!(far.asked(), ["apply"], "what an edit does");
        far.apply(write("large", "x".repeat(100_000)))
            .await
            .expect("it is made");
        assert_eq!(far.asked(), ["apply"], "a large one");
        let gone = Mutation::Remove {
            path: at("a"),
            recursive: false,
            precondition: Precondition::Any,
        };
        far.apply(gone).await.expect("it goes");
        assert_eq!(far.asked(), ["apply"], "a removal");
        // What one process knows, the next one knows too.
        far.reopen().await;
        assert_eq!(far.asked(), Vec::<&str>::new(), "opening");
    }
    let changes = History::changes(&*far.room, ChangesOptions::default())
        .await
        .expect("they are there");
    assert_eq!(changes.len(), 12);
    assert!(
        changes.iter().all(|change| change.kind == ChangeKind::Change),
        "{changes:?}"
    );
}

#[tokio::test]
async fn the_first_file_of_a_new_directory_takes_one_look_more() {
    let far = Far::new().await;
    far.apply(write("a/b/c/one", "1")).await.expect("it is made");
    assert_eq!(far.asked(), ["stat", "apply"]);
    far.apply(write("a/b/c/two", "2")).await.expect("it is made");
    assert_eq!(far.asked(), ["apply"]);
    far.outside("x/theirs", "3").await;
    far.apply(write("x/y/ours", "4")).await.expect("it is made");
    for _ in 0..3 {
        History::undo(&*far.room, UndoSelection::Last(1), making())
            .await
            .expect("it is undone");
    }
    let listed = far
        .files
        .inner()
        .list(
            &WsPath::root(),
            ListOptions {
                is_deep: true,
                ..ListOptions::default()
            },
        )
        .await;
    let left: Vec<_> = listed
        .expect("it can be listed")
        .entries
        .iter()
        .map(|entry| entry.path.display_path())
        .collect();
    assert_eq!(
        left,
        ["x", "x/theirs"],
        "what came with the files went with them, and nothing else"
    );
}

#[tokio::test]
async fn what_others_did_is_never_overwritten_unseen() {
    let far = Far::new().await;
    far.apply(write("a", "ours")).await.expect("it is made");
    far.outside("a", "theirs").await;
    far.outside("b", "theirs, too").await;
    far.apply(write("a", "ours again")).await.expect("it is replaced");
    far.apply(write("b", "ours")).await.expect("it is replaced");
    far.apply(append("a", " and on")).await.expect("it is appended to");
    assert_eq!(far.text("a").await, "ours again and on");
    let making = making();
    for _ in 0..3 {
        History::undo(&*far.room, UndoSelection::Last(1), making.clone())
            .await
            .expect("it is undone");
    }
    assert_eq!(
        (far.text("a").await, far.text("b").await),
        ("theirs".into(), "theirs, too".into())
    );
}

#[tokio::test]
async fn a_snapshot_lists_and_fetches_only_what_the_depot_lacks() {
    let far = Far::new().await;
    for number in 0..50 {
        far.outside(&format!("d{}/f{number}", number % 5), &format!("content {number}"))
            .await;
    }
    let snapshot = async |label: &str| {
        far.room
            .snapshot(label, SnapshotOptions::default())
            .await
            .expect("it is taken");
        let asked = far.asked();
        let count = |what: &str| asked.iter().filter(|one| **one == what).count();
        (count("list"), count("read"), count("stat"))
    };
    let (lists, reads, _) = snapshot("first").await;
    assert_eq!((lists, reads), (1, 50));
    assert_eq!(snapshot("second").await, (1, 0, 0), "nothing changed");
    far.outside("d1/f1", "changed").await;
    far.outside("d1/new", "new").await;
    let (lists, reads, stats) = snapshot("third").await;
    assert_eq!((lists, reads, stats), (1, 2, 0));
    far.apply(write("d1/own", "ours")).await.expect("it is made");
    far.asked();
    assert_eq!(snapshot("fourth").await, (1, 0, 0), "what was written here is known");
    let past = far
        .room
        .open_view(&Point::Snapshot("first".into()))
        .await
        .expect("it is there");
    let read = past
        .read(&at("d1/f1"), ReadOptions::default())
        .await
        .expect("it was captured");
    assert_eq!(&read.bytes[..], b"content 1");
}

/// What a command did that began when the journal was at `change`.
fn puts(change: u64, all: Vec<(String, PlacedEntry)>) -> PutBatch {
    let put = |(path, placed): (String, PlacedEntry)| PathPut {
        path: EntryPath::from_bytes(path.into_bytes()),
        expected: PathExpectation::UnchangedSince {
            change,
            at: Timestamp::MIN,
        },
        placed,
    };
    PutBatch {
        puts: all.into_iter().map(put).collect(),
        ..PutBatch::default()
    }
}

fn file(content: &str) -> PlacedEntry {
    PlacedEntry::File {
        content: content.to_owned().into(),
        mode: 0o755,
    }
}

#[tokio::test]
async fn what_a_command_did_goes_up_as_one_question() {
    let far = Far::new().await;
    for number in 0..20 {
        far.outside(&format!("src/f{number}"), "before").await;
    }
    far.room.open_view(&Point::Now).await.expect("everything is looked at");
    let head = History::head(&*far.room).await.expect("there is one");
    far.asked();
    let mut all: Vec<_> = (0..10)
        .map(|number| (format!("src/f{number}"), file("after")))
        .collect();
    all.push(("src/f19".into(), PlacedEntry::Nothing));
    all.push(("out".into(), PlacedEntry::Directory { mode: 0o755 }));
    all.push(("out/listing.txt".into(), file("listed")));
    far.room
        .put(puts(head, all), making())
        .await
        .expect("nobody else was there");
    assert_eq!(far.asked(), ["apply"]);
    assert_eq!(
        (far.text("src/f3").await, far.text("out/listing.txt").await),
        ("after".into(), "listed".into())
    );
    far.room
        .snapshot("after", SnapshotOptions::default())
        .await
        .expect("it is taken");
    assert_eq!(far.asked(), ["list"], "all of it is known");
    History::undo(&*far.room, UndoSelection::Last(1), making())
        .await
        .expect("it is undone");
    assert_eq!(far.text("src/f3").await, "before");
    assert_eq!(far.text("src/f19").await, "before");
    assert!(
        far.files
            .inner()
            .stat(&at("out"), StatOptions::default())
            .await
            .is_err()
    );
}

#[tokio::test]
async fn a_command_that_others_overtook_changes_nothing() {
    let far = Far::new().await;
    for path in ["a", "b", "c"] {
        far.outside(path, "before").await;
    }
    far.room.open_view(&Point::Now).await.expect("everything is looked at");
    let head = History::head(&*far.room).await.expect("there is one");
    let clashes: [(&str, PlacedEntry); 3] = [("b", file("ours")), ("new", file("ours")), ("c", PlacedEntry::Nothing)];
    for (path, placed) in clashes {
        far.outside(path, "theirs").await;
        let all = vec![("a".to_owned(), file("ours")), (path.to_owned(), placed)];
        let error = far
            .room
            .put(puts(head, all), making())
            .await
            .expect_err("others were there");
        assert_eq!(error.kind(), ErrorKind::Conflict, "{path}: {error}");
        assert_eq!(
            (far.text("a").await, far.text(path).await),
            ("before".into(), "theirs".into()),
            "{path}"
        );
    }
}

#[tokio::test]
async fn a_large_file_is_captured_in_pieces_and_nothing_of_it_stays_beside_the_journal() {
    let far = Far::new().await;
    let content: String = (0..3_000_000)
        .map(|number| char::from(b'a' + (number % 23) as u8))
        .collect::<String>()
        .repeat(7);
    far.outside("large", &content).await;
    far.room
        .snapshot("one", SnapshotOptions::default())
        .await
        .expect("it is taken");
    let reads = far.asked().iter().filter(|one| **one == "read").count();
    assert_eq!(reads, 3, "of 21 MB, eight at a time");
    far.outside("large", "small now").await;
    let past = far
        .room
        .open_view(&Point::Snapshot("one".into()))
        .await
        .expect("it is there");
    let read = past
        .read(&at("large"), ReadOptions::default())
        .await
        .expect("it was captured");
    assert!(read.bytes == content.as_bytes(), "byte for byte");
    let journals = std::fs::read_dir(far.home.path().join("journals")).expect("it is there");
    let left = journals
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("fetch-"));
    assert_eq!(left.count(), 0);
}
