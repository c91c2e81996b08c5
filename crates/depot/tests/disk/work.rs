//! Work on a disk that may fail: what every error must be, and what must be there after it.

use std::cell::Cell;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use garret_core::{
    Batch, ChangesOptions, EntryKind, Error, ErrorKind, History, HistoryMode, ListOptions, MemoryStorage, Mutation,
    OpenContext, Origin, RandomIds, ReadOptions, Result, SnapshotOptions, StatOptions, Storage, StorageFactory,
    SystemClock, UndoSelection, WsPath,
};
use garret_depot::{Depot, DepotOptions, Durability, LazyDepot, NewWorkspace};
use garret_journal::Journaled;
use garret_storage::local::LocalFactory;
use garret_testkit::mutations::{append_or_create, make_dirs, remove_tree, rename_into, write};
use garret_testkit::{Node, Probe, Tree};
use serde_json::Map;

/// A depot at work, and what is known to be there.
pub(crate) struct Work {
    pub(crate) depot: Depot,
    place: Place,
    files: Arc<dyn Storage>,
    history: Arc<dyn History>,
    hidden: String,
    now: Tree,
    index: usize,
    errors: Cell<usize>,
}

/// Where the files live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// In the depot.
    Filestore,
    /// In a directory beside the home, with a journal in it.
    Local,
}

impl Place {
    /// The files of the workspace and their history.
    async fn open(self, depot: &Depot, home: &Path) -> Result<(Arc<dyn Storage>, Arc<dyn History>)> {
        if self == Self::Filestore {
            let room = Arc::new(depot.workspace("box").await?);
            return Ok((room.clone(), room));
        }
        let directory = home.with_file_name("files");
        let directory = directory.to_str().expect("its path is UTF-8");
        let options = Map::from_iter([("dir".to_owned(), directory.into())]);
        let opened = LocalFactory.open(options, &context()).await?;
        let depot = Arc::new(LazyDepot::from_opened(depot.clone()));
        let journaled = Journaled::open(opened, depot, Durability::Full).await?;
        Ok((journaled.clone(), journaled))
    }

    async fn make(self, depot: &Depot, home: &Path) -> Result<()> {
        match self {
            Self::Filestore => depot.create(NewWorkspace::named("box")).await.map(drop),
            Self::Local => {
                std::fs::create_dir(home.with_file_name("files")).expect("the disk is still well");
                Ok(())
            }
        }
    }
}

/// What an error may leave behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum After {
    /// Nothing: the change did not happen.
    Unchanged,
    /// The change did not happen, or did and could not be acknowledged. Never a part of it.
    ChangedOrNot,
}

pub(crate) async fn open(home: &Path) -> Result<Depot> {
    Depot::open(home, DepotOptions::default(), context()).await
}

fn context() -> OpenContext {
    OpenContext {
        clock: Arc::new(SystemClock::default()),
        ids: Arc::new(RandomIds),
        history: HistoryMode::Durable,
    }
}

/// A runtime whose every thread soon meets the faults, and soon has them behind it. It has no I/O driver: that is woken by a write, which
/// would fail like those of the disk and leave the runtime asleep.
pub(crate) fn block_on<F: Future>(work: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .max_blocking_threads(1)
        .enable_time()
        .build();
    runtime.expect("a runtime can be built").block_on(work)
}

impl Work {
    /// Makes a home with a workspace and something in it, on a disk that is well.
    pub(crate) async fn begin(home: &Path, place: Place) -> Self {
        let depot = open(home).await.expect("the disk is still well");
        place.make(&depot, home).await.expect("the disk is still well");
        let (files, history) = place.open(&depot, home).await.expect("the disk is still well");
        let probe = Probe::new(files, None);
        for index in 0..7 {
            probe.batch(batch(index).mutations).await;
        }
        drop((probe, history, depot));
        Self::resume(home, place).await
    }

    /// Opens a home that [`Work::begin`] made, trying again while the disk fails.
    pub(crate) async fn resume(home: &Path, place: Place) -> Self {
        let above = home.parent().expect("it is in a directory of the test");
        let hidden = above.to_str().expect("its path is UTF-8").to_owned();
        for _ in 0..200 {
            match Self::try_resume(home, place, &hidden).await {
                Ok(work) => return work,
                Err(error) => check_error(&error, &hidden),
            }
        }
        panic!("the disk cannot be opened any more");
    }

    async fn try_resume(home: &Path, place: Place, hidden: &str) -> Result<Self> {
        let depot = open(home).await?;
        let (files, history) = place.open(&depot, home).await?;
        let (hidden, now) = (hidden.to_owned(), Tree::new());
        let mut work = Self {
            depot,
            place,
            files,
            history,
            hidden,
            now,
            index: 6,
            errors: Cell::new(0),
        };
        work.now = work.tree().await;
        Ok(work)
    }

    /// One more change. An error is looked at, and so is what it left; gives the error.
    pub(crate) async fn change(&mut self, after: After) -> Option<Error> {
        self.index += 1;
        let index = self.index;
        let outcome = match index % 7 {
            3 => self.reversed(index).await,
            _ => self.files.apply(batch(index)).await.map(|_| ()),
        };
        let found = self.tree().await;
        match outcome {
            Ok(()) => {
                self.now = found;
                None
            }
            Err(error) => {
                self.check_error(&error);
                assert!(
                    // A journal that cannot be written is that of all files.
                    index % 7 == 3 || self.place == Place::Local || error.path().is_some(),
                    "a refused change names a path: {error:?}"
                );
                if found != self.now {
                    // Of an undo, a snapshot and a redo, the first may be done when the next one fails.
                    assert!(
                        after == After::ChangedOrNot || index % 7 == 3,
                        "{index} fails with {error} and changes something"
                    );
                    self.check_whole(index, &found).await;
                    self.now = found;
                }
                Some(error)
            }
        }
    }

    async fn reversed(&self, index: usize) -> Result<()> {
        let selection = UndoSelection::Last(1 + index % 2);
        self.history.undo(selection, Origin::default()).await?;
        let label = format!("at-{index}");
        self.history.snapshot(&label, SnapshotOptions::default()).await?;
        self.history.redo(Origin::default()).await.map(|_| ())
    }

    /// A change that happened without being acknowledged is there as a whole.
    async fn check_whole(&self, index: usize, found: &Tree) {
        if index % 7 == 3 {
            // An undo, a snapshot and a redo: three changes, each of which is a state of its own.
            return;
        }
        let copy = Probe::new(Arc::new(MemoryStorage::new(Arc::new(SystemClock::default()))), None);
        for (path, node) in &self.now {
            match node {
                Node::File { content, .. } => copy.apply(write(path, content.clone())).await,
                _ => copy.apply(make_dirs(path)).await,
            };
        }
        assert_eq!(copy.tree().await, self.now);
        copy.batch(batch(index).mutations).await;
        assert!(copy.tree().await == *found, "half of change {index} is visible");
    }

    /// The files, read until the disk lets itself be read. Never other bytes than were written.
    async fn tree(&self) -> Tree {
        for _ in 0..200 {
            match self.try_tree().await {
                Ok(tree) => return tree,
                Err(error) => self.check_error(&error),
            }
        }
        panic!("the disk cannot be read any more");
    }

    /// The depot is looked over until the disk lets itself be read: a thread that does so may have faults before it that the others have
    /// behind them.
    async fn is_clean(&self) {
        let mut found = Vec::new();
        for _ in 0..20 {
            match self.depot.check().await {
                Ok(problems) if problems.is_empty() => return,
                Ok(problems) => found = problems,
                Err(error) => self.check_error(&error),
            }
        }
        panic!("it is not clean: {found:?}");
    }

    /// How many errors were met so far, by changes and by looks.
    pub(crate) fn errors(&self) -> usize {
        self.errors.get()
    }

    pub(crate) fn check_error(&self, error: &Error) {
        self.errors.set(self.errors.get() + 1);
        check_error(error, &self.hidden);
    }

    async fn try_tree(&self) -> Result<Tree> {
        let everything = ListOptions {
            is_deep: true,
            limit: usize::MAX,
            ..ListOptions::default()
        };
        let mut tree = Tree::new();
        for entry in self.files.list(&WsPath::root(), everything).await?.entries {
            let path = entry.path.as_path().expect("its paths are UTF-8");
            let mode = self.files.stat(path, StatOptions::default()).await?.mode;
            let node = match entry.kind {
                EntryKind::File => Node::File {
                    content: self.files.read(path, ReadOptions::default()).await?.bytes,
                    mode,
                },
                _ => Node::Directory { mode },
            };
            tree.insert(path.to_string(), node);
        }
        Ok(tree)
    }

    /// After the disk is well again: everything acknowledged is there, the depot is clean, and work goes on, here and after reopening.
    pub(crate) async fn recovers(mut self, home: &Path) {
        for _ in 0..20 {
            let failed = self.change(After::Unchanged).await;
            assert!(failed.is_none(), "the disk is well again: {failed:?}");
        }
        self.is_clean().await;
        let every = ChangesOptions {
            limit: usize::MAX >> 1,
            ..ChangesOptions::default()
        };
        let changes = self.history.changes(every).await.expect("the journal can be read");
        assert!(changes.windows(2).all(|pair| pair[0].number == pair[1].number + 1));
        let (now, place) = (std::mem::take(&mut self.now), self.place);
        drop(self);
        let again = Self::resume(home, place).await;
        again.is_clean().await;
        assert!(again.now == now, "reopened, it is not what it was");
    }
}

/// What errors are allowed while the disk fails, and what they say.
pub(crate) fn check_error(error: &Error, hidden: &str) {
    // SQLite calls a page that the disk does not give corrupt; the message then says both.
    let is_unread = error.kind() == ErrorKind::Corrupt && error.message().ends_with("or its disk cannot be read");
    // A limit on the size of files is that of the file system, of which no disk can be healed.
    let is_limit = error.kind() == ErrorKind::TooLarge;
    let is_expected = matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::QuotaExceeded);
    assert!(is_expected || is_unread || is_limit, "{error:?}");
    let shown = format!("{error:?} {}", error.to_json());
    assert!(!shown.contains(hidden), "the error shows the host: {shown}");
    assert!(
        is_limit || error.hint_text().contains("disk"),
        "the hint tells what to do about it: {error:?}"
    );
}

/// Small and large files, appended, moved and removed; each change touches several paths, and none needs another to have happened.
fn batch(index: usize) -> Batch {
    let mutations: Vec<Mutation> = match index % 7 {
        0 => vec![write("left", small(index)), write("right", small(index))],
        1 => vec![write("d/large", noise(index, 90_000)), write("d/small", small(index))],
        2 => vec![
            append_or_create("log", small(index)),
            append_or_create("long", noise(index, 30_000)),
        ],
        4 => vec![
            write("here/f", small(index)),
            rename_into("here", &format!("moved/{index}")),
        ],
        5 => vec![
            write("moved/f", small(index)),
            remove_tree("moved"),
            write("after", small(index)),
        ],
        _ => vec![write("huge", noise(index, 400_000)), write("long", small(index))],
    };
    Batch {
        mutations,
        ..Batch::default()
    }
}

fn small(index: usize) -> Bytes {
    format!("{index}\n").repeat(50).into()
}

/// Content that cannot be packed.
pub(crate) fn noise(seed: usize, length: usize) -> Bytes {
    let mut bytes = vec![0; length];
    blake3::Hasher::new()
        .update(&seed.to_le_bytes())
        .finalize_xof()
        .fill(&mut bytes);
    bytes.into()
}
