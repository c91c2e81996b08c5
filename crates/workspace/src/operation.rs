//! One operation from its start to its event: every operation on a workspace leaves one event.

use std::time::Duration;

use garret_core::path::quote;
use garret_core::{Error, Event, Outcome, Result, WsPath};

use crate::Workspace;

/// An operation in progress. It ends with one event: by [`Operation::finish`], or, if its future is dropped before
/// that, as cancelled.
pub(crate) struct Operation<'a> {
    workspace: &'a Workspace,
    name: &'static str,
    path: Option<&'a str>,
    started: Duration,
    is_open: bool,
}

impl Workspace {
    /// Runs `work` as the operation `name` on `paths`: asks for approval if needed, and leaves one event whatever
    /// happens. `bytes` returns how much content a successful operation moved.
    pub(crate) async fn operate<T>(
        &self,
        name: &'static str,
        paths: &[&str],
        bytes: impl FnOnce(&T) -> u64,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let work = async {
            // Approval is inside the observed work, so that a refusal leaves an event, too.
            self.approve(name, paths).await?;
            self.settle_live().await?;
            work.await
        };
        self.observe(name, paths.first().copied(), bytes, work).await
    }

    /// Runs `work` as the operation `name` and leaves one event; for an operation that asks for approval itself.
    pub(crate) async fn observe<T>(
        &self,
        name: &'static str,
        path: Option<&str>,
        bytes: impl FnOnce(&T) -> u64,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let operation = Operation::start(self, name, path);
        let result = work.await;
        operation.finish(result, bytes)
    }

    /// Records the event of an operation that failed before it began, because its arguments could not be read.
    pub fn record_failure(&self, name: &'static str, error: &Error) {
        Operation::start(self, name, None).record(Outcome::of(Some(error)), 0);
    }
}

impl<'a> Operation<'a> {
    fn start(workspace: &'a Workspace, name: &'static str, path: Option<&'a str>) -> Self {
        let is_open = workspace.shared.events.is_enabled();
        let started = if is_open {
            workspace.shared.clock.elapsed()
        } else {
            Duration::ZERO
        };
        Self {
            workspace,
            name,
            path,
            started,
            is_open,
        }
    }

    fn finish<T>(mut self, result: Result<T>, bytes: impl FnOnce(&T) -> u64) -> Result<T> {
        let result = result.map_err(|error| self.workspace.as_seen_here(error.during(self.name)));
        let moved = result.as_ref().map_or(0, bytes);
        self.record(Outcome::of(result.as_ref().err()), moved);
        result
    }

    fn record(&mut self, outcome: Outcome, bytes: u64) {
        // Taken, because `drop` runs after `finish` as well and must not record a second event.
        if !std::mem::take(&mut self.is_open) {
            return;
        }
        let shared = &self.workspace.shared;
        shared.events.record(&Event {
            id: shared.ids.next(),
            at: shared.clock.now(),
            workspace: shared.name.clone(),
            actor: self.workspace.actor().clone(),
            operation: self.name.into(),
            path: self.path.map(|path| self.workspace.own_name(path)),
            bytes,
            duration: shared.clock.elapsed().saturating_sub(self.started),
            outcome,
        });
    }
}

impl Drop for Operation<'_> {
    fn drop(&mut self) {
        self.record(Outcome::Cancelled, 0);
    }
}

impl Workspace {
    /// Returns a path as the caller wrote it, without the host's part of it.
    pub(crate) fn own_name(&self, path: &str) -> String {
        self.below_host_root(path).unwrap_or_else(|| path.to_owned())
    }

    /// Rewrites an error of the storage for this view: its paths become relative to the view.
    fn as_seen_here(&self, error: Error) -> Error {
        let base = &self.view.base;
        if base.is_root() {
            return error;
        }
        let path = error.path().map(|path| relative(path, base));
        error.map_text(|text| unprefixed(text, base)).renamed(path)
    }
}

fn relative(path: &str, base: &WsPath) -> String {
    let parsed = WsPath::parse(path).ok().and_then(|path| path.relative_to(base));
    parsed.map_or_else(|| path.to_owned(), |path| path.to_string())
}

fn unprefixed(text: &str, base: &WsPath) -> String {
    text.replace(&base.quoted(), &quote("/"))
        .replace(&format!("`{base}/"), "`")
}
