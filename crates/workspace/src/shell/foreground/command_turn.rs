//! The turn of a command: one command in the foreground at a time, in this process and between processes.
//!
//! Commands that change the same files at the same time collide, and the work of one of them goes on a branch. So each
//! waits until the one before has ended and its work is kept. Processes in the background take no turns: they would
//! keep it for as long as they live. The exception is a checkout, which must not change under a live layer: there the
//! live layer keeps the turn between processes.
//!
//! A command waits first for the commands of this process, in the order in which they came, and then for those of other
//! processes. Both are one wait: it has one limit, and its caller is told once which command has the turn.

use std::pin::pin;
use std::sync::{Arc, MutexGuard, Weak};
use std::time::Duration;

use garret_core::{Clock, Error, ErrorKind, Result, Timestamp, TurnAttempt, TurnGuard, TurnHolder};
use tokio::sync::{Mutex, OwnedMutexGuard, watch};

use crate::shell::OutputSink;
use crate::shell::command_access::CommandAccess;
use crate::shell::foreground::command_label;
use crate::shell::foreground::request::NoSink;
use crate::shell::foreground::run::duration_millis;
use crate::shell::runtime::ShellRuntime;
use crate::view::WorkspaceView;
use crate::{TurnWaited, Workspace};

/// The longest wait for a turn if the request names none.
const MAX_WAIT: Duration = Duration::from_secs(60);
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);
/// The shortest wait that the result mentions.
const TOLD_WAIT: Duration = Duration::from_secs(1);

/// The wait of a command for its turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnWaiting {
    /// The command that has the turn; `None` if its process did not say, or if this view may not know of it.
    pub holder: Option<TurnHolder>,
    /// The time now.
    pub now: Timestamp,
}

impl TurnWaiting {
    /// Names the command that is waited for.
    pub fn describe(&self) -> String {
        match &self.holder {
            Some(holder) => holder.describe(self.now),
            None => "another command".to_owned(),
        }
    }
}

/// A request for a turn.
pub(in crate::shell) struct TurnRequest<'a> {
    /// The commands that ask.
    pub(in crate::shell) commands: &'a CommandAccess,
    /// The command, without secrets.
    pub(in crate::shell) label: &'a str,
    /// The longest wait for other commands.
    pub(in crate::shell) wait: Option<Duration>,
    /// Whether commands of other processes are waited for, too.
    pub(in crate::shell) is_between_processes: bool,
}

/// The turn of one command. Dropping it lets the next command go on.
#[derive(Debug)]
pub(in crate::shell) struct CommandTurn {
    /// The turn between processes; `None` if none is needed.
    between_processes: Option<Arc<TurnGuard>>,
    _in_process: InProcessGuard,
    /// The wait for the turn, if it was long.
    pub(in crate::shell) waited: Option<TurnWaited>,
}

impl CommandTurn {
    /// Returns the turn between processes, for a live layer that outlives this command.
    pub(in crate::shell) fn share_between_processes(&self) -> Option<Arc<TurnGuard>> {
        self.between_processes.clone()
    }
}

/// The turn among the commands of this process.
#[derive(Debug, Default)]
pub(in crate::shell) struct InProcessTurn {
    lock: Arc<Mutex<()>>,
    holder: Arc<std::sync::Mutex<Option<KnownHolder>>>,
}

/// The command for which the others of this process wait.
#[derive(Debug)]
struct KnownHolder {
    holder: TurnHolder,
    /// The view that runs it; `None` for a command of another process.
    view: Option<Arc<WorkspaceView>>,
}

/// The guard of the turn among the commands of this process. Dropping it lets the next of them go on.
#[derive(Debug)]
struct InProcessGuard {
    holder: Arc<std::sync::Mutex<Option<KnownHolder>>>,
    _lock: OwnedMutexGuard<()>,
}

impl InProcessGuard {
    fn set_holder(&self, known: Option<KnownHolder>) {
        *self.holder.lock().expect("no holder panics") = known;
    }
}

impl Drop for InProcessGuard {
    fn drop(&mut self) {
        self.set_holder(None);
    }
}

impl InProcessTurn {
    /// Returns the command that has the turn; `None` if `view` may not know of it.
    fn holder_for(&self, view: &WorkspaceView) -> Option<TurnHolder> {
        let known = self.holder.lock().expect("no holder panics");
        let shown = known.as_ref().filter(|known| match &known.view {
            Some(of) => view.encloses(of),
            None => true,
        });
        shown.map(|known| known.holder.clone())
    }
}

/// One wait for a turn: how long it has lasted, and who learns of it.
struct TurnWait<'a> {
    clock: Arc<dyn Clock>,
    begun: Duration,
    longest: Duration,
    /// The pause until the next attempt.
    pause: Duration,
    /// The notice that the caller was given.
    told: Option<TurnWaiting>,
    sink: &'a mut dyn OutputSink,
    watch: Option<watch::Sender<Option<TurnWaiting>>>,
}

impl<'a> TurnWait<'a> {
    fn new(request: &TurnRequest<'_>, sink: &'a mut dyn OutputSink) -> Self {
        let clock = request.commands.files.context.clock.clone();
        Self {
            begun: clock.elapsed(),
            clock,
            longest: request.wait.unwrap_or(MAX_WAIT),
            pause: FIRST_PAUSE,
            told: None,
            sink,
            watch: request.commands.turn_watch.clone(),
        }
    }

    fn elapsed(&self) -> Duration {
        self.clock.elapsed().saturating_sub(self.begun)
    }

    /// Reports to the caller, once, that the turn is not free. Returns the pause until the next attempt; `unavailable`
    /// if the wait is too long.
    async fn note_busy(&mut self, waiting: TurnWaiting) -> Result<Duration> {
        let waited = self.elapsed();
        let left = self.longest.saturating_sub(waited);
        if left.is_zero() {
            return Err(turn_busy_error(&waiting, waited));
        }
        // A command that has just taken the turn needs a moment to say who it is.
        if self.told.is_none() && (waiting.holder.is_some() || self.pause == LONGEST_PAUSE) {
            self.sink.wait_for_turn(&waiting).await;
            if let Some(watch) = &self.watch {
                watch.send_replace(Some(waiting.clone()));
            }
            self.told = Some(waiting);
        }
        let pause = self.pause.min(left);
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        Ok(pause)
    }

    /// Returns the wait for the result of the command; `None` if it was short.
    fn describe_end(&self) -> Option<TurnWaited> {
        let waited = self.elapsed();
        let told = self.told.as_ref().filter(|_| waited >= TOLD_WAIT)?;
        Some(TurnWaited {
            duration_ms: duration_millis(waited),
            command: told.holder.as_ref().map(|holder| holder.command.clone()),
        })
    }
}

impl Drop for TurnWait<'_> {
    fn drop(&mut self) {
        if let (Some(watch), Some(_)) = (&self.watch, &self.told) {
            watch.send_replace(None);
        }
    }
}

impl Workspace {
    /// Returns this workspace with a watch on its waits: while an operation waits for the turn, `watch` holds the
    /// command that has it. Each operation that is watched needs a workspace and a watch of its own.
    #[must_use]
    pub fn watching_turns(&self, watch: watch::Sender<Option<TurnWaiting>>) -> Self {
        Self {
            turn_watch: Some(watch),
            ..self.clone()
        }
    }
}

impl ShellRuntime {
    /// Waits for the turn of a foreground command, and tells `sink` at once which command has it. `unavailable` if the
    /// wait is too long.
    pub(in crate::shell) async fn take_turn(
        &self,
        request: TurnRequest<'_>,
        sink: &mut dyn OutputSink,
    ) -> Result<CommandTurn> {
        let mut wait = TurnWait::new(&request, sink);
        let in_process = self.take_turn_in_process(&request, &mut wait).await?;
        let between_processes = if request.is_between_processes {
            Some(
                self.take_turn_between_processes(&request, &in_process, &mut wait)
                    .await?,
            )
        } else {
            None
        };
        in_process.set_holder(Some(self.known_holder(&request)));
        Ok(CommandTurn {
            between_processes,
            _in_process: in_process,
            waited: wait.describe_end(),
        })
    }

    /// Waits for the turn of an operation that is no foreground command, but needs the bench to stay as it is.
    pub(in crate::shell) async fn take_bench_turn(&self, commands: &CommandAccess, label: &str) -> Result<CommandTurn> {
        let request = TurnRequest {
            commands,
            label,
            wait: None,
            // If the bench is the directory of the files itself, a turn would not keep it as it is: any program may
            // write there.
            is_between_processes: !self.is_direct,
        };
        self.take_turn(request, &mut NoSink).await
    }

    /// Waits for the turn among the commands of this process.
    async fn take_turn_in_process(&self, request: &TurnRequest<'_>, wait: &mut TurnWait<'_>) -> Result<InProcessGuard> {
        // One future for the whole wait: a new one after each pause would lose its place in the queue, and others would
        // overtake it.
        let mut lock = pin!(self.turn.lock.clone().lock_owned());
        let mut pause = Duration::ZERO;
        loop {
            if let Ok(taken) = tokio::time::timeout(pause, lock.as_mut()).await {
                return Ok(InProcessGuard {
                    holder: self.turn.holder.clone(),
                    _lock: taken,
                });
            }
            let (holder, now) = (self.turn.holder_for(&request.commands.files.view), self.current_time());
            pause = wait.note_busy(TurnWaiting { holder, now }).await?;
        }
    }

    /// Returns the turn between processes: the one that the live layer of this process has, or a new one.
    async fn take_turn_between_processes(
        &self,
        request: &TurnRequest<'_>,
        in_process: &InProcessGuard,
        wait: &mut TurnWait<'_>,
    ) -> Result<Arc<TurnGuard>> {
        if let Some(held) = self.lock_held_turn().upgrade() {
            return Ok(held);
        }
        let label = command_label::short_label(request.label);
        loop {
            let now = self.current_time();
            let holder = match self.bench.try_turn(&label, now)? {
                TurnAttempt::Taken(guard) => {
                    let guard = Arc::new(guard);
                    *self.lock_held_turn() = Arc::downgrade(&guard);
                    return Ok(guard);
                }
                TurnAttempt::HeldBy(holder) => holder,
            };
            // The other commands of this process wait for that command, too, and name it to their callers.
            in_process.set_holder(holder.clone().map(|holder| KnownHolder { holder, view: None }));
            let pause = wait.note_busy(TurnWaiting { holder, now }).await?;
            tokio::time::sleep(pause).await;
        }
    }

    fn known_holder(&self, request: &TurnRequest<'_>) -> KnownHolder {
        let holder = TurnHolder {
            process: std::process::id(),
            command: command_label::short_label(request.label),
            since: self.current_time(),
        };
        KnownHolder {
            holder,
            view: Some(request.commands.files.view.clone()),
        }
    }

    fn lock_held_turn(&self) -> MutexGuard<'_, Weak<TurnGuard>> {
        self.held_turn.lock().expect("no holder panics")
    }
}

fn turn_busy_error(waiting: &TurnWaiting, waited: Duration) -> Error {
    let waited = match waited.as_secs() {
        0 => String::new(),
        seconds => format!(" after {seconds} s"),
    };
    let named = match waiting.holder {
        Some(_) => format!(": {}", waiting.describe()),
        None => String::new(),
    };
    let message = format!("another command runs in this workspace{waited}{named}");
    Error::new(ErrorKind::Unavailable, message)
        .hint("wait until that command has ended, or run this one on a branch of the workspace")
}

#[cfg(test)]
mod tests {
    use garret_core::{MemoryStorage, SystemClock};

    use super::*;
    use crate::shell::testing::FakeMachine;

    fn workspace() -> Workspace {
        let files = Arc::new(MemoryStorage::new(Arc::new(SystemClock::default())));
        let builder = Workspace::builder(files).shell(Some(FakeMachine::new().parts()));
        builder.open().unwrap()
    }

    fn request(commands: &CommandAccess, wait: Option<Duration>) -> TurnRequest<'_> {
        TurnRequest {
            commands,
            label: "make all",
            wait,
            is_between_processes: true,
        }
    }

    #[test]
    fn a_wait_ends_after_a_minute_where_nothing_else_is_asked_for() {
        let workspace = workspace();
        let commands = workspace.commands().unwrap();
        let wait = TurnWait::new(&request(&commands, None), &mut NoSink).longest;
        assert_eq!(wait, Duration::from_secs(60));
    }

    #[tokio::test]
    async fn the_turn_names_its_holder_until_it_is_given_back() {
        let workspace = workspace();
        let commands = workspace.commands().unwrap();
        let shell = &commands.shell;
        let turn = shell.take_turn(request(&commands, None), &mut NoSink).await.unwrap();
        let now = Some(Duration::ZERO);
        let refused = shell.take_turn(request(&commands, now), &mut NoSink).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unavailable);
        assert!(refused.message().contains(": `make all` (process "), "{refused}");
        drop(turn);
        assert_eq!(shell.turn.holder_for(&workspace.files.view), None);
        shell.take_turn(request(&commands, now), &mut NoSink).await.unwrap();
    }

    #[test]
    fn a_wait_is_told_in_words() {
        let waited = |command: Option<&str>| TurnWaited {
            duration_ms: 12_900,
            command: command.map(str::to_owned),
        };
        assert_eq!(waited(Some("make")).describe(), "waited 12 s for `make`");
        assert_eq!(waited(None).describe(), "waited 12 s for another command");
    }
}
