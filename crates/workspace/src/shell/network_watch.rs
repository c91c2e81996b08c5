//! The requests of commands to the network: their record for results, and their events.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use garret_core::{Event, EventOutcome, NetworkLog, NetworkRecord, NetworkRequest, Secrets};

use crate::file_access::FileAccess;

/// Watches the requests of the commands of a workspace.
#[derive(Debug)]
pub(crate) struct NetworkWatch {
    log: Option<Arc<NetworkLog>>,
    /// The part of the log whose events are recorded.
    with_events: AtomicU64,
}

impl NetworkWatch {
    pub(in crate::shell) fn new(log: Option<Arc<NetworkLog>>) -> Self {
        Self {
            log,
            with_events: AtomicU64::new(0),
        }
    }

    /// Returns the present end of the log, from which [`NetworkWatch::take_record`] counts.
    pub(crate) fn mark(&self) -> u64 {
        self.log.as_ref().map_or(0, |log| log.mark())
    }

    /// Returns the requests since `mark` of the view of `files` and of scopes in it, and records the events of all new
    /// ones; `None` if the workspace names no hosts. Requests of processes that run at the same time are among them. The
    /// values of secrets are masked in both.
    pub(crate) fn take_record(&self, mark: u64, files: &FileAccess, secrets: &Secrets) -> Option<NetworkRecord> {
        let log = self.log.as_ref()?;
        let new = self.with_events.swap(log.mark(), Ordering::Relaxed);
        if files.context.events.is_enabled() {
            let requests = log.requests_since(new, |_| true);
            requests
                .iter()
                .for_each(|request| record_event(request, files, secrets));
        }
        let view = &files.view;
        let record = log.record_since(mark, |scope| view.encloses_home_scope(scope));
        Some(record.mask_secrets(secrets))
    }
}

fn record_event(request: &NetworkRequest, files: &FileAccess, secrets: &Secrets) {
    let context = &files.context;
    let shown = format!("{} {}:{}", request.method, request.host, request.port);
    context.events.record_event(&Event {
        id: context.ids.next_id(),
        at: context.clock.now(),
        workspace: context.name.clone(),
        actor: (*files.actor).clone(),
        operation: "network".into(),
        path: Some(secrets.mask_text(&shown)),
        bytes: request.bytes_up + request.bytes_down,
        duration: Duration::ZERO,
        outcome: if request.allowed {
            EventOutcome::Done
        } else {
            EventOutcome::Refused {
                rule: Some(request.rule.clone()),
            }
        },
    });
}
