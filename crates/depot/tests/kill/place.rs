//! Where the files of the killed processes live. What they do and what must hold afterwards is the same everywhere.

use std::path::Path;
use std::sync::Arc;

use garret_core::{ErrorKind, History, OpenContext, RandomIds, Storage, SystemClock};
use garret_depot::{Depot, DepotOptions, DepotWorkspace, NewWorkspace};

/// A kind of storage with history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// In the depot.
    Filestore,
}

/// A workspace, wherever it lives.
#[derive(Debug, Clone)]
pub(crate) struct Room {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) history: Arc<dyn History>,
}

impl Place {
    pub(crate) const ALL: [Self; 1] = [Self::Filestore];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Filestore => "filestore",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|place| place.name() == name)
    }

    /// The workspace `name`, made where it is missing.
    pub(crate) async fn room(self, depot: &Depot, name: &str) -> Room {
        match self {
            Self::Filestore => Room::of(found_or_made(depot, name).await),
        }
    }
}

impl Room {
    pub(crate) fn of(room: DepotWorkspace) -> Self {
        let room = Arc::new(room);
        Self {
            storage: room.clone(),
            history: room,
        }
    }
}

async fn found_or_made(depot: &Depot, name: &str) -> DepotWorkspace {
    match depot.create(NewWorkspace::named(name)).await {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => depot.workspace(name).await.expect("it is there"),
        made => made.expect("the disk is fine"),
    }
}

pub(crate) async fn open(home: &Path) -> Depot {
    Depot::open(home, DepotOptions::default(), context())
        .await
        .expect("the home can be opened")
}

pub(crate) fn in_memory() -> Depot {
    Depot::in_memory(DepotOptions::default(), context()).expect("memory needs nothing")
}

fn context() -> OpenContext {
    OpenContext {
        clock: Arc::new(SystemClock::default()),
        ids: Arc::new(RandomIds),
        history: garret_core::HistoryMode::Durable,
    }
}
