//! Depots to test.

use std::path::Path;
use std::sync::Arc;

use garret_core::{OpenContext, Origin, RandomIds, Storage, SystemClock};
use garret_depot::{
    Change, Depot, DepotOptions, DepotWorkspace, Durability, NewWorkspace, Point, ReversalOutcome, UndoSelection,
};
use garret_testkit::{Probe, Tree};

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
