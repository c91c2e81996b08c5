//! The history contract, implemented for a workspace whose files live in the depot.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use garret_core::{
    Branch, Change, ChangePlan, ChangesOptions, DirectoryHandle, EntryPath, History, HistoryOperation, MergeInput,
    NewBranch, OpenedBranch, Origin, PathChange, PathVersion, Point, PutBatch, Result, RetentionLimits, Snapshot,
    SnapshotOptions, SnapshotSize, Storage, Timestamp, WsPath,
};

use super::point::is_complete;
use super::restore::plan_restore;
use super::undo::{plan_redo, plan_undo};
use crate::depot::NewWorkspace;
use crate::directory::DepotDirectory;
use crate::workspace::DepotWorkspace;

#[async_trait]
impl History for DepotWorkspace {
    fn id(&self) -> &str {
        Self::id(self)
    }

    async fn head(&self) -> Result<u64> {
        Ok(self.describe().await?.head)
    }

    async fn changes(&self, options: ChangesOptions) -> Result<Vec<Change>> {
        self.selected_changes(options).await
    }

    async fn change(&self, point: &Point) -> Result<(Change, Vec<PathChange>)> {
        Self::change(self, point).await
    }

    async fn open_view(&self, point: &Point) -> Result<Arc<dyn Storage>> {
        Ok(Arc::new(Self::open_view_at(self, point).await?))
    }

    async fn open_root_directory(&self, point: &Point) -> Result<Box<dyn DirectoryHandle>> {
        let view = Self::open_view_at(self, point).await?;
        Ok(Box::new(DepotDirectory::root(view)))
    }

    async fn is_complete(&self, point: &Point) -> Result<bool> {
        self.shared().database.read(|session| {
            let level = self.resolve_point(session, point)?;
            is_complete(session, level)
        })
    }

    async fn diff(&self, from: &Point, to: &Point, path: &WsPath) -> Result<Vec<PathChange>> {
        Self::diff(self, from, to, path).await
    }

    async fn versions(&self, path: &WsPath, limit: usize) -> Result<Vec<PathVersion>> {
        Self::versions(self, path, limit).await
    }

    async fn plan(&self, operation: &HistoryOperation) -> Result<ChangePlan> {
        let number = self.number;
        self.shared().database.read(|session| match operation {
            HistoryOperation::Undo(selection) => plan_undo(session, number, selection),
            HistoryOperation::Redo => plan_redo(session, number),
            HistoryOperation::Restore(target) => plan_restore(session, number, target),
        })
    }

    async fn plan_put(&self, puts: &PutBatch) -> Result<Vec<PathChange>> {
        Self::plan_put(self, puts).await
    }

    async fn put(&self, puts: PutBatch, origin: Origin) -> Result<Option<Change>> {
        Self::put(self, puts, origin).await
    }

    async fn touched_since(&self, _: &[EntryPath], _: u64, _: Timestamp) -> Result<BTreeSet<EntryPath>> {
        Ok(BTreeSet::new())
    }

    async fn snapshot(&self, label: &str, options: SnapshotOptions) -> Result<Snapshot> {
        // The depot holds every file, so a snapshot never leaves a file out.
        let options = SnapshotOptions {
            is_lazy: false,
            ..options
        };
        self.take_snapshot(label, options).await
    }

    async fn snapshots(&self) -> Result<Vec<Snapshot>> {
        Self::snapshots(self).await
    }

    async fn snapshot_sizes(&self) -> Result<Vec<SnapshotSize>> {
        let usage = self.depot().usage().await?;
        let own = usage.workspaces.into_iter().find(|one| one.id == self.id());
        let sized = |one: crate::SnapshotUsage| SnapshotSize {
            label: one.label,
            files: one.files,
            bytes: one.bytes,
            alone_bytes: one.alone_bytes,
        };
        Ok(own.into_iter().flat_map(|one| one.snapshots).map(sized).collect())
    }

    async fn delete_snapshot(&self, label: &str) -> Result<()> {
        Self::delete_snapshot(self, label).await
    }

    async fn branch(&self, new: NewBranch, point: &Point) -> Result<Branch> {
        let own = self.describe().await?;
        let new = NewWorkspace {
            name: Some(new.name),
            kind: own.kind,
            config: new.config.unwrap_or(own.config),
        };
        let branch = Self::branch(self, new, point).await?.describe().await?;
        Ok(branch.into())
    }

    async fn branches(&self) -> Result<Vec<Branch>> {
        let all = self.depot().workspaces().await?;
        let is_own = |info: &crate::WorkspaceInfo| {
            info.deleted.is_none() && info.fork.as_ref().is_some_and(|fork| fork.workspace == self.id())
        };
        Ok(all.into_iter().filter(is_own).map(Branch::from).collect())
    }

    async fn set_retention(&self, keep: &RetentionLimits) -> Result<()> {
        Self::set_keep(self, keep).await
    }

    async fn open_branch(&self, name: &str) -> Result<OpenedBranch> {
        Self::open_branch(self, name).await
    }

    async fn branch_history(&self, id: &str) -> Result<Arc<dyn History>> {
        let branch = self.depot().workspace(id).await?;
        Ok(Arc::new(branch.with_durability(self.durability)))
    }

    async fn merge_input(&self, other: &str) -> Result<MergeInput> {
        Self::merging(self, other).await
    }
}
