//! Snapshots, and restoring the files of one.

use garret_core::{
    Access, Error, ErrorKind, HistoryOperation, Point, RestoreTarget, Result, Snapshot, SnapshotOptions, SnapshotSize,
    WsPath,
};

use super::changes::check_limit;
use crate::view::WorkspaceView;
use crate::{HistoryOperationResult, SnapshotList, Workspace};

/// The point and the path to restore.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestoreRequest {
    /// The point.
    pub point: Point,
    /// The path, with everything below it; `None` for the whole view.
    pub path: Option<String>,
}

/// Which part of the list of snapshots and branches to show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotListRequest {
    /// Whether the size of each snapshot is measured; its cost grows with everything in the home.
    pub with_sizes: bool,
    /// The most snapshots and branches.
    pub limit: usize,
    /// `next_cursor` of the page before.
    pub cursor: Option<String>,
}

impl Default for SnapshotListRequest {
    fn default() -> Self {
        Self {
            with_sizes: false,
            limit: usize::MAX,
            cursor: None,
        }
    }
}

impl Workspace {
    /// Gives a point of the whole workspace a label. A label that is taken is `already_exists`.
    pub async fn snapshot(&self, label: &str, options: SnapshotOptions) -> Result<Snapshot> {
        let work = async {
            self.files.view.check_whole()?;
            self.files.journal()?.snapshot(label, options).await
        };
        self.run_operation("snapshot", &[], |_| 0, work).await
    }

    /// Returns the snapshots, oldest first.
    pub async fn snapshots(&self) -> Result<Vec<Snapshot>> {
        let work = async { self.files.journal()?.snapshots().await };
        self.run_operation("list_snapshots", &[], |_: &Vec<_>| 0, work).await
    }

    /// Returns a page of the snapshots, oldest first, then the branches, in the order of names. A view of a part of the
    /// workspace shows neither branches nor sizes.
    pub async fn list_snapshots(&self, request: SnapshotListRequest) -> Result<SnapshotList> {
        check_limit(request.limit)?;
        let mut list = SnapshotList {
            snapshots: self.snapshots().await?,
            branches: none_if_denied(self.branches().await)?,
            next_cursor: None,
        };
        if request.with_sizes && !list.snapshots.is_empty() {
            let sizes = none_if_denied(self.snapshot_sizes().await)?;
            for snapshot in &mut list.snapshots {
                snapshot.size = sizes.iter().find(|size| size.label == snapshot.label).cloned();
            }
        }
        if let Some(cursor) = &request.cursor {
            list.drop_until(cursor)?;
        }
        list.shorten(request.limit);
        Ok(list)
    }

    /// Returns the size of each snapshot, oldest first; its cost grows with everything in the home. A view that may not
    /// see every file is `denied`.
    pub async fn snapshot_sizes(&self) -> Result<Vec<SnapshotSize>> {
        let work = async {
            // The sizes would tell of files that the view may not see.
            if self.files.view.is_restricted() {
                return Err(
                    Error::new(ErrorKind::Denied, "this view does not show every file of the snapshot")
                        .hint("list the sizes in the whole workspace"),
                );
            }
            self.files.journal()?.snapshot_sizes().await
        };
        self.run_operation("list_snapshots", &[], |_: &Vec<_>| 0, work).await
    }

    /// Deletes the label of a snapshot; the changes stay as long as retention keeps them.
    pub async fn delete_snapshot(&self, label: &str) -> Result<()> {
        let work = async {
            self.files.view.check_whole()?;
            self.files.journal()?.delete_snapshot(label).await
        };
        self.run_operation("snapshot", &[], |()| 0, work).await
    }

    /// Restores `path`, and everything below it, to its state at a point, as one change that can be undone; no change
    /// if nothing differs.
    pub async fn restore(&self, request: RestoreRequest) -> Result<HistoryOperationResult> {
        self.restore_to_point(request, false).await
    }

    /// Returns the effect that a restore would have; it fails as the restore would.
    pub async fn plan_restore(&self, request: RestoreRequest) -> Result<HistoryOperationResult> {
        self.restore_to_point(request, true).await
    }

    async fn restore_to_point(&self, request: RestoreRequest, dry_run: bool) -> Result<HistoryOperationResult> {
        let RestoreRequest { point, path } = request;
        let path = path.unwrap_or_default();
        let work = async {
            let directory = self.files.recorded_directory(&path).await?;
            let restore = HistoryOperation::Restore(RestoreTarget::Point { point, path: directory });
            let history = self.files.history()?;
            history.run_history_operation(&restore, "restore", dry_run).await
        };
        self.run_operation("restore", &[&path], |_| 0, work).await
    }
}

/// Returns the list, or an empty one if this view may not see it.
fn none_if_denied<T>(list: Result<Vec<T>>) -> Result<Vec<T>> {
    match list {
        Err(error) if error.kind() == ErrorKind::Denied => Ok(Vec::new()),
        list => list,
    }
}

impl WorkspaceView {
    /// Refuses an operation on the whole workspace in a view that is a part of it, or that may not write.
    pub(crate) fn check_whole(&self) -> Result<()> {
        if !self.base.is_root() {
            return Err(Error::new(
                ErrorKind::Denied,
                "a scope cannot create or delete snapshots and branches of the whole workspace",
            )
            .hint("use the whole workspace"));
        }
        match self.layers.iter().find(|layer| layer.rules.policy().read_only) {
            Some(layer) => layer.rules.check_access(Access::Write, &WsPath::root()),
            None => Ok(()),
        }
    }
}
