//! Depots to test.

use std::path::Path;
use std::sync::Arc;

use garret_core::{Actor, Batch, OpenContext, Origin, RandomIds, Storage, SystemClock};
use garret_depot::{
    Change, Depot, DepotOptions, DepotWorkspace, Durability, NewWorkspace, Point, ReversalOutcome, UndoSelection,
};
use garret_testkit::{Fixture, Probe, Tree, mutations};

pub(crate) fn context() -> OpenContext {
    OpenContext {
        clock: Arc::new(SystemClock::default()),
        ids: Arc::new(RandomIds),
        history: garret_core::HistoryMode::Durable,
    }
}

/// Without syncs: what is tested is what is seen, not what survives a power cut. Little is kept inline, so that both places are used.
pub(crate) fn options() -> DepotOptions {
    DepotOptions {
        durability: Durability::Relaxed,
        inline_bytes: 1024,
        ..DepotOptions::default()
    }
}

pub(crate) fn in_memory() -> Depot {
    Depot::in_memory(options(), context()).expect("memory needs nothing")
}

pub(crate) async fn on_disk(home: &Path) -> Depot {
    Depot::open(home, options(), context())
        .await
        .expect("the home can be opened")
}

/// A home in memory where there is such a place: what is tested there does not depend on a disk.
pub(crate) fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .expect("a temporary directory can be made")
}

pub(crate) async fn workspace(depot: &Depot, name: &str) -> DepotWorkspace {
    depot.create(NewWorkspace::named(name)).await.expect("the name is free")
}

pub(crate) async fn memory_fixture() -> Fixture {
    Fixture::new(Arc::new(workspace(&in_memory(), "box").await))
}

pub(crate) async fn disk_fixture() -> Fixture {
    let home = tempfile::tempdir().expect("a temporary directory can be made");
    let depot = on_disk(home.path()).await;
    let hidden = home.path().to_str().expect("its name is UTF-8").to_owned();
    Fixture::new(Arc::new(workspace(&depot, "box").await))
        .hiding(hidden)
        .holding(home)
}

/// A workspace with the comforts of a test: paths and content as text.
#[derive(Debug, Clone)]
pub(crate) struct Desk {
    pub(crate) room: DepotWorkspace,
    pub(crate) probe: Probe,
}

impl Desk {
    pub(crate) fn over(room: DepotWorkspace) -> Self {
        let probe = Probe::new(Arc::new(room.clone()), None);
        Self { room, probe }
    }

    pub(crate) async fn in_memory() -> Self {
        Self::over(workspace(&in_memory(), "box").await)
    }

    /// Writes as a session and a tool call, and gives the change.
    pub(crate) async fn write_as(&self, path: &str, content: &str, session: &str, call: &str) -> Change {
        let actor = Actor {
            agent: Some("tester".into()),
            session: Some(session.into()),
            tool_call: Some(call.into()),
            door: "api".into(),
            command: None,
        };
        let origin = Origin {
            operation: "write_file".into(),
            actor,
            ..Origin::default()
        };
        let batch = Batch {
            mutations: vec![mutations::write(path, content.to_owned())],
            origin,
            ..Batch::default()
        };
        self.probe.storage().apply(batch).await.expect("the write is fine");
        self.newest().await
    }

    /// Writes, and gives the change.
    pub(crate) async fn write(&self, path: &str, content: &str) -> Change {
        self.probe.write(path, content.to_owned()).await;
        self.newest().await
    }

    pub(crate) async fn newest(&self) -> Change {
        let mut changes = self.room.changes(None, 1).await.expect("the journal can be read");
        changes.pop().expect("there is a change")
    }

    pub(crate) async fn undo(&self, selection: UndoSelection) -> ReversalOutcome {
        let undone = self.room.undo(selection, Origin::default()).await;
        undone.expect("there is something to undo")
    }

    /// Undoes without a clash.
    pub(crate) async fn undone(&self, selection: UndoSelection) -> Change {
        done(self.undo(selection).await)
    }

    pub(crate) async fn redone(&self) -> Change {
        done(
            self.room
                .redo(Origin::default())
                .await
                .expect("there is something to redo"),
        )
    }

    pub(crate) async fn tree_at(&self, point: &Point) -> Tree {
        tree_of(self.room.open_view_at(point).await.expect("the point is known")).await
    }
}

pub(crate) async fn tree_of(storage: impl Storage + 'static) -> Tree {
    Probe::new(Arc::new(storage), None).tree().await
}

fn done(reversed: ReversalOutcome) -> Change {
    match reversed {
        ReversalOutcome::Done(change) => *change,
        ReversalOutcome::Clashed(clashes) => panic!("{clashes:?}"),
    }
}
