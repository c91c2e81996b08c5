//! The terminal of a caller, on which a command runs.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use garret_core::{Chunk, Process, Signal, TerminalSize};

/// The caller's side of the terminal of a command.
///
/// Keys are the standard input of the command, and its output goes to the [`OutputSink`](crate::OutputSink). This has
/// the rest.
#[async_trait]
pub trait TerminalSource: Send + Sync {
    /// Returns the size now.
    fn size(&self) -> TerminalSize;

    /// Called when the command has started: from now on keys are for the command.
    fn connect(&self) {}

    /// Called when the command has ended: keys are no longer for the command.
    fn disconnect(&self) {}

    /// Waits for the next event. No event may be lost if this future is dropped.
    async fn next_event(&self) -> TerminalEvent;
}

/// An event at the terminal of a caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TerminalEvent {
    /// It has another size.
    Resized(TerminalSize),
    /// Nobody sits at it any more: the command is ended, and no event follows.
    HungUp,
}

/// A shared [`TerminalSource`]. Two are equal if they are the same source.
#[derive(Clone)]
pub struct RunTerminal(Arc<dyn TerminalSource>);

impl RunTerminal {
    /// Makes the terminal of `source`.
    pub fn new(source: impl TerminalSource + 'static) -> Self {
        Self(Arc::new(source))
    }

    pub(crate) fn size(&self) -> TerminalSize {
        self.0.size()
    }

    pub(super) fn connect(&self) {
        self.0.connect();
    }

    pub(super) fn disconnect(&self) {
        self.0.disconnect();
    }
}

impl PartialEq for RunTerminal {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for RunTerminal {}

impl fmt::Debug for RunTerminal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("RunTerminal").finish_non_exhaustive()
    }
}

/// Waits for the next output of a process, and passes on meanwhile what happens at its terminal, if it has one.
pub(super) async fn next_output(process: &mut dyn Process, terminal: Option<&RunTerminal>) -> Option<Chunk> {
    let Some(RunTerminal(source)) = terminal else {
        return process.next_output().await;
    };
    loop {
        let event = tokio::select! {
            biased;
            chunk = process.next_output() => return chunk,
            event = source.next_event() => event,
        };
        // A process that takes no size and no signal has ended.
        match event {
            TerminalEvent::Resized(size) => drop(process.resize(size).await),
            TerminalEvent::HungUp => {
                drop(process.send_signal(Signal::Kill).await);
                return process.next_output().await;
            }
        }
    }
}
