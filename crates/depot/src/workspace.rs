//! A handle on one workspace of a depot.

use std::fmt;
use std::sync::Arc;

use garret_core::Result;

use crate::depot::{Depot, Shared, WorkspaceInfo, info};
use crate::error::damaged;
use crate::metadata::{HEAD, Level, Session};
use crate::storage::DepotView;
use garret_core::Durability;

/// A workspace of a depot: its files at their newest state as a [`garret_core::Storage`], and its history. Cheap to clone.
#[derive(Debug, Clone)]
pub struct DepotWorkspace {
    depot: Depot,
    pub(crate) number: i64,
    id: Arc<str>,
    kind: Arc<str>,
    pub(crate) durability: Durability,
    epilogue: Option<Epilogue>,
}

/// What is put down in the same transaction as a change, by whoever keeps the journal of files that live elsewhere.
#[derive(Clone)]
pub(crate) struct Epilogue(Arc<dyn Fn(Session<'_>) -> Result<()> + Send + Sync>);

impl fmt::Debug for Epilogue {
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

    /// The same workspace, with changes that survive what `durability` says.
    #[must_use]
    pub fn with_durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// What its changes survive.
    pub fn durability(&self) -> Durability {
        self.durability
    }

    /// The same workspace, with `epilogue` in the transaction of every undo, redo, restore and put.
    #[must_use]
    pub(crate) fn with_epilogue(
        mut self,
        epilogue: impl Fn(Session<'_>) -> Result<()> + Send + Sync + 'static,
    ) -> Self {
        self.epilogue = Some(Epilogue(Arc::new(epilogue)));
        self
    }

    /// Runs `work`, and then the epilogue, in one transaction.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(Session<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let epilogue = self.epilogue.clone();
        let whole = move |session: Session<'_>| {
            let done = work(session)?;
            match epilogue {
                Some(epilogue) => (epilogue.0)(session).map(|()| done),
                None => Ok(done),
            }
        };
        self.shared().writer.write(self.durability, whole).await
    }

    /// Its id, unique for ever.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Where its files live.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// The newest state, for reading.
    pub(crate) fn now(&self) -> DepotView {
        self.view(self.head())
    }

    /// The state at `point`, for reading.
    pub(crate) fn view(&self, point: Level) -> DepotView {
        DepotView::new(self.shared().clone(), self.kind.clone(), point)
    }

    /// The depot that holds it.
    pub fn depot(&self) -> &Depot {
        &self.depot
    }

    /// What the depot knows of it.
    pub async fn describe(&self) -> Result<WorkspaceInfo> {
        self.shared().database.read(|session| {
            let row = session.workspace(self.number)?;
            info(
                session,
                row.ok_or_else(|| damaged("the record of a workspace is missing"))?,
            )
        })
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.depot.shared
    }

    /// The point after every change.
    pub(crate) fn head(&self) -> Level {
        Level {
            workspace: self.number,
            at: HEAD,
        }
    }
}
