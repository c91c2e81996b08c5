//! Garret's ends of the channels to a supervisor: one for frames, and one for sockets.
//!
//! A thread reads the frames and passes each to the task that waits for it. No queue grows without bound: a command
//! sends only as much output as it has credit for. The thread also checks time limits: if the supervisor does not end a
//! command in time, the whole sandbox is ended.

#![cfg(target_os = "linux")]
#![allow(
    clippy::disallowed_methods,
    reason = "this file starts the supervisor, and watches its time limits from outside"
)]

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use bytes::Bytes;
use garret_core::{Chunk, CommandExit, Error, ErrorKind, OutputStream, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::sync::{Semaphore, mpsc, oneshot, watch};

use super::SupervisorProgram;
use super::plan::SandboxPlan;
use crate::supervisor::descriptor_passing::DescriptorReceiver;
use crate::supervisor::protocol::{
    CREDIT, DATA, FrameDecoder, OpenedReport, ProtocolFrame, RequestOutcome, SocketFamily, StepFailure,
    SupervisorAnswer, SupervisorRequest, encode_bytes, encode_message,
};

/// The time after a time limit within which the supervisor must end a command.
const GRACE: Duration = Duration::from_secs(3);

/// The answer to a request.
pub(super) type RequestReply = oneshot::Receiver<std::result::Result<RequestOutcome, StepFailure>>;

/// An open channel to a supervisor. Dropping it ends the sandbox.
#[derive(Debug)]
pub(super) struct SupervisorConnection {
    shared: Arc<ConnectionShared>,
    /// The channel over which the supervisor passes sockets; locked from a request for one until it was received.
    sockets: tokio::sync::Mutex<UnixStream>,
    next: AtomicU64,
    ended: watch::Receiver<bool>,
}

#[derive(Debug)]
struct ConnectionShared {
    writer: Mutex<UnixStream>,
    state: Mutex<ConnectionState>,
}

#[derive(Debug, Default)]
struct ConnectionState {
    is_over: bool,
    opening: Option<oneshot::Sender<std::result::Result<OpenedReport, StepFailure>>>,
    requests: HashMap<u64, oneshot::Sender<std::result::Result<RequestOutcome, StepFailure>>>,
    processes: HashMap<u64, ProcessSink>,
}

/// The receiving end of a process's output and exit, in the reading thread.
#[derive(Debug)]
struct ProcessSink {
    output: Option<mpsc::UnboundedSender<Chunk>>,
    exit: Option<oneshot::Sender<CommandExit>>,
    room: Arc<Semaphore>,
    /// The input that was given with the command and still has to be sent.
    input: Option<Bytes>,
    deadline: Option<Instant>,
}

/// The output and the exit of a process, and the room for its input.
#[derive(Debug)]
pub(super) struct ProcessSource {
    pub(super) output: mpsc::UnboundedReceiver<Chunk>,
    pub(super) exit: oneshot::Receiver<CommandExit>,
    pub(super) room: Arc<Semaphore>,
}

/// The input of a new process, and its time limit.
#[derive(Debug, Default)]
pub(super) struct ExpectedProcess {
    pub(super) input: Option<Bytes>,
    pub(super) wall: Option<Duration>,
}

impl SupervisorConnection {
    /// Starts a supervisor and sends it the plan. It gets an empty environment and no descriptor but the channels.
    pub(super) async fn open_supervisor(
        program: &SupervisorProgram,
        plan: SandboxPlan,
    ) -> Result<(Self, std::result::Result<OpenedReport, StepFailure>)> {
        let (channel, other) = UnixStream::pair().map_err(|_| supervisor_not_started_error())?;
        let (sockets, other_sockets) = UnixStream::pair().map_err(|_| supervisor_not_started_error())?;
        // A socket is in the channel before the answer that announces it, so there is nothing to wait for.
        sockets
            .set_nonblocking(true)
            .map_err(|_| supervisor_not_started_error())?;
        let child = Command::new(&program.path)
            // Commands can read the command line of this process, which must not show a path of the host.
            .arg0("garret-supervisor")
            .args(&program.arguments)
            // In a process group of its own, so that Ctrl-C in a terminal reaches only Garret, which decides.
            .process_group(0)
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::from(OwnedFd::from(other)))
            .stdout(Stdio::from(OwnedFd::from(other_sockets)))
            .stderr(Stdio::null())
            .spawn()
            .map_err(|_| supervisor_not_started_error())?;
        let (opening, opened) = oneshot::channel();
        let (over, ended) = watch::channel(false);
        let shared = Arc::new(ConnectionShared {
            writer: Mutex::new(channel.try_clone().map_err(|_| supervisor_not_started_error())?),
            state: Mutex::new(ConnectionState {
                opening: Some(opening),
                ..ConnectionState::default()
            }),
        });
        let reader = ConnectionReader {
            shared: Arc::clone(&shared),
            channel,
            child,
            over,
        };
        std::thread::Builder::new()
            .name("garret-sandbox".to_owned())
            .spawn(move || reader.read_to_end())
            .map_err(|_| supervisor_not_started_error())?;
        let connection = Self {
            shared,
            sockets: tokio::sync::Mutex::new(sockets),
            next: AtomicU64::new(1),
            ended,
        };
        connection.send_message(&SupervisorRequest::Open(Box::new(plan)))?;
        let opened = opened.await.unwrap_or_else(|_| Err(supervisor_ended_failure()));
        Ok((connection, opened))
    }

    /// Returns a new number for a request or a process.
    pub(super) fn new_number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns whether the sandbox has ended.
    pub(super) fn is_over(&self) -> bool {
        self.shared.lock_state().is_over
    }

    /// Sends a message that has no answer.
    pub(super) fn send_message(&self, ask: &SupervisorRequest) -> Result<()> {
        let mut out = Vec::new();
        encode_message(ask, &mut out);
        self.shared.write_bytes(&out)
    }

    /// Sends a request; returns its number, and the reply, which comes later.
    pub(super) fn send_request(&self, make: impl FnOnce(u64) -> SupervisorRequest) -> Result<(u64, RequestReply)> {
        let (request, reply) = self.register_request()?;
        self.send_message(&make(request))?;
        Ok((request, reply))
    }

    /// Registers a request that is about to be sent; returns its number and the reply.
    pub(super) fn register_request(&self) -> Result<(u64, RequestReply)> {
        let request = self.new_number();
        let (sender, reply) = oneshot::channel();
        let mut state = self.shared.lock_state();
        if state.is_over {
            return Err(sandbox_ended_error());
        }
        state.requests.insert(request, sender);
        Ok((request, reply))
    }

    /// Returns a new TCP socket in the network of the sandbox. It is neither bound nor connected, and never blocks.
    pub(super) async fn make_socket(&self, family: SocketFamily) -> Result<OwnedFd> {
        let sockets = self.sockets.lock().await;
        let (request, reply) = self.send_request(|request| SupervisorRequest::MakeSocket { request, family })?;
        reply
            .await
            .map_err(|_| sandbox_ended_error())?
            .map_err(|failure| socket_not_made_error(&failure.reason()))?;
        loop {
            let mut receiver = DescriptorReceiver::new(&sockets);
            let mut number = [0; 8];
            receiver
                .read_exact(&mut number)
                .map_err(|_| socket_not_made_error("it was not passed on"))?;
            // One with another number is the rest of a request whose caller no longer waited.
            if u64::from_le_bytes(number) == request {
                let socket = receiver.descriptors.pop();
                return socket.ok_or_else(|| socket_not_made_error("it was not passed on"));
            }
        }
    }

    /// Sends bytes under the number of a process or request.
    pub(super) fn send_bytes(&self, id: u64, stream: u8, bytes: &[u8]) -> Result<()> {
        let mut out = Vec::new();
        for part in bytes.chunks(DATA) {
            encode_bytes(id, stream, part, &mut out);
        }
        self.shared.write_bytes(&out)
    }

    /// Registers a process before it is started, so that none of its output is missed.
    pub(super) fn register_process(&self, process: u64, expected: ExpectedProcess) -> ProcessSource {
        let (output_sender, output) = mpsc::unbounded_channel();
        let (exit_sender, exit) = oneshot::channel();
        let room = Arc::new(Semaphore::new(CREDIT as usize));
        let deadline = expected.wall.map(|wall| Instant::now() + wall + GRACE);
        let sink = ProcessSink {
            output: Some(output_sender),
            exit: Some(exit_sender),
            room: Arc::clone(&room),
            input: expected.input,
            deadline,
        };
        self.shared.lock_state().processes.insert(process, sink);
        ProcessSource { output, exit, room }
    }

    /// Sends the first part of the input that was given with a process.
    pub(super) fn feed_input(&self, process: u64) -> Result<()> {
        self.shared.feed_input(process, CREDIT)
    }

    /// Forgets a process that was not started.
    pub(super) fn forget_process(&self, process: u64) {
        self.shared.lock_state().processes.remove(&process);
    }

    /// Ends the sandbox and waits until none of its processes is left.
    pub(super) async fn close(&self) {
        self.shut_down();
        let mut ended = self.ended.clone();
        let _ = ended.wait_for(|over| *over).await;
    }

    fn shut_down(&self) {
        let _ = self.shared.lock_writer().shutdown(Shutdown::Both);
    }
}

impl Drop for SupervisorConnection {
    fn drop(&mut self) {
        self.shut_down();
    }
}

impl ConnectionShared {
    fn lock_state(&self) -> MutexGuard<'_, ConnectionState> {
        self.state.lock().expect("nobody panics while holding the state")
    }

    fn lock_writer(&self) -> MutexGuard<'_, UnixStream> {
        self.writer.lock().expect("nobody panics while writing")
    }

    fn write_bytes(&self, bytes: &[u8]) -> Result<()> {
        self.lock_writer().write_all(bytes).map_err(|_| sandbox_ended_error())
    }

    /// Sends as much of a process's given input as there is room for, and the end of the input after the last part.
    fn feed_input(&self, process: u64, room: u64) -> Result<()> {
        // Encoded under the lock on the state, and written after it: a write may block, and the reading thread needs
        // the state.
        let mut out = Vec::new();
        if let Some(sink) = self.lock_state().processes.get_mut(&process)
            && let Some(input) = &mut sink.input
        {
            let part = input.split_to(input.len().min(usize::try_from(room).unwrap_or(DATA)));
            for piece in part.chunks(DATA) {
                encode_bytes(process, 0, piece, &mut out);
            }
            if input.is_empty() {
                sink.input = None;
                encode_message(&SupervisorRequest::CloseInput { process }, &mut out);
            }
        }
        if out.is_empty() {
            return Ok(());
        }
        self.write_bytes(&out)
    }

    /// Returns whether the supervisor has not ended some command in time.
    fn is_late(&self) -> bool {
        let now = Instant::now();
        let state = self.lock_state();
        state
            .processes
            .values()
            .any(|sink| sink.deadline.is_some_and(|deadline| deadline < now))
    }
}

/// The reading thread of a connection.
struct ConnectionReader {
    shared: Arc<ConnectionShared>,
    channel: UnixStream,
    child: Child,
    over: watch::Sender<bool>,
}

impl ConnectionReader {
    fn read_to_end(mut self) {
        let mut decoder = FrameDecoder::default();
        while self.read_once(&mut decoder).is_ok() {}
        let _ = self.channel.shutdown(Shutdown::Both);
        // Dropping the senders wakes every task that waits for a reply, an output or an exit.
        *self.shared.lock_state() = ConnectionState {
            is_over: true,
            ..ConnectionState::default()
        };
        let _ = self.child.wait();
        let _ = self.over.send(true);
    }

    fn read_once(&mut self, decoder: &mut FrameDecoder) -> std::io::Result<()> {
        let second = Timespec { tv_sec: 1, tv_nsec: 0 };
        let mut watched = [PollFd::new(&self.channel, PollFlags::IN)];
        let ready = poll(&mut watched, Some(&second)).unwrap_or(0);
        if ready > 0 {
            if decoder.read_more(&mut self.channel)? == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            while let Some(frame) = decoder.next_frame()? {
                self.handle_frame(frame);
            }
        }
        if self.shared.is_late() {
            // The supervisor does not respond. Ending its outermost process ends the sandbox.
            let _ = self.child.kill();
        }
        Ok(())
    }

    fn handle_frame(&self, frame: ProtocolFrame<SupervisorAnswer>) {
        match frame {
            ProtocolFrame::Bytes { id, stream, bytes } => self.handle_output(id, stream, bytes),
            ProtocolFrame::Message(answer) => self.handle_answer(answer),
        }
    }

    fn handle_output(&self, process: u64, stream: u8, bytes: Vec<u8>) {
        let stream = if stream == 2 {
            OutputStream::Stderr
        } else {
            OutputStream::Stdout
        };
        let chunk = Chunk {
            stream,
            bytes: bytes.into(),
        };
        if let Some(output) = self
            .shared
            .lock_state()
            .processes
            .get(&process)
            .and_then(|sink| sink.output.as_ref())
        {
            // If the receiver is gone, the process was dropped, which ends it.
            let _ = output.send(chunk);
        }
    }

    fn handle_answer(&self, answer: SupervisorAnswer) {
        match answer {
            SupervisorAnswer::Opened(opened) => {
                if let Some(sender) = self.shared.lock_state().opening.take() {
                    let _ = sender.send(opened);
                }
            }
            SupervisorAnswer::Answered { request, outcome } => {
                if let Some(sender) = self.shared.lock_state().requests.remove(&request) {
                    let _ = sender.send(outcome);
                }
            }
            SupervisorAnswer::Room { process, bytes } => self.handle_room(process, bytes),
            SupervisorAnswer::OutputEnded { process } => {
                if let Some(sink) = self.shared.lock_state().processes.get_mut(&process) {
                    sink.output = None;
                }
                self.forget_if_done(process);
            }
            SupervisorAnswer::Ended { process, exit } => {
                if let Some(sink) = self.shared.lock_state().processes.get_mut(&process) {
                    sink.room.close();
                    sink.deadline = None;
                    let _ = sink.exit.take().map(|sender| sender.send(exit));
                }
                self.forget_if_done(process);
            }
        }
    }

    fn handle_room(&self, process: u64, bytes: u64) {
        let room = {
            let state = self.shared.lock_state();
            state
                .processes
                .get(&process)
                .map(|sink| (Arc::clone(&sink.room), sink.input.is_some()))
        };
        match room {
            Some((_, true)) => drop(self.shared.feed_input(process, bytes)),
            Some((room, false)) => room.add_permits(usize::try_from(bytes).unwrap_or(0)),
            None => {}
        }
    }

    /// Forgets a process whose output and exit have both arrived.
    fn forget_if_done(&self, process: u64) {
        let mut state = self.shared.lock_state();
        let is_done = state
            .processes
            .get(&process)
            .is_some_and(|sink| sink.output.is_none() && sink.exit.is_none());
        if is_done {
            state.processes.remove(&process);
        }
    }
}

/// Returns the error for a sandbox that has ended.
pub(super) fn sandbox_ended_error() -> Error {
    Error::new(ErrorKind::Unavailable, "the sandbox has ended")
        .hint("open the workspace again, and run the command once more")
}

fn socket_not_made_error(reason: &str) -> Error {
    Error::new(
        ErrorKind::Unavailable,
        format!("no socket could be made in the network of the sandbox: {reason}"),
    )
    .hint("close connections that are no longer needed, and try again")
}

fn supervisor_ended_failure() -> StepFailure {
    StepFailure {
        step: "starting".to_owned(),
        errno: 0,
    }
}

fn supervisor_not_started_error() -> Error {
    Error::new(
        ErrorKind::Unsupported,
        "the supervisor of the sandbox cannot be started",
    )
    .hint("install `garret-supervisor` beside the program, or name it in the options of the sandbox")
}
