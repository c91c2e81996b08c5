//! Wrappers of the storage and the history of a workspace with a shell: a change of the files is made while the
//! background processes are paused, and the processes see it as soon as they go on.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use garret_core::{
    Batch, Branch, Change, ChangePlan, ChangesOptions, DirectoryHandle, EntryPath, History, HistoryOperation,
    ListOptions, ListPage, MergeInput, Mutation, MutationOutcome, NewBranch, OpenedBranch, Origin, PathChange,
    PathVersion, Point, PutBatch, ReadOptions, ReadResult, Result, RetentionLimits, Snapshot, SnapshotOptions,
    SnapshotSize, Stat, StatOptions, Storage, StorageInfo, Timestamp, WsPath,
};

use crate::shell::runtime::ShellRuntime;

/// A storage or a history, with the runtime of the commands that run on its files.
#[derive(Debug)]
pub(crate) struct LiveLayerWrapper<T: ?Sized> {
    pub(crate) shell: Arc<ShellRuntime>,
    pub(crate) inner: Arc<T>,
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl Storage for LiveLayerWrapper<dyn Storage> {
    fn info(&self) -> StorageInfo {
        self.inner.info()
    }

    async fn resolve(&self, path: &WsPath) -> Result<WsPath> {
        self.inner.resolve(path).await
    }

    async fn stat(&self, path: &WsPath, options: StatOptions) -> Result<Stat> {
        self.inner.stat(path, options).await
    }

    async fn read(&self, path: &WsPath, options: ReadOptions) -> Result<ReadResult> {
        self.inner.read(path, options).await
    }

    async fn list(&self, path: &WsPath, options: ListOptions) -> Result<ListPage> {
        self.inner.list(path, options).await
    }

    async fn apply(&self, batch: Batch) -> Result<Vec<MutationOutcome>> {
        let foreseen = ForeseenChange::from_mutations(&batch.mutations);
        self.shell.change_files(&foreseen, self.inner.apply(batch)).await
    }

    fn open_directory(&self, path: &WsPath) -> Result<Option<Box<dyn DirectoryHandle>>> {
        self.inner.open_directory(path)
    }
}

/// The paths that a change is about to touch. The live layer is prepared for them before the change is made.
#[derive(Debug, Default)]
pub(in crate::shell) struct ForeseenChange {
    /// Paths that the change removes.
    pub(in crate::shell) gone: Vec<EntryPath>,
    /// Paths that the change creates or rewrites.
    pub(in crate::shell) come: Vec<EntryPath>,
}

impl ForeseenChange {
    fn from_mutations(mutations: &[Mutation]) -> Self {
        let mut foreseen = Self::default();
        for mutation in mutations {
            match mutation {
                Mutation::Remove { path, .. } => foreseen.gone.push(path.clone().into()),
                Mutation::Rename { from, to, .. } => {
                    foreseen.gone.push(from.clone().into());
                    foreseen.come.push(to.clone().into());
                }
                other => foreseen.come.push(other.path().clone().into()),
            }
        }
        foreseen
    }

    fn from_path_changes(paths: &[PathChange]) -> Self {
        let (gone, come): (Vec<_>, Vec<_>) = paths.iter().partition(|one| one.after.is_none());
        let path = |one: &PathChange| one.path.clone();
        Self {
            gone: gone.into_iter().map(path).collect(),
            come: come.into_iter().map(path).collect(),
        }
    }
}

#[async_trait]
impl History for LiveLayerWrapper<dyn History> {
    fn id(&self) -> &str {
        self.inner.id()
    }

    async fn head(&self) -> Result<u64> {
        self.inner.head().await
    }

    async fn changes(&self, options: ChangesOptions) -> Result<Vec<Change>> {
        self.inner.changes(options).await
    }

    async fn change(&self, point: &Point) -> Result<(Change, Vec<PathChange>)> {
        self.inner.change(point).await
    }

    async fn open_view(&self, point: &Point) -> Result<Arc<dyn Storage>> {
        self.inner.open_view(point).await
    }

    async fn open_root_directory(&self, point: &Point) -> Result<Box<dyn DirectoryHandle>> {
        self.inner.open_root_directory(point).await
    }

    async fn is_complete(&self, point: &Point) -> Result<bool> {
        self.inner.is_complete(point).await
    }

    async fn diff(&self, from: &Point, to: &Point, path: &WsPath) -> Result<Vec<PathChange>> {
        self.inner.diff(from, to, path).await
    }

    async fn versions(&self, path: &WsPath, limit: usize) -> Result<Vec<PathVersion>> {
        self.inner.versions(path, limit).await
    }

    async fn plan(&self, operation: &HistoryOperation) -> Result<ChangePlan> {
        self.inner.plan(operation).await
    }

    async fn plan_put(&self, puts: &PutBatch) -> Result<Vec<PathChange>> {
        self.inner.plan_put(puts).await
    }

    async fn put(&self, puts: PutBatch, origin: Origin) -> Result<Option<Change>> {
        let foreseen = if self.shell.must_foresee() {
            ForeseenChange::from_path_changes(&self.inner.plan_put(&puts).await?)
        } else {
            ForeseenChange::default()
        };
        self.shell.change_files(&foreseen, self.inner.put(puts, origin)).await
    }

    async fn touched_since(&self, paths: &[EntryPath], change: u64, at: Timestamp) -> Result<BTreeSet<EntryPath>> {
        self.inner.touched_since(paths, change, at).await
    }

    async fn snapshot(&self, label: &str, options: SnapshotOptions) -> Result<Snapshot> {
        self.inner.snapshot(label, options).await
    }

    async fn snapshots(&self) -> Result<Vec<Snapshot>> {
        self.inner.snapshots().await
    }

    async fn snapshot_sizes(&self) -> Result<Vec<SnapshotSize>> {
        self.inner.snapshot_sizes().await
    }

    async fn delete_snapshot(&self, label: &str) -> Result<()> {
        self.inner.delete_snapshot(label).await
    }

    async fn branch(&self, new: NewBranch, point: &Point) -> Result<Branch> {
        self.inner.branch(new, point).await
    }

    async fn branches(&self) -> Result<Vec<Branch>> {
        self.inner.branches().await
    }

    async fn set_retention(&self, keep: &RetentionLimits) -> Result<()> {
        self.inner.set_retention(keep).await
    }

    async fn open_branch(&self, name: &str) -> Result<OpenedBranch> {
        self.inner.open_branch(name).await
    }

    async fn branch_history(&self, id: &str) -> Result<Arc<dyn History>> {
        self.inner.branch_history(id).await
    }

    async fn merge_input(&self, other: &str) -> Result<MergeInput> {
        self.inner.merge_input(other).await
    }
}
