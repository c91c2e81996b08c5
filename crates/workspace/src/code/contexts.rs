//! The contexts of one open workspace.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use garret_core::path::quote;
use garret_core::{Error, ErrorKind, Language, Result, Secrets, Timestamp};
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;

use super::context_worker::ContextCall;
use crate::shell::interpreter::SandboxConditions;
use crate::view::WorkspaceView;
use crate::{ContextStatus, ProcessStatus, unenforced_guards};

/// The number of ended contexts that stay in the list.
const REMEMBERED: usize = 32;

/// The contexts of one open workspace, with the last of those that ended.
#[derive(Debug, Default)]
pub(crate) struct CodeContexts {
    /// Held while a named shell is made.
    pub(super) making_shell: tokio::sync::Mutex<()>,
    table: Mutex<ContextTable>,
}

#[derive(Debug, Default)]
struct ContextTable {
    next: u64,
    entries: BTreeMap<u64, Arc<CodeContext>>,
}

/// A context in the table. Its process belongs to the task that serves it.
#[derive(Debug)]
pub(super) struct CodeContext {
    pub(super) number: u64,
    pub(super) language: Language,
    /// Its name, if it is a named shell.
    pub(super) shell: Option<String>,
    pub(super) created: Timestamp,
    pub(super) secrets: Secrets,
    pub(super) surroundings: SandboxConditions,
    /// The view that it was made for. No other view may know of it.
    pub(super) view: Arc<WorkspaceView>,
    pub(super) calls: AtomicU64,
    pub(super) inbox: mpsc::UnboundedSender<ContextCall>,
    pub(super) life: watch::Sender<ContextState>,
    pub(super) task: Mutex<Option<AbortHandle>>,
}

/// The state of a context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ContextState {
    Running,
    /// Its end was requested, for this reason.
    Ending(String),
    /// It has ended, for this reason.
    Ended(String),
    /// It has ended, for this reason, and its effects are committed.
    Done(String),
}

impl ContextState {
    fn end_reason(&self) -> Option<&str> {
        match self {
            Self::Running | Self::Ending(_) => None,
            Self::Ended(how) | Self::Done(how) => Some(how),
        }
    }
}

/// Returns the id of the context of this number.
pub(super) fn context_id(number: u64) -> String {
    format!("c{number}")
}

impl CodeContexts {
    fn lock_table(&self) -> MutexGuard<'_, ContextTable> {
        self.table.lock().expect("no holder panics")
    }

    fn all_contexts(&self) -> Vec<Arc<CodeContext>> {
        self.lock_table().entries.values().cloned().collect()
    }

    /// Returns a number that no context had before.
    pub(super) fn next_number(&self) -> u64 {
        let mut table = self.lock_table();
        table.next += 1;
        table.next
    }

    pub(super) fn add_context(&self, entry: Arc<CodeContext>) {
        let mut table = self.lock_table();
        table.entries.insert(entry.number, entry);
        let over = table.entries.len().saturating_sub(REMEMBERED);
        let ended = table.entries.values().filter(|one| !one.is_running());
        let forgotten: Vec<u64> = ended.map(|one| one.number).take(over).collect();
        table.entries.retain(|number, _| !forgotten.contains(number));
    }

    /// Returns the number of contexts that run, without named shells.
    pub(crate) fn count_running(&self) -> usize {
        let contexts = self.all_contexts();
        let running = contexts
            .iter()
            .filter(|entry| entry.shell.is_none() && entry.is_running());
        running.count()
    }

    /// Returns the context of this id; `not_found` if there is none, or if this view may not know of it.
    pub(super) fn find_context(&self, view: &WorkspaceView, context: &str) -> Result<Arc<CodeContext>> {
        let number = context.strip_prefix('c').and_then(|digits| digits.parse().ok());
        let found = number.and_then(|number: u64| self.lock_table().entries.get(&number).cloned());
        let found = found.filter(|entry| entry.shell.is_none() && entry.is_known_to(view));
        found.ok_or_else(|| {
            Error::new(ErrorKind::NotFound, format!("unknown context {}", quote(context)))
                .hint("create one with `create_code_context`; contexts end when the workspace is closed")
        })
    }

    /// Returns the contexts that this view may know of.
    pub(super) fn visible_contexts(&self, view: &WorkspaceView) -> Vec<ContextStatus> {
        let known = self.all_contexts().into_iter().filter(|entry| entry.is_known_to(view));
        let contexts = known.filter(|entry| entry.shell.is_none());
        contexts.map(|entry| entry.status()).collect()
    }

    /// Returns the shell of this name that runs, if there is one that this view may know of.
    pub(super) fn find_shell(&self, view: &WorkspaceView, name: &str) -> Option<Arc<CodeContext>> {
        let is_wanted = |entry: &Arc<CodeContext>| {
            entry.shell.as_deref() == Some(name) && entry.is_running() && entry.is_known_to(view)
        };
        self.all_contexts().into_iter().find(is_wanted)
    }

    /// Returns the named shells that run and that this view may know of.
    pub(crate) fn visible_shells(&self, view: &WorkspaceView) -> Vec<ProcessStatus> {
        let known = self.all_contexts().into_iter().filter(|entry| entry.is_known_to(view));
        let running = known.filter(|entry| entry.is_running());
        let shells = running.filter_map(|entry| Some(entry.shell_status(entry.shell.as_deref()?)));
        shells.collect()
    }

    /// Ends every context at once, without waiting for them: aborting a task drops its process, which kills it.
    pub(crate) fn abort_all(&self) {
        for entry in self.all_contexts() {
            if let Some(task) = entry.lock_task().take() {
                task.abort();
            }
        }
    }

    /// Ends every context and waits until its effects are committed.
    pub(crate) async fn end_all(&self) {
        for entry in self.all_contexts() {
            entry.end_and_wait("the workspace was closed").await;
        }
    }
}

impl CodeContext {
    pub(super) fn id(&self) -> String {
        context_id(self.number)
    }

    fn lock_task(&self) -> MutexGuard<'_, Option<AbortHandle>> {
        self.task.lock().expect("no holder panics")
    }

    fn is_running(&self) -> bool {
        self.life.borrow().end_reason().is_none()
    }

    fn is_known_to(&self, view: &WorkspaceView) -> bool {
        view.has_same_rules(&self.view) && view.env == self.view.env
    }

    pub(super) fn status(&self) -> ContextStatus {
        let ended = self.life.borrow().end_reason().map(str::to_owned);
        ContextStatus {
            id: self.id(),
            language: self.language,
            at: self.created,
            calls: self.calls.load(Ordering::Relaxed),
            running: ended.is_none(),
            ended,
            isolated: self.surroundings.isolated,
            not_enforced: unenforced_guards(&self.surroundings.guards),
        }
    }

    /// Returns the error for a call to a context that has ended.
    pub(super) fn ended_error(&self) -> Error {
        let life = self.life.borrow();
        let how = life.end_reason().unwrap_or("its workspace is no longer open");
        let id = self.id();
        Error::new(ErrorKind::NotFound, format!("the context `{id}` has ended: {how}"))
            .hint("its variables are lost; create another context with `create_code_context`")
    }

    /// Ends the context, and waits until its effects are committed. A context that has ended already stays as it is.
    pub(super) async fn end_and_wait(&self, why: &str) {
        let mut life = self.life.subscribe();
        // Only the first request counts: its reason is the one that callers are given.
        self.life.send_if_modified(|life| {
            let is_running = *life == ContextState::Running;
            if is_running {
                *life = ContextState::Ending(why.to_owned());
            }
            is_running
        });
        let task = self.lock_task().clone();
        // An aborted task never gets to `Done`, so the task is looked at now and then as well.
        while !matches!(*life.borrow_and_update(), ContextState::Done(_))
            && !task.as_ref().is_none_or(AbortHandle::is_finished)
        {
            let _ = tokio::time::timeout(Duration::from_millis(100), life.changed()).await;
        }
    }
}
