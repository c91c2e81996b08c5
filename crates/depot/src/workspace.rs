//! A handle on one workspace of a depot.

use std::sync::Arc;

use garret_core::Result;

use crate::depot::{Depot, DepotShared, WorkspaceInfo, workspace_info};
use crate::error::damaged_content;
use crate::metadata::{HEAD, LineageLevel};
use crate::storage::DepotView;
use garret_core::Durability;

/// A workspace of a depot: its files at their newest state as a [`garret_core::Storage`], and its history. Cheap to
/// clone.
#[derive(Debug, Clone)]
pub struct DepotWorkspace {
    depot: Depot,
    pub(crate) number: i64,
    id: Arc<str>,
    kind: Arc<str>,
    pub(crate) durability: Durability,
}

impl DepotWorkspace {
    pub(crate) fn new(depot: Depot, number: i64, id: String, kind: String) -> Self {
        let durability = depot.shared.options.durability;
        Self {
            depot,
            number,
            id: id.into(),
            kind: kind.into(),
            durability,
        }
    }

    /// Returns a handle on the same workspace whose changes have the given durability.
    #[must_use]
    pub fn with_durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Returns the durability of changes through this handle.
    pub fn durability(&self) -> Durability {
        self.durability
    }

    /// Returns the id of the workspace, which is never used again.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the kind of storage that holds its files.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// Returns a read-only view of the newest state.
    pub(crate) fn newest_view(&self) -> DepotView {
        self.view_at(self.head_level())
    }

    /// Returns a read-only view of the state at `point`.
    pub(crate) fn view_at(&self, point: LineageLevel) -> DepotView {
        DepotView::new(self.shared().clone(), self.kind.clone(), point)
    }

    /// Returns the depot of the workspace.
    pub fn depot(&self) -> &Depot {
        &self.depot
    }

    /// Returns the depot's record of the workspace.
    pub async fn describe(&self) -> Result<WorkspaceInfo> {
        self.shared().database.read(|session| {
            let row = session.workspaces().workspace(self.number)?;
            workspace_info(
                session,
                row.ok_or_else(|| damaged_content("the record of a workspace is missing"))?,
            )
        })
    }

    pub(crate) fn shared(&self) -> &Arc<DepotShared> {
        &self.depot.shared
    }

    /// Returns the point after every change.
    pub(crate) fn head_level(&self) -> LineageLevel {
        LineageLevel {
            workspace: self.number,
            at: HEAD,
        }
    }
}
