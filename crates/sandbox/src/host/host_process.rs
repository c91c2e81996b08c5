//! A command on the host, with its streams and its end.

#![cfg(target_os = "linux")]

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{ChildStdin, Command as Spawning, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use garret_core::path::quote;
use garret_core::{
    Chunk, CommandExit, CommandProgram, CommandStdin, Error, ErrorKind, ExitCause, InputStream, OutputStream, Process,
    ResourceLimit, Result, SandboxCommand, Signal,
};
use garret_handles::run_blocking;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::sync::mpsc;

use super::minder::{self, CommandUnderMinder, MinderReport};
use super::process_tree::ProcessTree;
use crate::supervisor::protocol::SpawnLimits;

const CHUNK_BYTES: usize = 64 * 1024;
/// The number of chunks that wait for a reader before the command is blocked.
const CHUNKS: usize = 4;
/// The most bytes that a pipe holds, and so the most output that is unread at the end of a command.
const MOST_IN_A_PIPE: usize = 1024 * 1024;

/// A command to start, its directory and its limits.
pub(super) struct HostCommand {
    pub(super) command: SandboxCommand,
    pub(super) directory: PathBuf,
    pub(super) limits: SpawnLimits,
}

/// A command that was started.
pub(super) struct StartedHostCommand {
    minded: CommandUnderMinder,
    pid: i32,
    stdin: Option<ChildStdin>,
    at: Instant,
    starting: HostCommand,
}

/// Starts a command; blocks until its minder has forked it.
pub(super) fn spawn_command(starting: HostCommand, lock: &OwnedFd) -> Result<StartedHostCommand> {
    let command = &starting.command;
    if command.terminal.is_some() {
        return Err(terminal_unsupported_error());
    }
    let arguments = match &command.program {
        CommandProgram::Arguments(arguments) => arguments.clone(),
        CommandProgram::Shell(text) => vec![find_shell().to_owned(), "-c".to_owned(), text.clone()],
    };
    let [program, rest @ ..] = arguments.as_slice() else {
        return Err(Error::invalid("no program is given").hint("give a program, or a shell command line"));
    };
    let stdin = || match command.stdin {
        CommandStdin::Closed => Stdio::null(),
        CommandStdin::Bytes(_) | CommandStdin::Piped | CommandStdin::Stream(_) => Stdio::piped(),
    };
    let mut spawning = Spawning::new(program);
    spawning
        .args(rest)
        .env_clear()
        .envs(&command.env)
        .current_dir(&starting.directory);
    spawning.stdin(stdin()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut minded = minder::spawn_minded(spawning, starting.limits.clone(), lock)
        .map_err(|error| not_started_error(program, &error))?;
    let mut pid = [0; 4];
    let mut status = File::from(minded.status);
    status
        .read_exact(&mut pid)
        .map_err(|error| not_started_error(program, &error))?;
    minded.status = status.into();
    Ok(StartedHostCommand {
        stdin: minded.child.stdin.take(),
        pid: i32::from_ne_bytes(pid),
        minded,
        at: Instant::now(),
        starting,
    })
}

fn terminal_unsupported_error() -> Error {
    Error::new(
        ErrorKind::Unsupported,
        "the sandbox `host` runs no commands on a terminal",
    )
    .hint("use the sandbox `namespace`, or run the command without a terminal")
}

fn find_shell() -> &'static str {
    let shells = ["/bin/bash", "/usr/bin/bash"];
    let found = shells.into_iter().find(|shell| std::fs::metadata(shell).is_ok());
    found.unwrap_or("/bin/sh")
}

fn not_started_error(program: &str, error: &io::Error) -> Error {
    let (kind, why) = match error.kind() {
        io::ErrorKind::NotFound => (ErrorKind::NotFound, "program not found"),
        io::ErrorKind::PermissionDenied => (ErrorKind::Denied, "permission denied"),
        io::ErrorKind::InvalidInput => (ErrorKind::Invalid, "an argument has a NUL byte"),
        io::ErrorKind::ArgumentListTooLong => (ErrorKind::TooLarge, "its arguments are too long"),
        io::ErrorKind::WouldBlock | io::ErrorKind::OutOfMemory => {
            (ErrorKind::Unavailable, "the machine has no memory or processes left")
        }
        _ => (ErrorKind::Internal, "the system refused"),
    };
    let error = Error::new(kind, format!("{} could not be started: {why}", quote(program)));
    match kind {
        ErrorKind::NotFound => error.hint("check its name, and the PATH of its environment"),
        ErrorKind::Denied => error.hint("set its executable bit, or run it with its interpreter"),
        _ => error,
    }
}

/// A process on the host.
#[derive(Debug)]
pub(super) struct HostProcess {
    tree: Arc<ProcessTree>,
    chunks: mpsc::Receiver<Chunk>,
    exit: Arc<Mutex<Option<CommandExit>>>,
    stdin: Option<Arc<Mutex<Option<ChildStdin>>>>,
}

impl HostProcess {
    /// Begins to read the output of a started command; also returns its process tree, for the layer.
    pub(super) fn follow_started(mut started: StartedHostCommand) -> (Self, Arc<ProcessTree>) {
        let (stdout, stderr) = (started.minded.child.stdout.take(), started.minded.child.stderr.take());
        let CommandUnderMinder {
            child,
            lifeline,
            status,
        } = started.minded;
        let tree = Arc::new(ProcessTree::new(child, started.pid, lifeline));
        let (sender, chunks) = mpsc::channel(CHUNKS);
        let exit = Arc::new(Mutex::new(None));
        let pump = OutputPump {
            streams: [
                stdout.map(|stdout| File::from(OwnedFd::from(stdout))),
                stderr.map(|stderr| File::from(OwnedFd::from(stderr))),
            ],
            status: File::from(status),
            sender,
        };
        let (of_tree, of_exit) = (tree.clone(), exit.clone());
        std::thread::spawn(move || pump.pump_to_end(&of_tree, &of_exit, started.at));
        let HostCommand { command, limits, .. } = started.starting;
        if let Some(wall) = limits.wall_ms.map(Duration::from_millis) {
            tokio::spawn(end_after(wall, Arc::downgrade(&tree)));
        }
        let stdin = feed_input(command.stdin, started.stdin);
        let process = Self {
            tree: tree.clone(),
            chunks,
            exit,
            stdin,
        };
        (process, tree)
    }

    fn recorded_exit(&self) -> Option<CommandExit> {
        self.exit.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

async fn end_after(wall: Duration, tree: std::sync::Weak<ProcessTree>) {
    tokio::time::sleep(wall).await;
    if let Some(tree) = tree.upgrade() {
        tree.end_by_limit(ResourceLimit::Wall);
    }
}

/// Writes input that is known from the start, in a thread of its own; returns the pipe if input is written later.
fn feed_input(stdin: CommandStdin, pipe: Option<ChildStdin>) -> Option<Arc<Mutex<Option<ChildStdin>>>> {
    match (stdin, pipe) {
        (CommandStdin::Bytes(bytes), Some(mut pipe)) => {
            // A command that ends without reading all of its input is no error here.
            std::thread::spawn(move || drop(pipe.write_all(&bytes)));
            None
        }
        (CommandStdin::Stream(stream), Some(pipe)) => {
            tokio::spawn(feed_stream(stream, pipe));
            None
        }
        (CommandStdin::Piped, pipe) => Some(Arc::new(Mutex::new(pipe))),
        _ => None,
    }
}

/// Writes the pieces of `stream` until either side ends.
async fn feed_stream(stream: InputStream, mut pipe: ChildStdin) {
    while let Some(piece) = stream.next_piece().await {
        let written = run_blocking(move || {
            let written = pipe.write_all(&piece);
            // A command that ends without reading all of its input is no error here.
            Ok(written.ok().map(|()| pipe))
        });
        match written.await {
            Ok(Some(same)) => pipe = same,
            _ => return,
        }
    }
}

#[async_trait]
impl Process for HostProcess {
    async fn next_output(&mut self) -> Option<Chunk> {
        self.chunks.recv().await
    }

    async fn wait(&mut self) -> Result<CommandExit> {
        while self.chunks.recv().await.is_some() {}
        self.recorded_exit()
            .ok_or_else(|| Error::new(ErrorKind::Internal, "the exit status of a command is missing"))
    }

    async fn write_stdin(&mut self, bytes: Bytes) -> Result<()> {
        let Some(stdin) = self.stdin.clone() else {
            return Err(Error::invalid("the command was started without piped standard input")
                .hint("start it with piped input"));
        };
        run_blocking(move || {
            let mut stdin = stdin.lock().unwrap_or_else(PoisonError::into_inner);
            let closed = || {
                Error::new(ErrorKind::Unavailable, "the command has closed its standard input")
                    .hint("check its output and its exit code")
            };
            let pipe = stdin.as_mut().ok_or_else(closed)?;
            pipe.write_all(&bytes).and_then(|()| pipe.flush()).map_err(|_| closed())
        })
        .await
    }

    async fn close_stdin(&mut self) -> Result<()> {
        if let Some(stdin) = self.stdin.clone() {
            run_blocking(move || {
                drop(stdin.lock().unwrap_or_else(PoisonError::into_inner).take());
                Ok(())
            })
            .await?;
        }
        Ok(())
    }

    async fn send_signal(&mut self, signal: Signal) -> Result<()> {
        match signal {
            Signal::Interrupt => self.tree.signal_command(rustix::process::Signal::INT),
            Signal::Terminate => self.tree.signal_command(rustix::process::Signal::TERM),
            Signal::Kill => {
                self.tree.end_processes();
                let tree = self.tree.clone();
                run_blocking(move || {
                    tree.wait_until_gone();
                    Ok(())
                })
                .await?;
            }
        }
        Ok(())
    }
}

/// Ends the whole process tree.
impl Drop for HostProcess {
    fn drop(&mut self) {
        self.tree.end_processes();
    }
}

/// The reader of a command's output, which runs in a thread of its own and reads no faster than chunks are taken.
struct OutputPump {
    /// Standard output and standard error, until they end.
    streams: [Option<File>; 2],
    status: File,
    sender: mpsc::Sender<Chunk>,
}

impl OutputPump {
    fn pump_to_end(mut self, tree: &ProcessTree, exit: &Mutex<Option<CommandExit>>, begun: Instant) {
        let report = self.pump_until_report();
        let limit = tree.mark_ended();
        let duration = begun.elapsed();
        self.drain_streams();
        *exit.lock().unwrap_or_else(PoisonError::into_inner) = Some(exit_of(report, limit, duration));
        // Closes the streams: the reader sees their end, and a process that was left behind can write no more.
        drop(self);
        tree.wait_until_gone();
    }

    /// Reads output until the command has ended; returns the report of the minder, unless that ended without one.
    fn pump_until_report(&mut self) -> Option<MinderReport> {
        loop {
            let [is_stdout_ready, is_stderr_ready, is_status_ready] = self.poll_ready(PumpWait::UntilReady);
            if is_stdout_ready {
                self.read_stream(0);
            }
            if is_stderr_ready {
                self.read_stream(1);
            }
            let mut bytes = [0; MinderReport::BYTES];
            if is_status_ready {
                match self.status.read(&mut bytes) {
                    Ok(MinderReport::BYTES) => return Some(MinderReport::from_bytes(&bytes)),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    _ => return None,
                }
            }
        }
    }

    /// Reads the output that was written before the end.
    fn drain_streams(&mut self) {
        // Bounded, because a process that was left behind may continue to write.
        let mut left = [MOST_IN_A_PIPE; 2];
        loop {
            let ready = self.poll_ready(PumpWait::Never);
            let readable: Vec<_> = (0..2).filter(|number| ready[*number] && left[*number] > 0).collect();
            if readable.is_empty() {
                return;
            }
            for number in readable {
                let read = self.read_stream(number).max(1);
                left[number] = left[number].saturating_sub(read);
            }
        }
    }

    /// Returns whether each stream, and the status if this waits for it, can be read or has ended.
    fn poll_ready(&self, wait: PumpWait) -> [bool; 3] {
        let (status, timeout) = match wait {
            PumpWait::UntilReady => (Some(&self.status), None),
            PumpWait::Never => (None, Some(Timespec::default())),
        };
        let files = [self.streams[0].as_ref(), self.streams[1].as_ref(), status];
        let mut watched: Vec<_> = files
            .iter()
            .flatten()
            .map(|file| PollFd::new(*file, PollFlags::IN))
            .collect();
        // The result is not needed: the answers show the streams that are ready, also after an interrupted call.
        let _ = poll(&mut watched, timeout.as_ref());
        let mut answers = watched.iter().map(|fd| !fd.revents().is_empty());
        files.map(|file| file.is_some() && answers.next().unwrap_or(false))
    }

    /// Reads from one of the streams once; returns the number of bytes.
    fn read_stream(&mut self, number: usize) -> usize {
        let mut bytes = vec![0; CHUNK_BYTES];
        let Some(stream) = &mut self.streams[number] else {
            return 0;
        };
        match stream.read(&mut bytes) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
            Ok(0) | Err(_) => {
                self.streams[number] = None;
                0
            }
            Ok(count) => {
                bytes.truncate(count);
                // If the receiver is dropped, the process tree is about to end; until then its output is discarded, so
                // that it does not block.
                let _ = self.sender.blocking_send(Chunk {
                    stream: [OutputStream::Stdout, OutputStream::Stderr][number],
                    bytes: bytes.into(),
                });
                count
            }
        }
    }
}

/// How long the reader of output waits.
#[derive(Debug, Clone, Copy)]
enum PumpWait {
    /// Until a stream or the status is ready.
    UntilReady,
    /// Not at all, and without a look at the status.
    Never,
}

fn exit_of(report: Option<MinderReport>, limit: Option<ResourceLimit>, duration: Duration) -> CommandExit {
    let status = ExitStatus::from_raw(report.map_or(libc::SIGKILL, |report| report.status));
    let ended = match (status.signal(), status.code()) {
        (Some(number), _) => ExitCause::Signalled(number),
        (None, code) => ExitCause::Exited(code.unwrap_or_default()),
    };
    let by_signal = match ended {
        ExitCause::Signalled(libc::SIGXCPU) => Some(ResourceLimit::Cpu),
        ExitCause::Signalled(libc::SIGXFSZ) => Some(ResourceLimit::FileSize),
        _ => None,
    };
    CommandExit {
        ended,
        limit: limit.or(by_signal),
        duration,
        usage: report.map(|report| report.usage).unwrap_or_default(),
    }
}
