//! A handle on one workspace of a depot.

use std::fmt;
use std::sync::Arc;

use garret_core::Result;

use crate::depot::{Depot, DepotShared, WorkspaceInfo, workspace_info};
use crate::error::damaged_content;
use crate::metadata::{HEAD, LineageLevel, MetadataSession};
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
    epilogue: Option<ChangeEpilogue>,
}

/// A function that runs in the transaction of a change, after it. The journal of files that live elsewhere uses it to
/// record its progress atomically with the change.
#[derive(Clone)]
pub(crate) struct ChangeEpilogue(Arc<dyn Fn(MetadataSession<'_>) -> Result<()> + Send + Sync>);

impl fmt::Debug for ChangeEpilogue {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Epilogue")
    }
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
            epilogue: None,
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

    /// Returns a handle on the same workspace that runs `epilogue` in the transaction of every undo, redo, restore and
    /// put.
    #[must_use]
    pub(crate) fn with_epilogue(
        mut self,
        epilogue: impl Fn(MetadataSession<'_>) -> Result<()> + Send + Sync + 'static,
    ) -> Self {
        self.epilogue = Some(ChangeEpilogue(Arc::new(epilogue)));
        self
    }

    /// Runs `work`, and then the epilogue, in one transaction.
    pub(crate) async fn write_with_epilogue<T: Send + 'static>(
        &self,
        work: impl FnOnce(MetadataSession<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let epilogue = self.epilogue.clone();
        let whole = move |session: MetadataSession<'_>| {
            let done = work(session)?;
            match epilogue {
                Some(epilogue) => (epilogue.0)(session).map(|()| done),
                None => Ok(done),
            }
        };
        self.shared().writer.write(self.durability, whole).await
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
