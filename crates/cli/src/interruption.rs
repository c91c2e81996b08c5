//! What ends a command before it ends by itself: Ctrl-C, a signal that asks this program to end, or a reader of its output who is gone.
//!
//! Dropping the work is all that it takes: a command that nobody waits for is ended, and nothing of what it did is kept.

use std::sync::Arc;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;

use crate::output::{Failure, Report};

/// The number of the signal that a program gets whose reader is gone.
const PIPE: i32 = 13;

/// Told when nobody reads the output any more.
pub(crate) type ReaderGone = Arc<Notify>;

/// Does `work` unless it is interrupted; then it is dropped, and the number of the signal is given.
pub(crate) async fn unless_interrupted<T>(reader: &ReaderGone, work: impl Future<Output = T>) -> Result<T, Stopped> {
    let failed = |_| Stopped::Unwatched;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
    let mut hangup = signal(SignalKind::hangup()).map_err(failed)?;
    tokio::select! {
        done = work => Ok(done),
        _ = interrupt.recv() => Err(Stopped::By(SignalKind::interrupt().as_raw_value())),
        _ = terminate.recv() => Err(Stopped::By(SignalKind::terminate().as_raw_value())),
        _ = hangup.recv() => Err(Stopped::By(SignalKind::hangup().as_raw_value())),
        () = reader.notified() => Err(Stopped::By(PIPE)),
    }
}

/// Why work was not done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stopped {
    /// By the signal of this number.
    By(i32),
    /// Signals cannot be watched for, so that it was not begun.
    Unwatched,
}

impl Stopped {
    /// What this program says then, with the exit code that a shell gives.
    pub(crate) fn report(self, what: &str) -> Result<Report, Failure> {
        match self {
            Self::By(number) => {
                let note = format!("garret: interrupted; the {what} was ended, and its changes were not kept\n");
                let code = u8::try_from(128 + number).unwrap_or(u8::MAX);
                Ok(Report::silent().with_note(note).with_code(code))
            }
            Self::Unwatched => Err(Failure::unavailable("the system cannot report signals")),
        }
    }
}
