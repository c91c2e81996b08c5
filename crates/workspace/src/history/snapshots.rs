//! Snapshots, and restoring the files of one.

use garret_core::{
    Access, Error, ErrorKind, HistoryOperation, Point, RestoreTarget, Result, Snapshot, SnapshotOptions, SnapshotSize,
    WsPath,
};
use schemars::JsonSchema;
use serde::Serialize;

use super::changes::{ChangeShown, PlannedChange};
use crate::Workspace;
use crate::view::WorkspaceView;

/// The point and the path to restore.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestoreRequest {
    /// The point.
    pub point: Point,
    /// The path, with everything below it; `None` for the whole view.
    pub path: Option<String>,
}

/// A snapshot as it is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SnapshotShown {
    /// Its label, unique in the workspace.
    pub label: String,
    /// The number of the change after which it was taken.
    pub change: u64,
    /// The id of the workspace that has this change: this one, or one that it was branched from.
    pub workspace: String,
    /// When it was taken, in RFC 3339.
    pub at: String,
    /// Whether it has only the files that the history had captured.
    pub lazy: bool,
    /// What it holds, where that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<SnapshotSize>,
}

impl From<Snapshot> for SnapshotShown {
    fn from(snapshot: Snapshot) -> Self {
        Self {
            label: snapshot.label,
            change: snapshot.change,
            workspace: snapshot.workspace,
            at: snapshot.at.to_string(),
            lazy: snapshot.lazy,
            size: None,
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

    /// Restores `path`, and everything below it, to its state at a point, as one change that can be undone; `None` if
    /// nothing differs.
    pub async fn restore(&self, request: RestoreRequest) -> Result<Option<ChangeShown>> {
        let path = request.path.clone().unwrap_or_default();
        let work = async {
            let restore = self.restore_target(request.point, &path).await?;
            self.files.history()?.apply_restore(restore, "restore").await
        };
        self.run_operation("restore", &[&path], |_| 0, work).await
    }

    /// Returns the effect that a restore would have; it fails as the restore would.
    pub async fn plan_restore(&self, request: RestoreRequest) -> Result<PlannedChange> {
        let path = request.path.clone().unwrap_or_default();
        let work = async {
            let restore = HistoryOperation::Restore(self.restore_target(request.point, &path).await?);
            self.files.history()?.plan_operation(restore, "restore").await
        };
        self.run_operation("restore", &[&path], |_| 0, work).await
    }

    async fn restore_target(&self, point: Point, path: &str) -> Result<RestoreTarget> {
        let path = self.files.recorded_directory(path).await?;
        Ok(RestoreTarget::Point { point, path })
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
