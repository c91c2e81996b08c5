//! Where the files of the killed processes live. What they do and what must hold afterwards is the same everywhere.
//!
//! On `s3` the processes reach the server through a proxy of the one that kills them: when that has seen their connections close, nothing
//! that they had sent is still to be done.

use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use garret_core::{ErrorKind, History, OpenContext, RandomIds, Storage, StorageFactory, SystemClock};
use garret_depot::{Depot, DepotOptions, DepotWorkspace, Durability, LazyDepot, NewWorkspace};
use garret_journal::Journaled;
use garret_storage::local::LocalFactory;
use garret_storage::s3::S3Factory;
use garret_testkit::s3::{Keys, Proxy, Server};
use serde_json::{Map, Value, json};

/// The file of a home that tells the processes where their server is.
const ENDPOINT: &str = "s3-endpoint";

/// A kind of storage with history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// In the depot.
    Filestore,
    /// In a directory of each workspace, with its journal in the depot.
    Local,
    /// Below a prefix of each workspace on a real server, with its journal in the depot.
    S3,
}

/// A workspace, wherever it lives.
#[derive(Debug, Clone)]
pub(crate) struct Room {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) history: Arc<dyn History>,
}

impl Place {
    pub(crate) const ALL: [Self; 3] = [Self::Filestore, Self::Local, Self::S3];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Filestore => "filestore",
            Self::Local => "local",
            Self::S3 => "s3",
        }
    }

    /// How many rounds there are where nobody says how many.
    pub(crate) fn rounds(self) -> u64 {
        match self {
            Self::Filestore | Self::Local => 12,
            Self::S3 => 3,
        }
    }

    /// How many steps a task that is not killed takes.
    pub(crate) fn steps(self) -> usize {
        match self {
            Self::Filestore | Self::Local => 25,
            Self::S3 => 12,
        }
    }

    /// A new home, in which processes find what they need.
    pub(crate) fn home(self) -> tempfile::TempDir {
        let home = tempfile::tempdir().expect("a temporary directory can be made");
        if self == Self::S3 {
            std::fs::write(home.path().join(ENDPOINT), proxy().endpoint()).expect("the home can be written");
        }
        home
    }

    /// Waits until nothing is under way for processes that are gone.
    pub(crate) fn settle(self) {
        if self == Self::S3 {
            proxy().wait_for_clients_to_go();
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|place| place.name() == name)
    }

    /// The grace of the collections meanwhile: none where a change that was overtaken says so; on `local` and `s3`, whose changes enter the
    /// depot later than they happen, one that is safe.
    pub(crate) fn grace(self) -> Duration {
        match self {
            Self::Filestore => Duration::ZERO,
            Self::Local | Self::S3 => Duration::from_secs(3_600),
        }
    }

    /// The workspace `name`, made where it is missing.
    pub(crate) async fn room(self, home: &Path, depot: &Depot, name: &str) -> Room {
        match self {
            Self::Filestore => Room::of(found_or_made(depot, name).await),
            Self::Local => journaled(&LocalFactory, directory(home, name), depot).await,
            Self::S3 => journaled(&S3Factory, prefix(home, name), depot).await,
        }
    }
}

/// In front of the server of the process that kills.
fn proxy() -> &'static Proxy {
    static PROXY: OnceLock<Proxy> = OnceLock::new();
    PROXY.get_or_init(|| Proxy::before(Server::shared_seaweed()))
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
fn directory(home: &Path, name: &str) -> Map<String, Value> {
    let directory = home.join("local").join(name);
    std::fs::create_dir_all(&directory).expect("the home can be written");
    options(json!({ "dir": directory.to_str().expect("its path is UTF-8") }))
}

/// The prefix is named after the home, so that no other home has it.
fn prefix(home: &Path, name: &str) -> Map<String, Value> {
    let endpoint = std::fs::read_to_string(home.join(ENDPOINT)).expect("the home says where its server is");
    let home = home
        .file_name()
        .and_then(|name| name.to_str())
        .expect("its name is UTF-8");
    let keys = Keys::admin();
    options(json!({
        "bucket": Server::BUCKET,
        "prefix": format!("killed/{home}/{name}"),
        "endpoint": endpoint,
        "force_path_style": true,
        "access_key_id": keys.access_key_id,
        "secret_access_key": keys.secret_access_key,
    }))
}

fn options(given: Value) -> Map<String, Value> {
    given.as_object().expect("options are an object").clone()
}

async fn journaled(factory: &dyn StorageFactory, options: Map<String, Value>, depot: &Depot) -> Room {
    let opened = factory.open(options, &context()).await.expect("it can be opened");
    let depot = Arc::new(LazyDepot::from_opened(depot.clone()));
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
