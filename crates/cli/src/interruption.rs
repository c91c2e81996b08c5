//! Interruption of a command: by Ctrl-C, by a signal that asks this program to end, or because the reader of its output
//! is gone.
//!
//! It is enough to drop the work: a command that nobody waits for is ended, and none of its changes are kept.

use std::sync::Arc;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;

use crate::output::{CliFailure, CliReport};

/// The number of SIGPIPE, which a program gets if the reader of its output is gone.
const PIPE: i32 = 13;

/// Notified when nobody reads the output any more.
pub(crate) type ReaderGoneSignal = Arc<Notify>;

/// Runs `work` to its end, or drops it at an interruption and returns the reason.
pub(crate) async fn run_until_interrupted<T>(
    reader: &ReaderGoneSignal,
    work: impl Future<Output = T>,
) -> Result<T, WorkInterruption> {
    // Watched before the work begins: until then a signal ends this program at once.
    let failed = |_| WorkInterruption::SignalsUnwatched;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
    let mut hangup = signal(SignalKind::hangup()).map_err(failed)?;
    tokio::select! {
        done = work => Ok(done),
        _ = interrupt.recv() => Err(WorkInterruption::Signal(SignalKind::interrupt().as_raw_value())),
        _ = terminate.recv() => Err(WorkInterruption::Signal(SignalKind::terminate().as_raw_value())),
        _ = hangup.recv() => Err(WorkInterruption::Signal(SignalKind::hangup().as_raw_value())),
        () = reader.notified() => Err(WorkInterruption::Signal(PIPE)),
    }
}

/// The reason why work did not come to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WorkInterruption {
    /// The signal of this number interrupted the work.
    Signal(i32),
    /// Signals cannot be watched, so the work was not begun.
    SignalsUnwatched,
}

impl WorkInterruption {
    /// Makes the report of the interruption.
    pub(crate) fn to_report(self, what: &str) -> Result<CliReport, CliFailure> {
        match self {
            Self::Signal(number) => {
                let note = format!("garret: interrupted; the {what} was ended, and its changes were not kept\n");
                // The exit code that a shell gives to a program that a signal ended.
                let code = u8::try_from(128 + number).unwrap_or(u8::MAX);
                Ok(CliReport::silent().with_note(note).with_code(code))
            }
            Self::SignalsUnwatched => Err(CliFailure::unavailable("the system cannot report signals")),
        }
    }
}
