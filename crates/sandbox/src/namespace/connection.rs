//! Garret's end of the channel to a supervisor.
//!
//! A thread reads what comes and hands it to whoever waits. Nothing is queued without bound: a command sends only as much output as was
//! asked for. The thread also looks at the clock: where the supervisor does not end a command in time, the whole sandbox is ended.

#![cfg(target_os = "linux")]
#![allow(
    clippy::disallowed_methods,
    reason = "this file starts the supervisor, and watches its time limits from outside"
)]

use std::collections::HashMap;
use std::io::Write;
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use bytes::Bytes;
use garret_core::{Chunk, Error, ErrorKind, Result, Stream};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::sync::{Semaphore, mpsc, oneshot, watch};

use super::SupervisorProgram;
use super::plan::SandboxPlan;
use crate::supervisor::protocol::{
    Answer, Ask, CREDIT, DATA, Decoder, EndedExit, Failure, Frame, Opened, encode_bytes, encode_message,
};

/// How long after a time limit the supervisor may take to end a command.
const GRACE: Duration = Duration::from_secs(3);

/// The answer to a request.
pub(super) type Reply = oneshot::Receiver<std::result::Result<Done, Failure>>;

/// How a request was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Done {
    /// As it was asked.
    Whole,
    /// The layer was left where it is.
    Stays,
    /// The processes of the layer stand still; so many commands were ended because they did not in time.
    Paused { ended: u64 },
}

/// An open channel. Dropping it ends the sandbox.
#[derive(Debug)]
pub(super) struct Connection {
    shared: Arc<Shared>,
    next: AtomicU64,
    ended: watch::Receiver<bool>,
}

#[derive(Debug)]
struct Shared {
    writer: Mutex<UnixStream>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    is_over: bool,
    opening: Option<oneshot::Sender<std::result::Result<Opened, Failure>>>,
    requests: HashMap<u64, oneshot::Sender<std::result::Result<Done, Failure>>>,
    processes: HashMap<u64, Sink>,
}

/// Where what comes from a process goes.
#[derive(Debug)]
struct Sink {
    output: Option<mpsc::UnboundedSender<Chunk>>,
    exit: Option<oneshot::Sender<EndedExit>>,
    room: Arc<Semaphore>,
    /// Input that was given with the command and still has to be sent.
    input: Option<Bytes>,
    deadline: Option<Instant>,
}

/// Everything that comes from a process.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) output: mpsc::UnboundedReceiver<Chunk>,
    pub(super) exit: oneshot::Receiver<EndedExit>,
    pub(super) room: Arc<Semaphore>,
}

/// What a new process reads, and how long it may run.
#[derive(Debug, Default)]
pub(super) struct Expected {
    pub(super) input: Option<Bytes>,
    pub(super) wall: Option<Duration>,
}

impl Connection {
    /// Starts a supervisor and tells it what to make. It gets an empty environment and no descriptor but the channel.
    pub(super) async fn open(
        program: &SupervisorProgram,
        plan: SandboxPlan,
    ) -> Result<(Self, std::result::Result<Opened, Failure>)> {
        let (channel, other) = UnixStream::pair().map_err(|_| not_started())?;
        let child = Command::new(&program.path)
            // Commands see how the process was started that they descend from, and nothing of where programs are.
            .arg0("garret-supervisor")
            .args(&program.arguments)
            // A key that is pressed to end Garret is Garret's to answer.
            .process_group(0)
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::from(OwnedFd::from(other)))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|_| not_started())?;
        let (opening, opened) = oneshot::channel();
        let (over, ended) = watch::channel(false);
        let shared = Arc::new(Shared {
            writer: Mutex::new(channel.try_clone().map_err(|_| not_started())?),
            state: Mutex::new(State {
                opening: Some(opening),
                ..State::default()
            }),
        });
        let reader = Reader {
            shared: Arc::clone(&shared),
            channel,
            child,
            over,
        };
        std::thread::Builder::new()
            .name("garret-sandbox".to_owned())
            .spawn(move || reader.run())
            .map_err(|_| not_started())?;
        let connection = Self {
            shared,
            next: AtomicU64::new(1),
            ended,
        };
        connection.send(&Ask::Open(Box::new(plan)))?;
        let opened = opened.await.unwrap_or_else(|_| Err(vanished()));
        Ok((connection, opened))
    }

    /// A new number.
    pub(super) fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Whether the sandbox has ended.
    pub(super) fn is_over(&self) -> bool {
        self.shared.state().is_over
    }

    /// Sends a message that has no answer.
    pub(super) fn send(&self, ask: &Ask) -> Result<()> {
        let mut out = Vec::new();
        encode_message(ask, &mut out);
        self.shared.write(&out)
    }

    /// Sends a message; the answer comes later.
    pub(super) fn ask(&self, make: impl FnOnce(u64) -> Ask) -> Result<(u64, Reply)> {
        let (request, reply) = self.announce()?;
        self.send(&make(request))?;
        Ok((request, reply))
    }

    /// The number of a request that is about to be sent, and what will be answered.
    pub(super) fn announce(&self) -> Result<(u64, Reply)> {
        let request = self.number();
        let (sender, reply) = oneshot::channel();
        let mut state = self.shared.state();
        if state.is_over {
            return Err(ended());
        }
        state.requests.insert(request, sender);
        Ok((request, reply))
    }

    /// Sends bytes under a number.
    pub(super) fn send_bytes(&self, id: u64, stream: u8, bytes: &[u8]) -> Result<()> {
        let mut out = Vec::new();
        for part in bytes.chunks(DATA) {
            encode_bytes(id, stream, part, &mut out);
        }
        self.shared.write(&out)
    }

    /// Announces a process, before it is asked for, so that nothing of it is missed.
    pub(super) fn expect(&self, process: u64, expected: Expected) -> Source {
        let (output_sender, output) = mpsc::unbounded_channel();
        let (exit_sender, exit) = oneshot::channel();
        let room = Arc::new(Semaphore::new(CREDIT as usize));
        let deadline = expected.wall.map(|wall| Instant::now() + wall + GRACE);
        let sink = Sink {
            output: Some(output_sender),
            exit: Some(exit_sender),
            room: Arc::clone(&room),
            input: expected.input,
            deadline,
        };
        self.shared.state().processes.insert(process, sink);
        Source { output, exit, room }
    }

    /// Sends the first of what a process was given to read.
    pub(super) fn feed(&self, process: u64) -> Result<()> {
        self.shared.feed(process, CREDIT)
    }

    /// Forgets a process that was not started.
    pub(super) fn forget(&self, process: u64) {
        self.shared.state().processes.remove(&process);
    }

    /// Ends the sandbox and waits until nothing of it is left.
    pub(super) async fn close(&self) {
        self.shut();
        let mut ended = self.ended.clone();
        let _ = ended.wait_for(|over| *over).await;
    }

    fn shut(&self) {
        let _ = self.shared.writer().shutdown(Shutdown::Both);
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.shut();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nobody panics while holding the state")
    }

    fn writer(&self) -> MutexGuard<'_, UnixStream> {
        self.writer.lock().expect("nobody panics while writing")
    }

    fn write(&self, bytes: &[u8]) -> Result<()> {
        self.writer().write_all(bytes).map_err(|_| ended())
    }

    /// Sends as much of a process's given input as there is room for, and its end after the last of it.
    fn feed(&self, process: u64, room: u64) -> Result<()> {
        let mut out = Vec::new();
        if let Some(sink) = self.state().processes.get_mut(&process)
            && let Some(input) = &mut sink.input
        {
            let part = input.split_to(input.len().min(usize::try_from(room).unwrap_or(DATA)));
            for piece in part.chunks(DATA) {
                encode_bytes(process, 0, piece, &mut out);
            }
            if input.is_empty() {
                sink.input = None;
                encode_message(&Ask::CloseInput { process }, &mut out);
            }
        }
        if out.is_empty() {
            return Ok(());
        }
        self.write(&out)
    }

    /// Whether some command is past its time by more than the supervisor may take.
    fn is_late(&self) -> bool {
        let now = Instant::now();
        let state = self.state();
        state
            .processes
            .values()
            .any(|sink| sink.deadline.is_some_and(|deadline| deadline < now))
    }
}

/// What the thread has.
struct Reader {
    shared: Arc<Shared>,
    channel: UnixStream,
    child: Child,
    over: watch::Sender<bool>,
}

impl Reader {
    fn run(mut self) {
        let mut decoder = Decoder::default();
        while self.turn(&mut decoder).is_ok() {}
        let _ = self.channel.shutdown(Shutdown::Both);
        *self.shared.state() = State {
            is_over: true,
            ..State::default()
        };
        let _ = self.child.wait();
        let _ = self.over.send(true);
    }

    fn turn(&mut self, decoder: &mut Decoder) -> std::io::Result<()> {
        let second = Timespec { tv_sec: 1, tv_nsec: 0 };
        let mut watched = [PollFd::new(&self.channel, PollFlags::IN)];
        let ready = poll(&mut watched, Some(&second)).unwrap_or(0);
        if ready > 0 {
            if decoder.fill(&mut self.channel)? == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            while let Some(frame) = decoder.next()? {
                self.take(frame);
            }
        }
        if self.shared.is_late() {
            // The supervisor does not answer: ending it ends everything inside.
            let _ = self.child.kill();
        }
        Ok(())
    }

    fn take(&self, frame: Frame<Answer>) {
        match frame {
            Frame::Bytes { id, stream, bytes } => self.take_output(id, stream, bytes),
            Frame::Message(answer) => self.take_answer(answer),
        }
    }

    fn take_output(&self, process: u64, stream: u8, bytes: Vec<u8>) {
        let stream = if stream == 2 { Stream::Stderr } else { Stream::Stdout };
        let chunk = Chunk {
            stream,
            bytes: bytes.into(),
        };
        if let Some(output) = self
            .shared
            .state()
            .processes
            .get(&process)
            .and_then(|sink| sink.output.as_ref())
        {
            // Who does not listen any more has dropped the process, which ends it.
            let _ = output.send(chunk);
        }
    }

    fn take_answer(&self, answer: Answer) {
        match answer {
            Answer::Opened(opened) => self.take_opening(Ok(opened)),
            Answer::Failed { request: 0, failure } => self.take_opening(Err(failure)),
            Answer::Done { request } => self.settle(request, Ok(Done::Whole)),
            Answer::Stays { request } => self.settle(request, Ok(Done::Stays)),
            Answer::Paused { request, ended } => self.settle(request, Ok(Done::Paused { ended })),
            Answer::Failed { request, failure } => self.settle(request, Err(failure)),
            Answer::Room { process, bytes } => self.take_room(process, bytes),
            Answer::OutputEnded { process } => {
                if let Some(sink) = self.shared.state().processes.get_mut(&process) {
                    sink.output = None;
                }
                self.tidy(process);
            }
            Answer::Ended { process, exit } => {
                if let Some(sink) = self.shared.state().processes.get_mut(&process) {
                    sink.room.close();
                    sink.deadline = None;
                    let _ = sink.exit.take().map(|sender| sender.send(exit));
                }
                self.tidy(process);
            }
        }
    }

    fn take_opening(&self, opened: std::result::Result<Opened, Failure>) {
        if let Some(sender) = self.shared.state().opening.take() {
            let _ = sender.send(opened);
        }
    }

    fn settle(&self, request: u64, result: std::result::Result<Done, Failure>) {
        if let Some(sender) = self.shared.state().requests.remove(&request) {
            let _ = sender.send(result);
        }
    }

    fn take_room(&self, process: u64, bytes: u64) {
        let room = {
            let state = self.shared.state();
            state
                .processes
                .get(&process)
                .map(|sink| (Arc::clone(&sink.room), sink.input.is_some()))
        };
        match room {
            Some((_, true)) => drop(self.shared.feed(process, bytes)),
            Some((room, false)) => room.add_permits(usize::try_from(bytes).unwrap_or(0)),
            None => {}
        }
    }

    /// Forgets a process of which nothing more comes.
    fn tidy(&self, process: u64) {
        let mut state = self.shared.state();
        let is_done = state
            .processes
            .get(&process)
            .is_some_and(|sink| sink.output.is_none() && sink.exit.is_none());
        if is_done {
            state.processes.remove(&process);
        }
    }
}

/// The sandbox is not there any more.
pub(super) fn ended() -> Error {
    Error::new(ErrorKind::Unavailable, "the sandbox has ended")
        .hint("open the workspace again, and run the command once more")
}

fn vanished() -> Failure {
    Failure {
        step: "starting".to_owned(),
        errno: 0,
    }
}

fn not_started() -> Error {
    Error::new(
        ErrorKind::Unsupported,
        "the supervisor of the sandbox cannot be started",
    )
    .hint("install `garret-supervisor` beside the program, or name it in the options of the sandbox")
}
