//! A workspace under test, with the storage below it in reach.

use std::sync::Arc;

use garret_core::{Content, Error, ErrorKind, Event, MemoryEvents, Result, Storage};
use garret_workspace::{Workspace, WriteOptions};

use crate::{Fixture, Probe};

/// A workspace on the storage of a fixture.
#[derive(Debug, Clone)]
pub struct Room {
    /// The workspace.
    pub workspace: Workspace,
    /// The storage below it.
    pub probe: Probe,
    events: Arc<MemoryEvents>,
}

impl Room {
    /// Opens a workspace with the default policy.
    pub fn new(fixture: &Fixture) -> Self {
        Self::on(fixture.storage(), fixture.probe())
    }

    /// The same room with a wrapper between the workspace and the storage; the probe still sees the storage itself.
    #[must_use]
    pub fn with_wrapper(&self, wrap: impl FnOnce(Arc<dyn Storage>) -> Arc<dyn Storage>) -> Self {
        Self::on(wrap(self.probe.storage().clone()), self.probe.clone())
    }

    fn on(storage: Arc<dyn Storage>, probe: Probe) -> Self {
        let events = Arc::new(MemoryEvents::default());
        let workspace = Workspace::builder(storage)
            .name("room")
            .events(events.clone())
            .open()
            .expect("the default policy is sound");
        Self {
            workspace,
            probe,
            events,
        }
    }

    /// Writes a file through the workspace.
    pub async fn write(&self, at: &str, content: impl Into<Content>) {
        let written = self.workspace.write(at, content, WriteOptions::default()).await;
        written.unwrap_or_else(|error| panic!("{at} cannot be written: {error:?}"));
    }

    /// The events so far.
    pub fn events(&self) -> Vec<Event> {
        self.events.events()
    }

    /// Checks that `work` fails with `kind`, as a user may read it, and changes nothing.
    pub async fn refuses<T: std::fmt::Debug>(&self, kind: ErrorKind, work: impl Future<Output = Result<T>>) -> Error {
        let before = self.probe.tree().await;
        let error = self.probe.expect_error(kind, "the operation", work.await);
        assert_eq!(self.probe.tree().await, before, "a refused operation changed something");
        error
    }
}
