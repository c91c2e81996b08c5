//! The turn of a command: one command in the foreground at a time, in this process and between processes.
//!
//! Commands that change the same files at the same time collide, and the work of one of them goes on a branch. So each waits until the
//! one before has ended and its work is kept. Processes in the background take no turns: they would keep it for as long as they live. The
//! exception is a checkout, which must not change under a live layer: there the live layer keeps the turn between processes.

use std::sync::{Arc, Weak};
use std::time::Duration;

use garret_core::{Error, ErrorKind, Result, Timestamp, TurnAttempt, TurnGuard, TurnHolder};
use tokio::sync::OwnedMutexGuard;

use super::workshop::Workshop;
use super::{OutputSink, label};

/// How long a command waits for its turn where nothing else is asked for.
const MAX_WAIT: Duration = Duration::from_secs(60);
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// The wait of a command for its turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnWaiting {
    /// The command that has the turn; `None` where its process did not say.
    pub holder: Option<TurnHolder>,
    /// The time now.
    pub now: Timestamp,
}

impl TurnWaiting {
    /// Names the command that is waited for.
    pub fn describe(&self) -> String {
        match &self.holder {
            Some(holder) => holder.describe(self.now),
            None => "a command of another process".to_owned(),
        }
    }
}

/// What asks for a turn.
pub(super) struct TurnRequest<'a> {
    /// The command, without secrets.
    pub(super) label: &'a str,
    /// The longest wait for other processes.
    pub(super) wait: Option<Duration>,
}

/// The turn of one command. Dropped, the next command goes on.
#[derive(Debug)]
pub(super) struct CommandTurn {
    /// The turn between processes; `None` where none is needed.
    between_processes: Option<Arc<TurnGuard>>,
    _in_process: OwnedMutexGuard<()>,
}

impl CommandTurn {
    /// The turn between processes, for a live layer that outlives this command.
    pub(super) fn share_between_processes(&self) -> Option<Arc<TurnGuard>> {
        self.between_processes.clone()
    }
}

impl Workshop {
    /// Waits for the turn of a command in the foreground, and tells `sink` at once who has it. `unavailable` where the wait is too long.
    pub(super) async fn take_turn(&self, request: TurnRequest<'_>, sink: &mut dyn OutputSink) -> Result<CommandTurn> {
        let turn = self.turn.clone();
        let in_process = if request.wait == Some(Duration::ZERO) {
            turn.try_lock_owned().map_err(|_| busy_here())?
        } else {
            turn.lock_owned().await
        };
        let between_processes = self.turn_between_processes(request, sink).await?;
        Ok(CommandTurn {
            between_processes: Some(between_processes),
            _in_process: in_process,
        })
    }

    /// Waits for the turn of what needs the bench to stay as it is and is no command in the foreground. Where the files themselves lie
    /// under the layers, other processes are not waited for.
    pub(super) async fn take_bench_turn(&self, label: &str) -> Result<CommandTurn> {
        if !self.is_direct {
            let request = TurnRequest { label, wait: None };
            return self.take_turn(request, &mut super::request::NoSink).await;
        }
        Ok(CommandTurn {
            between_processes: None,
            _in_process: self.turn.clone().lock_owned().await,
        })
    }

    /// The turn between processes: the one that the live layer has, or a new one.
    async fn turn_between_processes(
        &self,
        request: TurnRequest<'_>,
        sink: &mut dyn OutputSink,
    ) -> Result<Arc<TurnGuard>> {
        if let Some(held) = self.held_turn().upgrade() {
            return Ok(held);
        }
        let (label, longest) = (label::short(request.label), request.wait.unwrap_or(MAX_WAIT));
        let (mut waited, mut pause, mut has_told) = (Duration::ZERO, FIRST_PAUSE, false);
        loop {
            let now = self.now();
            let holder = match self.bench.try_turn(&label, now)? {
                TurnAttempt::Taken(guard) => {
                    let guard = Arc::new(guard);
                    *self.held_turn() = Arc::downgrade(&guard);
                    return Ok(guard);
                }
                TurnAttempt::HeldBy(holder) => holder,
            };
            let waiting = TurnWaiting { holder, now };
            if waited >= longest {
                return Err(busy(&waiting, waited));
            }
            // A process that has just taken the turn needs a moment to write who it is.
            if !has_told && (waiting.holder.is_some() || pause == LONGEST_PAUSE) {
                sink.wait_for_turn(&waiting).await;
                has_told = true;
            }
            let this_pause = pause.min(longest - waited);
            tokio::time::sleep(this_pause).await;
            waited += this_pause;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    fn held_turn(&self) -> std::sync::MutexGuard<'_, Weak<TurnGuard>> {
        self.held_turn.lock().expect("no holder panics")
    }
}

const HINT: &str = "wait until that command has ended, or run this one on a branch of the workspace";

fn busy(waiting: &TurnWaiting, waited: Duration) -> Error {
    let waited = match waited.as_secs() {
        0 => String::new(),
        seconds => format!(" after {seconds} s"),
    };
    let message = format!("another command runs in this workspace{waited}: {}", waiting.describe());
    Error::new(ErrorKind::Unavailable, message).hint(HINT)
}

fn busy_here() -> Error {
    Error::new(
        ErrorKind::Unavailable,
        "another command of this process runs in this workspace",
    )
    .hint(HINT)
}
