//! A directory with a journal and the comforts of a test.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use garret_core::{Actor, Batch, Mutation, OpenedStorage, Origin, Storage, WsPath};
use garret_depot::{
    Change, ChangeKind, ChangesOptions, History, PathChange, PathClash, Point, ReversalOutcome, UndoSelection,
};
use garret_journal::Journaled;
use garret_testkit::{Hook, Hooked, Tree, mutations};
use tempfile::TempDir;
use tokio::sync::Notify;

use crate::journal::meddling::{Meddler, Moment};
use crate::journal::stopping::Stopping;
use crate::journal::support::{depot_at, folder, journaled, local};

pub(crate) struct Desk {
    directory: TempDir,
    pub(crate) home: TempDir,
    pub(crate) room: Arc<Journaled>,
}

impl Desk {
    pub(crate) async fn new() -> Self {
        Self::over(&[]).await
    }

    /// A directory with files that were there before the journal.
    pub(crate) async fn over(files: &[(&str, &str)]) -> Self {
        let (directory, home) = (folder(), folder());
        for (path, content) in files {
            put(&directory.path().join(path), content);
        }
        let room = journaled(local(directory.path()).await, depot_at(home.path())).await;
        Self { directory, home, room }
    }

    /// Another handle on the same directory and home, as another process would have.
    pub(crate) async fn again(&self) -> Arc<Journaled> {
        journaled(local(self.directory.path()).await, depot_at(self.home.path())).await
    }

    pub(crate) async fn reopen(&mut self) {
        self.room = self.again().await;
    }

    /// A handle on which `meddler`, another program, is at work at `moment`, once.
    pub(crate) async fn meddled(&self, moment: Moment, meddler: impl FnOnce() + Send + 'static) -> Arc<Journaled> {
        self.hooked(Meddler::at(moment, meddler)).await
    }

    /// A handle of whose files a hook sees each call.
    pub(crate) async fn hooked(&self, hook: impl Hook + 'static) -> Arc<Journaled> {
        let opened = local(self.directory.path()).await;
        let hooked = OpenedStorage {
            storage: Arc::new(Hooked::new(opened.storage, hook)),
            ..opened
        };
        journaled(hooked, depot_at(self.home.path())).await
    }

    /// Begins `work` on a handle whose changes stop after `steps` of their mutations, and lets it die there.
    pub(crate) async fn crash<W: Future>(&self, steps: usize, work: impl FnOnce(Arc<Journaled>) -> W) {
        let stopped = Arc::new(Notify::new());
        let stopping = Stopping {
            steps,
            stopped: stopped.clone(),
        };
        let room = self.hooked(stopping).await;
        tokio::select! {
            _ = work(room) => panic!("it was to stop in its middle"),
            () = stopped.notified() => {}
        }
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.directory.path().join(path)
    }

    /// What another program does.
    pub(crate) fn put_outside(&self, path: &str, content: &str) {
        put(&self.path(path), content);
    }

    pub(crate) fn on_disk(&self, path: &str) -> Option<String> {
        std::fs::read_to_string(self.path(path)).ok()
    }

    pub(crate) async fn apply(&self, mutations: Vec<Mutation>) {
        let batch = Batch {
            mutations,
            ..Batch::default()
        };
        self.room.apply(batch).await.expect("the batch is fine");
    }

    pub(crate) async fn write(&self, path: &str, content: &str) {
        self.apply(vec![mutations::write(path, content.to_owned())]).await;
    }

    pub(crate) async fn changes(&self) -> Vec<Change> {
        let changes = self.room.changes(ChangesOptions::default()).await;
        changes.expect("the journal can be read")
    }

    pub(crate) async fn kinds(&self) -> Vec<ChangeKind> {
        let mut kinds: Vec<_> = self.changes().await.into_iter().map(|change| change.kind).collect();
        kinds.reverse();
        kinds
    }

    pub(crate) async fn undo(&self) -> Change {
        done(
            self.room
                .undo(UndoSelection::Last(1), making())
                .await
                .expect("there is one"),
        )
    }

    pub(crate) async fn redo(&self) -> Change {
        done(self.room.redo(making()).await.expect("there is one"))
    }

    pub(crate) async fn undo_clashes(&self, selection: UndoSelection) -> Vec<PathClash> {
        match self.room.undo(selection, making()).await.expect("there is one") {
            ReversalOutcome::Clashed(clashes) => clashes,
            ReversalOutcome::Done(change) => panic!("it must clash: {change:?}"),
        }
    }

    /// What differs between what the journal knows and what is on the disk, as a tree of each.
    pub(crate) async fn trees(&self) -> (Tree, Tree) {
        // By its number: a look at what is now would have the journal find out.
        let newest = self.changes().await.first().map_or(0, |change| change.number);
        let known = self.room.open_view(&Point::Number(newest)).await.expect("it is known");
        let known = garret_testkit::Probe::new(known, None).tree().await;
        let there = garret_testkit::Probe::new(self.room.clone(), None).tree().await;
        (known, there)
    }

    pub(crate) async fn diff(&self, from: Point) -> Vec<(String, bool, bool)> {
        let diff = self.room.diff(&from, &Point::Now, &WsPath::root()).await;
        diff.expect("both points are known").iter().map(shown).collect()
    }
}

fn shown(change: &PathChange) -> (String, bool, bool) {
    (
        change.path.display_path(),
        change.before.is_some(),
        change.after.is_some(),
    )
}

pub(crate) fn making() -> Origin {
    Origin {
        actor: Actor {
            door: "api".into(),
            ..Actor::default()
        },
        ..Origin::default()
    }
}

pub(crate) fn done(reversed: ReversalOutcome) -> Change {
    match reversed {
        ReversalOutcome::Done(change) => *change,
        ReversalOutcome::Clashed(clashes) => panic!("{clashes:?}"),
    }
}

fn put(path: &Path, content: &str) {
    std::fs::create_dir_all(path.parent().expect("it has one")).expect("directories can be made");
    std::fs::write(path, content).expect("files can be written");
}
