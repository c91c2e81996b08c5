//! Journals to test.

use std::path::Path;
use std::sync::Arc;

use garret_core::{
    AccessLimits, MemoryStorage, OpenContext, OpenedStorage, RandomIds, Storage, StorageFactory, SystemClock,
};
use garret_depot::{Depot, DepotOptions, Durability, LazyDepot};
use garret_journal::Journaled;
use garret_storage::local::LocalFactory;
use garret_testkit::Fixture;
use serde_json::{Map, json};
use tempfile::TempDir;

pub(crate) fn context() -> OpenContext {
    OpenContext {
        clock: Arc::new(SystemClock::default()),
        ids: Arc::new(RandomIds),
        history: garret_core::HistoryMode::Durable,
    }
}

/// Without syncs, and with little inline, so that both ways of holding content are used.
pub(crate) fn options() -> DepotOptions {
    DepotOptions {
        durability: Durability::Relaxed,
        inline_bytes: 1024,
        ..DepotOptions::default()
    }
}

pub(crate) async fn local(directory: &Path) -> OpenedStorage {
    let mut options = Map::new();
    options.insert("dir".into(), json!(directory.to_str().expect("its name is UTF-8")));
    options.insert("durability".into(), json!("relaxed"));
    LocalFactory.open(options, &context()).await.expect("it can be opened")
}

pub(crate) fn memory() -> OpenedStorage {
    Arc::new(MemoryStorage::new(Arc::new(SystemClock::default()))).into()
}

pub(crate) fn depot_at(home: &Path) -> Arc<LazyDepot> {
    Arc::new(LazyDepot::new(home, options(), context()))
}

pub(crate) fn depot_in_memory() -> Arc<LazyDepot> {
    let depot = Depot::in_memory(options(), context()).expect("memory needs nothing");
    Arc::new(LazyDepot::from_opened(depot))
}

pub(crate) async fn journaled(opened: OpenedStorage, depot: Arc<LazyDepot>) -> Arc<Journaled> {
    let opened = Journaled::open(opened, depot, Durability::Relaxed).await;
    opened.expect("the journal can be opened")
}

/// A directory with a journal, and a home for it.
pub(crate) async fn local_fixture() -> Fixture {
    let (directory, home) = (folder(), folder());
    let storage = journaled(local(directory.path()).await, depot_at(home.path())).await;
    let hidden = directory.path().to_str().expect("its name is UTF-8").to_owned();
    Fixture::new(storage).hiding(hidden).holding((directory, home))
}

/// A directory with a history as long as the handle.
pub(crate) async fn local_session_fixture() -> Fixture {
    let directory = folder();
    let storage = journaled(local(directory.path()).await, depot_in_memory()).await;
    Fixture::new(storage).holding(directory)
}

pub(crate) async fn memory_fixture() -> Fixture {
    let storage: Arc<dyn Storage> = journaled(memory(), depot_in_memory()).await;
    Fixture::new(storage)
}

/// Files in memory that are taken to be far away, so that no look is made in vain.
pub(crate) async fn far_fixture() -> Fixture {
    let far = OpenedStorage {
        access_limits: AccessLimits {
            is_remote: true,
            ..AccessLimits::default()
        },
        ..memory()
    };
    let storage: Arc<dyn Storage> = journaled(far, depot_in_memory()).await;
    Fixture::new(storage)
}

pub(crate) fn folder() -> TempDir {
    tempfile::tempdir().expect("a temporary directory can be made")
}
