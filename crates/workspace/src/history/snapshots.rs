//! Snapshots, and going back to one.

use garret_core::{Access, Error, ErrorKind, Point, Restore, Result, Snapshot, SnapshotOptions, WsPath};

use super::changes::ChangeShown;
use crate::Workspace;
use crate::admit::Names;

/// What to put back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestoreRequest {
    /// The point.
    pub point: Point,
    /// The path, with everything below it; the whole view where none is given.
    pub path: Option<String>,
}

impl Workspace {
    /// Names a point of the whole workspace. A label that is taken is `already_exists`.
    pub async fn snapshot(&self, label: &str, options: SnapshotOptions) -> Result<Snapshot> {
        let work = async {
            self.check_whole()?;
            self.journal()?.snapshot(label, options).await
        };
        self.operate("snapshot", &[], |_| 0, work).await
    }

    /// The snapshots, oldest first.
    pub async fn snapshots(&self) -> Result<Vec<Snapshot>> {
        let work = async { self.journal()?.snapshots().await };
        self.operate("list_snapshots", &[], |_: &Vec<_>| 0, work).await
    }

    /// Forgets a label; the changes stay as long as retention keeps them.
    pub async fn delete_snapshot(&self, label: &str) -> Result<()> {
        let work = async {
            self.check_whole()?;
            self.journal()?.delete_snapshot(label).await
        };
        self.operate("snapshot", &[], |()| 0, work).await
    }

    /// Makes `path`, and everything below it, what it was at a point, as one change that can be undone; `None` where nothing differs.
    pub async fn restore(&self, request: RestoreRequest) -> Result<Option<ChangeShown>> {
        let path = request.path.clone().unwrap_or_default();
        let work = async {
            let target = self.admit(&path, Names::Entry, &[]).await?;
            let restore = Restore::Point {
                point: request.point,
                path: target.real,
            };
            self.restored(restore, "restore").await
        };
        self.operate("restore", &[&path], |_| 0, work).await
    }

    /// Refuses what concerns the whole workspace to a view that is a part of it, or that may not write.
    pub(crate) fn check_whole(&self) -> Result<()> {
        if !self.view.base.is_root() {
            return Err(Error::new(
                ErrorKind::Denied,
                "a narrowed view cannot make or delete snapshots and branches of the whole workspace",
            )
            .hint("use the workspace around it"));
        }
        match self.view.layers.iter().find(|layer| layer.rules.policy().read_only) {
            Some(layer) => layer.rules.check(Access::Write, &WsPath::root()),
            None => Ok(()),
        }
    }
}
