//! The user's terminal while a command runs on a terminal of the sandbox.
//!
//! Every key then goes to the command, Ctrl-C too, and everything that the command prints reaches the user's terminal as it
//! is. So a command can leave the terminal in any mode, and can print questions that the terminal answers as if its
//! user had typed. When the command has ended, the modes that matter are reset, and answers are read and thrown away
//! before anybody else reads the terminal.

#![allow(
    clippy::disallowed_methods,
    reason = "the kind of the user's terminal is said by the environment"
)]

use std::collections::BTreeMap;
use std::io::{IsTerminal, PipeReader, PipeWriter};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use async_trait::async_trait;
use bytes::Bytes;
use garret::{Error, InputSource, InputStream, RunTerminal, TerminalEvent, TerminalSize, TerminalSource};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::sync::watch;

use crate::output::{CliFailure, write_all};
use crate::progress;

/// The variables that say what the terminal can do.
const VARIABLES: [&str; 2] = ["TERM", "COLORTERM"];
/// Ends an unfinished sequence, then turns off every mode in which a terminal sends input by itself or shows a shell
/// wrongly: reports of the mouse and of the focus, marks around pasted text, other codes for keys, the other screen, a
/// hidden cursor, colours and other sets of characters. The margins and the origin are reset between a save and a return of the cursor, because both move
/// it to the top of the screen, where the next prompt would write over what is there.
const RESET: &[u8] = b"\x18\x1b\\\x1b7\x1b[r\x1b[?6l\x1b8\x1b[?9l\x1b[?1000l\x1b[?1001l\x1b[?1002l\x1b[?1003l\x1b[?1004l\x1b[?1005l\x1b[?1006l\x1b[?1015l\
    \x1b[?2004l\x1b[?2031l\x1b[?2048l\x1b[<99u\x1b[>4m\x1b[?1l\x1b>\x1b[?1047l\x1b[?25h\x1b[?7h\x1b[4l\x1b(B\x0f\x1b[0m";
/// Asks the terminal whether it works. It answers in order, so that all earlier answers come before [`ANSWER`].
const QUESTION: &[u8] = b"\x1b[5n";
const ANSWER: &[u8] = b"\x1b[0n";
/// The longest wait for an answer; a terminal far away needs some time.
const ANSWER_WAIT: Timespec = milliseconds(500);
/// The silence that shows that no more answers come.
const SILENCE: Timespec = milliseconds(50);
/// The most reads of answers, so that a key that is held down does not keep the program from its end.
const MOST_READS: usize = 1_000;

const fn milliseconds(count: i64) -> Timespec {
    Timespec {
        tv_sec: 0,
        tv_nsec: count * 1_000_000,
    }
}

/// The terminal on standard input. Its keys go to a command while that runs.
#[derive(Clone)]
pub(crate) struct UserTerminal {
    shared: Arc<UserTerminalState>,
}

struct UserTerminalState {
    input: OwnedFd,
    keys: tokio::sync::Mutex<UnboundedReceiver<Bytes>>,
    /// The sender of keys, until they are for the command.
    sender: Mutex<Option<UnboundedSender<Bytes>>>,
    session: Mutex<Option<KeySession>>,
    /// Whether the command has started.
    has_started: watch::Sender<bool>,
    signals: tokio::sync::Mutex<TerminalSignals>,
    /// The signal that ended the session.
    ended_by: Mutex<Option<SignalKind>>,
}

/// The time in which every key goes to the command.
struct KeySession {
    /// The settings of the terminal from before.
    before: Termios,
    reader: JoinHandle<()>,
    /// Its end stops the reader.
    stop: PipeWriter,
}

struct TerminalSignals {
    resized: Signal,
    /// The signals that end the session.
    ends: Vec<(SignalKind, Signal)>,
}

/// What a signal that asks the program to end does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EndSignals {
    /// The command is ended as if its terminal had hung up, and its changes are kept.
    HangUp,
    /// The caller handles it.
    NotHere,
}

impl UserTerminal {
    /// Opens the terminal on standard input; `what` is the command line that needs it.
    pub(crate) fn open(what: &str, ends: EndSignals) -> Result<Self, CliFailure> {
        let stdin = std::io::stdin();
        if !stdin.is_terminal() {
            let error = Error::invalid(format!("{what} needs a terminal on standard input"));
            return Err(CliFailure::wrong_usage(
                error.hint("use `garret run` for commands that nobody types to"),
            ));
        }
        let unusable = |_| CliFailure::unavailable("the terminal cannot be used");
        let input = stdin.as_fd().try_clone_to_owned().map_err(unusable)?;
        let signals = TerminalSignals::watch(ends).map_err(unusable)?;
        let (sender, keys) = mpsc::unbounded_channel();
        Ok(Self {
            shared: Arc::new(UserTerminalState {
                input,
                keys: tokio::sync::Mutex::new(keys),
                sender: Mutex::new(Some(sender)),
                session: Mutex::default(),
                has_started: watch::Sender::new(false),
                signals: tokio::sync::Mutex::new(signals),
                ended_by: Mutex::default(),
            }),
        })
    }

    /// Returns the keys, as the input of a command.
    pub(crate) fn keys(&self) -> InputStream {
        InputStream::new(self.clone())
    }

    /// Returns the terminal of a command.
    pub(crate) fn run_terminal(&self) -> RunTerminal {
        RunTerminal::new(self.clone())
    }

    /// Returns the variables that tell a command what the terminal can do.
    pub(crate) fn environment() -> BTreeMap<String, String> {
        let set = |name: &str| Some((name.to_owned(), std::env::var(name).ok()?));
        VARIABLES.into_iter().filter_map(set).collect()
    }

    /// Returns the number of the signal that ended the session, if one did.
    pub(crate) fn ended_by(&self) -> Option<i32> {
        lock(&self.shared.ended_by).map(|signal| signal.as_raw_value())
    }

    /// Waits for a signal to end that comes before the command has started, and returns its number.
    pub(crate) async fn wait_for_early_end(&self) -> i32 {
        let mut has_started = self.shared.has_started.subscribe();
        let early = async {
            let mut signals = self.shared.signals.lock().await;
            loop {
                if let Some(kind) = signals.next_signal().await {
                    return kind.as_raw_value();
                }
            }
        };
        tokio::select! {
            _ = has_started.wait_for(|has_started| *has_started) => std::future::pending().await,
            number = early => number,
        }
    }

    /// Returns a guard that gives the terminal back to its user when it is dropped, however the work ends.
    pub(crate) fn restore_on_drop(&self) -> TerminalRestorer {
        TerminalRestorer(self.clone())
    }
}

/// Gives the terminal back to its user when it is dropped.
pub(crate) struct TerminalRestorer(UserTerminal);

impl Drop for TerminalRestorer {
    fn drop(&mut self) {
        self.0.disconnect();
    }
}

impl TerminalSignals {
    fn watch(ends: EndSignals) -> std::io::Result<Self> {
        let kinds: &[SignalKind] = match ends {
            EndSignals::HangUp => &[
                SignalKind::hangup(),
                SignalKind::terminate(),
                SignalKind::interrupt(),
                SignalKind::quit(),
            ],
            EndSignals::NotHere => &[],
        };
        let watched = kinds.iter().map(|kind| Ok((*kind, signal(*kind)?)));
        Ok(Self {
            resized: signal(SignalKind::window_change())?,
            ends: watched.collect::<std::io::Result<_>>()?,
        })
    }

    /// Waits for a signal; `None` for another size.
    async fn next_signal(&mut self) -> Option<SignalKind> {
        let ends = self.ends.iter_mut();
        let ended = ends.map(|(kind, signal)| Box::pin(async move { signal.recv().await.map(|()| *kind) }));
        let ended = async {
            match ended.collect::<Vec<_>>() {
                none if none.is_empty() => std::future::pending().await,
                some => select_first(some).await,
            }
        };
        tokio::select! {
            _ = self.resized.recv() => None,
            kind = ended => kind,
        }
    }
}

/// Waits for the first of several futures.
async fn select_first<T>(mut futures: Vec<std::pin::Pin<Box<impl Future<Output = T>>>>) -> T {
    std::future::poll_fn(|context| {
        let done = futures
            .iter_mut()
            .find_map(|future| match future.as_mut().poll(context) {
                std::task::Poll::Ready(done) => Some(done),
                std::task::Poll::Pending => None,
            });
        done.map_or(std::task::Poll::Pending, std::task::Poll::Ready)
    })
    .await
}

#[async_trait]
impl InputSource for UserTerminal {
    async fn next_piece(&self) -> Option<Bytes> {
        self.shared.keys.lock().await.recv().await
    }
}

#[async_trait]
impl TerminalSource for UserTerminal {
    fn size(&self) -> TerminalSize {
        let size = tcgetwinsize(&self.shared.input).ok();
        // A terminal that does not know its size has none.
        size.filter(|size| size.ws_row > 0 && size.ws_col > 0)
            .map_or_else(TerminalSize::default, |size| TerminalSize {
                rows: size.ws_row,
                columns: size.ws_col,
            })
    }

    fn connect(&self) {
        progress::stop_general_line();
        // Without a session, the command gets no keys; it can still be ended from outside.
        *lock(&self.shared.session) = lock(&self.shared.sender)
            .take()
            .and_then(|sender| KeySession::begin(&self.shared.input, sender).ok());
        self.shared.has_started.send_replace(true);
    }

    fn disconnect(&self) {
        if let Some(session) = lock(&self.shared.session).take() {
            session.end(&self.shared.input);
        }
    }

    async fn next_event(&self) -> TerminalEvent {
        match self.shared.signals.lock().await.next_signal().await {
            None => TerminalEvent::Resized(self.size()),
            ended => {
                *lock(&self.shared.ended_by) = ended;
                TerminalEvent::HungUp
            }
        }
    }
}

impl KeySession {
    /// Makes the terminal pass every key on, and reads its keys on a thread of its own.
    fn begin(input: &OwnedFd, sender: UnboundedSender<Bytes>) -> std::io::Result<Self> {
        let before = tcgetattr(input)?;
        let (stopped, stop) = std::io::pipe()?;
        let source = input.try_clone()?;
        let reader = std::thread::Builder::new().spawn(move || read_keys(&source, &stopped, &sender))?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(input, OptionalActions::Now, &raw)?;
        Ok(Self { before, reader, stop })
    }

    /// Gives the terminal back, as it was.
    fn end(self, input: &OwnedFd) {
        drop(self.stop);
        // Nobody else reads the terminal from here on.
        let _ = self.reader.join();
        discard_answers(input);
        // What arrives until this very moment is thrown away, too.
        let _ = tcsetattr(input, OptionalActions::Flush, &self.before);
    }
}

/// Reads keys until the terminal ends or `stopped` does.
fn read_keys(input: &OwnedFd, stopped: &PipeReader, sender: &UnboundedSender<Bytes>) {
    loop {
        let mut watched = [PollFd::new(input, PollFlags::IN), PollFd::new(stopped, PollFlags::IN)];
        match poll(&mut watched, None) {
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(_) => return,
        }
        if !watched[1].revents().is_empty() {
            return;
        }
        let mut piece = vec![0; 4096];
        match rustix::io::read(input, &mut piece) {
            Ok(count) if count > 0 => {
                piece.truncate(count);
                if sender.send(piece.into()).is_err() {
                    return;
                }
            }
            Err(Errno::INTR | Errno::AGAIN) => {}
            _ => return,
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Resets the modes of the terminal, and reads what it answers to questions that the command printed.
fn discard_answers(input: &OwnedFd) {
    let is_answering = std::io::stdout().is_terminal() && std::env::var("TERM").is_ok_and(|kind| kind != "dumb");
    if is_answering {
        // A terminal that is gone needs no reset.
        let _ = write_all(std::io::stdout().lock(), &[RESET, QUESTION]);
    }
    let mut wait = if is_answering { ANSWER_WAIT } else { SILENCE };
    let mut heard = Vec::new();
    for _ in 0..MOST_READS {
        let mut piece = [0; 4096];
        if !is_readable(input, &wait) {
            return;
        }
        match rustix::io::read(input, &mut piece) {
            Ok(count) if count > 0 => heard.extend_from_slice(&piece[..count]),
            _ => return,
        }
        // The command may have asked the same question, so other answers may follow.
        if heard.windows(ANSWER.len()).any(|window| window == ANSWER) {
            wait = SILENCE;
        }
    }
}

/// Whether the terminal has something to read within `wait`.
fn is_readable(input: &OwnedFd, wait: &Timespec) -> bool {
    let mut watched = [PollFd::new(input, PollFlags::IN)];
    poll(&mut watched, Some(wait)).is_ok_and(|ready| ready > 0)
}
