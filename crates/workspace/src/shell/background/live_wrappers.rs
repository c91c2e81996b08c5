//! Wrappers of the storage and the history of a workspace with a shell: a change of the files is made while the
//! background processes are paused, and the processes see it as soon as they go on.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use garret_core::{
    Batch, Branch, Change, ChangeRequest, ChangesOptions, DirectoryHandle, EntryPath, Error, ErrorKind, History,
    ListOptions, ListPage, MergeInput, Mutation, MutationOutcome, NewBranch, OpenedBranch, PathChange, PathVersion,
    Point, PutBatch, ReadOptions, ReadResult, RestoreTarget, Result, RetentionLimits, ReversalOutcome, Snapshot,
    SnapshotOptions, SnapshotSize, Stat, StatOptions, Storage, StorageInfo, Timestamp, UndoSelection, WsPath,
};

use crate::shell::runtime::ShellRuntime;

/// A storage or a history, with the runtime of the commands that run on its files.
#[derive(Debug)]
pub(crate) struct LiveLayerWrapper<T: ?Sized> {
    pub(crate) shop: Arc<ShellRuntime>,
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
        self.shop.change_files(&foreseen, self.inner.apply(batch)).await
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

impl LiveLayerWrapper<dyn History> {
    /// Returns the paths that an operation on the history would touch, found by a dry run of `work`.
    async fn foresee_change<T, W: Future<Output = Result<T>>>(
        &self,
        work: impl FnOnce(ChangeRequest) -> W,
    ) -> ForeseenChange {
        if !self.shop.must_foresee() {
            return ForeseenChange::default();
        }
        let seen: Arc<Mutex<ForeseenChange>> = Arc::default();
        let told = seen.clone();
        // The contract has no dry run. A review sees all paths before anything is written, and its refusal rolls the
        // change back.
        let making = ChangeRequest {
            review: Some(Arc::new(move |paths: &[PathChange]| {
                *told.lock().expect("no holder panics") = ForeseenChange::from_path_changes(paths);
                Err(Error::new(ErrorKind::Denied, "this was a dry run"))
            })),
            ..ChangeRequest::default()
        };
        // An error of the dry run is not reported: the caller makes the change next, and gets the same error from that.
        let _ = work(making).await;
        std::mem::take(&mut *seen.lock().expect("no holder panics"))
    }
}

#[deny(clippy::missing_trait_methods)]
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

    async fn undo(&self, selection: UndoSelection, making: ChangeRequest) -> Result<ReversalOutcome> {
        let foreseen = self
            .foresee_change(|look| self.inner.undo(selection.clone(), look))
            .await;
        self.shop
            .change_files(&foreseen, self.inner.undo(selection, making))
            .await
    }

    async fn redo(&self, making: ChangeRequest) -> Result<ReversalOutcome> {
        let foreseen = self.foresee_change(|look| self.inner.redo(look)).await;
        self.shop.change_files(&foreseen, self.inner.redo(making)).await
    }

    async fn restore(&self, restore: RestoreTarget, making: ChangeRequest) -> Result<Option<Change>> {
        let foreseen = self
            .foresee_change(|look| self.inner.restore(restore.clone(), look))
            .await;
        self.shop
            .change_files(&foreseen, self.inner.restore(restore, making))
            .await
    }

    async fn put(&self, puts: PutBatch, making: ChangeRequest) -> Result<Option<Change>> {
        let foreseen = self.foresee_change(|look| self.inner.put(puts.clone(), look)).await;
        self.shop.change_files(&foreseen, self.inner.put(puts, making)).await
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
