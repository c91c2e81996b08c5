//! One operation from its start to its event: every operation on a workspace leaves one event.

use std::time::Duration;

use garret_core::path::quote;
use garret_core::{Error, Event, EventOutcome, Result, WsPath};

use crate::Workspace;
use crate::file_access::FileAccess;
use crate::view::WorkspaceView;

/// An operation in progress. It ends with one event: by [`RunningOperation::finish`], or, if its future is dropped before
/// that, as cancelled.
pub(crate) struct RunningOperation<'a> {
    files: &'a FileAccess,
    name: &'static str,
    path: Option<&'a str>,
    started: Duration,
    is_open: bool,
}

impl Workspace {
    /// Runs `work` as the operation `name` on `paths`: asks for approval if needed, and leaves one event whatever
    /// happens. `bytes` returns how much content a successful operation moved.
    pub(crate) async fn run_operation<T>(
        &self,
        name: &'static str,
        paths: &[&str],
        bytes: impl FnOnce(&T) -> u64,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let work = async {
            // Approval is inside the observed work, so that a refusal leaves an event, too.
            self.files.check_approval(name, paths).await?;
            self.settle_live().await?;
            work.await
        };
        self.run_observed(name, paths.first().copied(), bytes, work).await
    }

    /// Runs `work` as the operation `name` and leaves one event; for an operation that asks for approval itself.
    pub(crate) async fn run_observed<T>(
        &self,
        name: &'static str,
        path: Option<&str>,
        bytes: impl FnOnce(&T) -> u64,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let operation = RunningOperation::start(&self.files, name, path);
        let result = work.await;
        operation.finish(result, bytes)
    }

    /// Records the event of an operation that failed before it began, because its arguments could not be read.
    pub fn record_failure(&self, name: &'static str, error: &Error) {
        RunningOperation::start(&self.files, name, None).record_outcome(EventOutcome::from_error(Some(error)), 0);
    }
}

impl<'a> RunningOperation<'a> {
    fn start(files: &'a FileAccess, name: &'static str, path: Option<&'a str>) -> Self {
        let is_open = files.context.events.is_enabled();
        let started = if is_open {
            files.context.clock.elapsed()
        } else {
            Duration::ZERO
        };
        Self {
            files,
            name,
            path,
            started,
            is_open,
        }
    }

    fn finish<T>(mut self, result: Result<T>, bytes: impl FnOnce(&T) -> u64) -> Result<T> {
        let result = result.map_err(|error| self.files.view.error_in_view(error.during_operation(self.name)));
        let moved = result.as_ref().map_or(0, bytes);
        self.record_outcome(EventOutcome::from_error(result.as_ref().err()), moved);
        result
    }

    fn record_outcome(&mut self, outcome: EventOutcome, bytes: u64) {
        // Taken, because `drop` runs after `finish` as well and must not record a second event.
        if !std::mem::take(&mut self.is_open) {
            return;
        }
        let context = &self.files.context;
        context.events.record_event(&Event {
            id: context.ids.next_id(),
            at: context.clock.now(),
            workspace: context.name.clone(),
            actor: (*self.files.actor).clone(),
            operation: self.name.into(),
            path: self.path.map(|path| self.files.without_host_root(path)),
            bytes,
            duration: context.clock.elapsed().saturating_sub(self.started),
            outcome,
        });
    }
}

impl Drop for RunningOperation<'_> {
    fn drop(&mut self) {
        self.record_outcome(EventOutcome::Cancelled, 0);
    }
}

impl FileAccess {
    /// Returns a path as the caller wrote it, without the host's part of it.
    pub(crate) fn without_host_root(&self, path: &str) -> String {
        self.below_host_root(path).unwrap_or_else(|| path.to_owned())
    }
}

impl WorkspaceView {
    /// Rewrites an error of the storage for this view: its paths become relative to the view.
    fn error_in_view(&self, error: Error) -> Error {
        let base = &self.base;
        if base.is_root() {
            return error;
        }
        let path = error.path().map(|path| relative_path_text(path, base));
        error.map_text(|text| strip_base(text, base)).with_path_replaced(path)
    }
}

fn relative_path_text(path: &str, base: &WsPath) -> String {
    let parsed = WsPath::parse(path).ok().and_then(|path| path.relative_to(base));
    parsed.map_or_else(|| path.to_owned(), |path| path.to_string())
}

fn strip_base(text: &str, base: &WsPath) -> String {
    text.replace(&base.to_quoted(), &quote("/"))
        .replace(&format!("`{base}/"), "`")
}
