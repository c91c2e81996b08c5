//! Where the files of the killed processes live. What they do and what must hold afterwards is the same everywhere.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use garret_core::{ErrorKind, History, OpenContext, RandomIds, Storage, StorageFactory, SystemClock};
use garret_depot::{Depot, DepotOptions, DepotWorkspace, Durability, Journaled, LazyDepot, NewWorkspace};
use garret_storage::local::LocalFactory;

/// A kind of storage with history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// In the depot.
    Filestore,
    /// In a directory of each workspace, with its journal in the depot.
    Local,
}

/// A workspace, wherever it lives.
#[derive(Debug, Clone)]
pub(crate) struct Room {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) history: Arc<dyn History>,
}

impl Place {
    pub(crate) const ALL: [Self; 2] = [Self::Filestore, Self::Local];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Filestore => "filestore",
            Self::Local => "local",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|place| place.name() == name)
    }

    /// The grace of the collections meanwhile: none where a change that was overtaken says so; on `local`, whose changes enter the depot
    /// later than they happen, one that is safe.
    pub(crate) fn grace(self) -> Duration {
        match self {
            Self::Filestore => Duration::ZERO,
            Self::Local => Duration::from_secs(3_600),
        }
    }

    /// The workspace `name`, made where it is missing.
    pub(crate) async fn room(self, home: &Path, depot: &Depot, name: &str) -> Room {
        match self {
            Self::Filestore => Room::of(found_or_made(depot, name).await),
            Self::Local => journaled(home, depot, name).await,
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

/// The directory is beside the depot's own files, in the same home, so that it goes with it.
async fn journaled(home: &Path, depot: &Depot, name: &str) -> Room {
    let directory = home.join("local").join(name);
    std::fs::create_dir_all(&directory).expect("the home can be written");
    let mut options = serde_json::Map::new();
    options.insert("dir".into(), directory.to_str().expect("its path is UTF-8").into());
    let opened = LocalFactory.open(options, &context()).await.expect("it is a directory");
    let depot = Arc::new(LazyDepot::opened(depot.clone()));
    let room = Journaled::open(opened, depot, Durability::Full)
        .await
        .expect("the disk is fine");
    Room {
        storage: room.clone(),
        history: room,
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
