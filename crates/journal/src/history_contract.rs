//! Implements `History` for files that live outside the depot. The log enters the journal first, the files are compared
//! if the request depends on changes by other programs, and the depot does the rest.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_trait::async_trait;
use garret_core::{
    Branch, Change, ChangePlan, ChangesOptions, DirectoryHandle, EntryPath, Error, ErrorKind, History,
    HistoryOperation, MergeInput, NewBranch, OpenedBranch, Origin, PathChange, PathPut, PathVersion, PlacedEntry,
    Point, PutBatch, Result, RetentionLimits, Snapshot, SnapshotOptions, SnapshotSize, Storage, Timestamp, WsPath,
};
use garret_depot::outside_files::{OutsideWorkspace, log};
use garret_depot::{DepotWorkspace, NewWorkspace};

use crate::Journaled;
use crate::history_operations::{plan_operation, plan_put};
use crate::outside_changes::{ChangeMoment, find_touched_paths};
use crate::past_view::PastView;

impl Journaled {
    /// Returns the journal after the log has entered it; `None` if nothing was ever recorded.
    async fn drained_workspace(&self) -> Result<Option<&DepotWorkspace>> {
        let Some(room) = self.existing_workspace().await? else {
            return Ok(None);
        };
        if self.gate.files().is_some_and(log::has_records) {
            let mut session = self.begin_write_session().await?;
            session.comparer.synchronize_journal().await?;
        }
        Ok(Some(room.history()))
    }

    /// Returns the journal after the log has entered it; `not_found` if nothing was ever recorded.
    async fn required_workspace(&self) -> Result<&DepotWorkspace> {
        self.drained_workspace().await?.ok_or_else(|| {
            Error::new(ErrorKind::NotFound, "there is no history yet: no change was recorded")
                .hint("a history begins with the first change, or with a snapshot")
        })
    }

    /// Returns the journal after a scan of all files at `path` and below.
    async fn scanned_workspace(&self, path: &WsPath) -> Result<&DepotWorkspace> {
        let mut session = self.begin_write_session().await?;
        session.comparer.scan_and_record(path).await?;
        drop(session);
        Ok(self.ensure_workspace().await?.history())
    }

    /// Returns the journal with all files at `point`: those of now may not be recorded yet, so a scan comes first.
    async fn workspace_at(&self, point: &Point) -> Result<&DepotWorkspace> {
        if point.is_now() {
            self.scanned_workspace(&WsPath::root()).await
        } else {
            self.required_workspace().await
        }
    }
}

/// Returns the files among the puts that have several names (hard links), each with the path that identifies the file.
/// Content that is already in the depot carries no such path.
fn hard_links_in(puts: &PutBatch) -> BTreeMap<WsPath, WsPath> {
    let name = |put: &PathPut| match (&put.placed, put.path.as_path()) {
        (PlacedEntry::File { content, .. }, Some(path)) => Some((path.clone(), content.other_name()?.clone())),
        _ => None,
    };
    puts.puts.iter().filter_map(name).collect()
}

#[async_trait]
impl History for Journaled {
    fn id(&self) -> &str {
        self.room
            .get()
            .map_or(self.future_id.as_str(), |room| room.history().id())
    }

    async fn head(&self) -> Result<u64> {
        match self.drained_workspace().await? {
            Some(room) => History::head(room).await,
            None => Ok(0),
        }
    }

    async fn changes(&self, options: ChangesOptions) -> Result<Vec<Change>> {
        match self.drained_workspace().await? {
            Some(room) => History::changes(room, options).await,
            None => Ok(Vec::new()),
        }
    }

    async fn change(&self, point: &Point) -> Result<(Change, Vec<PathChange>)> {
        self.required_workspace().await?.change(point).await
    }

    async fn open_view(&self, point: &Point) -> Result<Arc<dyn Storage>> {
        let room = self.workspace_at(point).await?;
        let point = OutsideWorkspace::from(room.clone()).point(point)?;
        Ok(Arc::new(PastView {
            view: point.view(),
            files: self.files.clone(),
            point,
        }))
    }

    async fn open_root_directory(&self, point: &Point) -> Result<Box<dyn DirectoryHandle>> {
        let room = self.workspace_at(point).await?;
        History::open_root_directory(room, point).await
    }

    async fn is_complete(&self, point: &Point) -> Result<bool> {
        History::is_complete(self.required_workspace().await?, point).await
    }

    async fn diff(&self, from: &Point, to: &Point, path: &WsPath) -> Result<Vec<PathChange>> {
        let mut room = self.required_workspace().await?;
        if from.is_now() || to.is_now() {
            room = self.scanned_workspace(path).await?;
        }
        room.diff(from, to, path).await
    }

    async fn versions(&self, path: &WsPath, limit: usize) -> Result<Vec<PathVersion>> {
        match self.drained_workspace().await? {
            Some(room) => room.versions(path, limit).await,
            None => Ok(Vec::new()),
        }
    }

    async fn plan(&self, operation: &HistoryOperation) -> Result<ChangePlan> {
        self.required_workspace().await?;
        let mut session = self.begin_write_session().await?;
        plan_operation(&mut session.comparer, operation).await
    }

    async fn plan_put(&self, puts: &PutBatch) -> Result<Vec<PathChange>> {
        self.ensure_workspace().await?;
        self.required_workspace().await?;
        let mut session = self.begin_write_session().await?;
        plan_put(&mut session.comparer, &mut puts.clone()).await
    }

    async fn put(&self, puts: PutBatch, origin: Origin) -> Result<Option<Change>> {
        // The log refers to content in the depot, so content enters the depot first. Hard links are noted before that,
        // because content in the depot does not carry them.
        let names = hard_links_in(&puts);
        let puts = self.ensure_workspace().await?.store_put_contents(puts).await?;
        self.required_workspace().await?;
        self.begin_write_session().await?.put(puts, origin, &names).await
    }

    async fn touched_since(&self, paths: &[EntryPath], change: u64, at: Timestamp) -> Result<BTreeSet<EntryPath>> {
        let mut session = self.begin_write_session().await?;
        find_touched_paths(&mut session.comparer, paths, ChangeMoment { change, at }).await
    }

    async fn snapshot(&self, label: &str, options: SnapshotOptions) -> Result<Snapshot> {
        let is_past = !options.point.is_now();
        let room = if options.is_lazy || is_past {
            self.ensure_workspace().await?;
            self.required_workspace().await?
        } else {
            self.scanned_workspace(&WsPath::root()).await?
        };
        room.take_snapshot(label, options).await
    }

    async fn snapshots(&self) -> Result<Vec<Snapshot>> {
        match self.existing_workspace().await? {
            Some(room) => room.history().snapshots().await,
            None => Ok(Vec::new()),
        }
    }

    async fn snapshot_sizes(&self) -> Result<Vec<SnapshotSize>> {
        match self.drained_workspace().await? {
            Some(room) => room.snapshot_sizes().await,
            None => Ok(Vec::new()),
        }
    }

    async fn delete_snapshot(&self, label: &str) -> Result<()> {
        self.required_workspace().await?.delete_snapshot(label).await
    }

    async fn branch(&self, new: NewBranch, point: &Point) -> Result<Branch> {
        let room = self.workspace_at(point).await?;
        let bare = NewWorkspace::named(&new.name);
        let new = NewWorkspace {
            config: new.config.unwrap_or_else(|| bare.config.clone()),
            ..bare
        };
        let branch = DepotWorkspace::branch(room, new, point).await?.describe().await?;
        Ok(branch.into())
    }

    async fn branches(&self) -> Result<Vec<Branch>> {
        match self.existing_workspace().await? {
            Some(room) => room.history().branches().await,
            None => Ok(Vec::new()),
        }
    }

    async fn set_retention(&self, keep: &RetentionLimits) -> Result<()> {
        // Opening a directory only to read it must not create a home. The first change passes the setting to the depot.
        *self.keep.lock().expect("no holder panics") = Some(*keep);
        Ok(())
    }

    async fn open_branch(&self, name: &str) -> Result<OpenedBranch> {
        self.required_workspace().await?.open_branch(name).await
    }

    async fn branch_history(&self, id: &str) -> Result<Arc<dyn History>> {
        self.required_workspace().await?.branch_history(id).await
    }

    async fn merge_input(&self, other: &str) -> Result<MergeInput> {
        self.scanned_workspace(&WsPath::root()).await?.merging(other).await
    }
}
