//! The contexts of one open workspace.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use garret_core::path::quote;
use garret_core::{Error, ErrorKind, Language, Result, Secrets, Timestamp};
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;

use super::ContextShown;
use super::attend::Call;
use crate::shell::driven::Surroundings;

/// How many contexts that ended are remembered.
const REMEMBERED: usize = 32;

/// The contexts of one open workspace, with the last of those that ended.
#[derive(Debug, Default)]
pub(crate) struct Contexts {
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    next: u64,
    entries: BTreeMap<u64, Arc<Entry>>,
}

/// What is known of a context. What lives in it is with whoever attends to it.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) number: u64,
    pub(super) language: Language,
    pub(super) created: Timestamp,
    pub(super) secrets: Secrets,
    pub(super) surroundings: Surroundings,
    /// The view that it was made for: no other knows it.
    pub(super) view: Arc<crate::workspace::View>,
    pub(super) calls: AtomicU64,
    pub(super) inbox: mpsc::UnboundedSender<Call>,
    pub(super) life: watch::Sender<Life>,
    pub(super) task: Mutex<Option<AbortHandle>>,
}

/// Where a context is in its life.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Life {
    Running,
    /// Somebody wants it to end, for this reason.
    Ending(String),
    /// It has ended so.
    Ended(String),
    /// And what it did is taken over.
    Done(String),
}

impl Life {
    fn ended(&self) -> Option<&str> {
        match self {
            Self::Running | Self::Ending(_) => None,
            Self::Ended(how) | Self::Done(how) => Some(how),
        }
    }
}

/// The id of the context of this number.
pub(super) fn id(number: u64) -> String {
    format!("c{number}")
}

impl Contexts {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().expect("no holder panics")
    }

    fn all(&self) -> Vec<Arc<Entry>> {
        self.table().entries.values().cloned().collect()
    }

    /// A number that no context had.
    pub(super) fn next(&self) -> u64 {
        let mut table = self.table();
        table.next += 1;
        table.next
    }

    pub(super) fn add(&self, entry: Arc<Entry>) {
        let mut table = self.table();
        table.entries.insert(entry.number, entry);
        let over = table.entries.len().saturating_sub(REMEMBERED);
        let ended = table.entries.values().filter(|one| !one.is_running());
        let forgotten: Vec<u64> = ended.map(|one| one.number).take(over).collect();
        table.entries.retain(|number, _| !forgotten.contains(number));
    }

    /// How many of them live.
    pub(crate) fn running(&self) -> usize {
        self.all().iter().filter(|entry| entry.is_running()).count()
    }

    /// The context of this id, where this view knows it.
    pub(super) fn find(&self, view: &crate::Workspace, context: &str) -> Result<Arc<Entry>> {
        let number = context.strip_prefix('c').and_then(|digits| digits.parse().ok());
        let found = number.and_then(|number: u64| self.table().entries.get(&number).cloned());
        found.filter(|entry| entry.is_known_to(view)).ok_or_else(|| {
            Error::new(ErrorKind::NotFound, format!("unknown context {}", quote(context)))
                .hint("create one with `create_code_context`; contexts end when the workspace is closed")
        })
    }

    /// The contexts that this view knows.
    pub(super) fn shown(&self, view: &crate::Workspace) -> Vec<ContextShown> {
        let known = self.all().into_iter().filter(|entry| entry.is_known_to(view));
        known.map(|entry| entry.shown()).collect()
    }

    /// Lets go of every context at once, which ends them.
    pub(crate) fn abandon(&self) {
        for entry in self.all() {
            if let Some(task) = entry.task().take() {
                task.abort();
            }
        }
    }

    /// Ends every context and waits until what they did is taken over.
    pub(crate) async fn end_all(&self) {
        for entry in self.all() {
            entry.end("the workspace was closed").await;
        }
    }
}

impl Entry {
    pub(super) fn id(&self) -> String {
        id(self.number)
    }

    fn task(&self) -> MutexGuard<'_, Option<AbortHandle>> {
        self.task.lock().expect("no holder panics")
    }

    fn is_running(&self) -> bool {
        self.life.borrow().ended().is_none()
    }

    fn is_known_to(&self, view: &crate::Workspace) -> bool {
        view.has_rules_of(&self.view) && view.view.env == self.view.env
    }

    pub(super) fn shown(&self) -> ContextShown {
        let ended = self.life.borrow().ended().map(str::to_owned);
        ContextShown {
            id: self.id(),
            language: self.language,
            created: self.created.to_string(),
            calls: self.calls.load(Ordering::Relaxed),
            running: ended.is_none(),
            ended,
        }
    }

    /// What a caller is told who comes too late.
    pub(super) fn gone(&self) -> Error {
        let life = self.life.borrow();
        let how = life.ended().unwrap_or("its workspace is no longer open");
        let id = self.id();
        Error::new(ErrorKind::NotFound, format!("the context `{id}` has ended: {how}"))
            .hint("its variables are lost; create another context with `create_code_context`")
    }

    /// Ends it, and waits until what it did is taken over. One that has ended already stays as it is.
    pub(super) async fn end(&self, why: &str) {
        let mut life = self.life.subscribe();
        self.life.send_if_modified(|life| {
            let is_running = *life == Life::Running;
            if is_running {
                *life = Life::Ending(why.to_owned());
            }
            is_running
        });
        let task = self.task().clone();
        // One whose task was aborted never gets done.
        while !matches!(*life.borrow_and_update(), Life::Done(_)) && !task.as_ref().is_none_or(AbortHandle::is_finished)
        {
            let _ = tokio::time::timeout(Duration::from_millis(100), life.changed()).await;
        }
    }
}
