//! What the tests of this crate share: a workspace in memory, filled in one line.

use std::sync::Arc;

use garret_core::{
    Batch, CountedIds, FixedClock, FsPolicy, MemoryEvents, MemoryStorage, Mutation, OpenedStorage, Storage, Timestamp,
    WsPath,
};
use garret_workspace::{ListRequest, ReadRequest, Workspace, WorkspaceBuilder, WriteOptions};

/// A storage in memory whose clock stands still.
pub(crate) fn storage() -> Arc<dyn Storage> {
    Arc::new(MemoryStorage::new(Arc::new(FixedClock::starting_at(
        Timestamp::UNIX_EPOCH,
    ))))
}

/// A workspace in memory with a fixed clock and counted ids.
pub(crate) fn builder() -> WorkspaceBuilder {
    builder_on(storage())
}

pub(crate) fn builder_on(storage: impl Into<OpenedStorage>) -> WorkspaceBuilder {
    Workspace::builder(storage)
        .name("box")
        .clock(Arc::new(FixedClock::starting_at(Timestamp::UNIX_EPOCH)))
        .ids(Arc::new(CountedIds::default()))
}

pub(crate) fn workspace() -> Workspace {
    builder().open().unwrap()
}

pub(crate) fn with_policy(storage: &Arc<dyn Storage>, policy: FsPolicy) -> Workspace {
    builder_on(storage.clone()).policy(policy).open().unwrap()
}

pub(crate) fn with_events(policy: FsPolicy) -> (Workspace, Arc<MemoryEvents>) {
    let events = Arc::new(MemoryEvents::default());
    (builder().policy(policy).events(events.clone()).open().unwrap(), events)
}

pub(crate) fn globs(patterns: &[&str]) -> Vec<String> {
    patterns.iter().map(|pattern| (*pattern).to_owned()).collect()
}

/// Puts files into the storage itself, past every policy.
pub(crate) async fn fill(storage: &Arc<dyn Storage>, files: &[(&str, &str)]) {
    for (path, content) in files {
        let mutation = Mutation::write(WsPath::parse(path).unwrap(), (*content).to_owned());
        storage.apply(Batch::from(mutation)).await.unwrap();
    }
}

/// Puts a link into the storage itself.
pub(crate) async fn link(storage: &Arc<dyn Storage>, path: &str, target: &str) {
    let mutation = Mutation::Symlink {
        path: WsPath::parse(path).unwrap(),
        target: target.to_owned(),
    };
    storage.apply(Batch::from(mutation)).await.unwrap();
}

pub(crate) async fn put(workspace: &Workspace, path: &str, content: &str) {
    workspace
        .write(path, content.to_owned(), WriteOptions::default())
        .await
        .unwrap();
}

pub(crate) async fn get(workspace: &Workspace, path: &str) -> String {
    workspace.read(path, ReadRequest::default()).await.unwrap().content
}

/// The paths of everything that the workspace shows.
pub(crate) async fn shown(workspace: &Workspace) -> Vec<String> {
    let request = ListRequest {
        depth: usize::MAX,
        ..ListRequest::default()
    };
    let listed = workspace.list("", request).await.unwrap();
    listed.entries.into_iter().map(|entry| entry.path).collect()
}
