//! Commands: their program, input and limits, and how they end.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::{Error, Limits, ResourceLimit, Result, WsPath};

/// A command to run.
#[derive(Clone, PartialEq, Eq)]
pub struct SandboxCommand {
    /// The program or shell text to run.
    pub program: CommandProgram,
    /// The directory to run it in. Links in its path are followed as long as they stay inside; one that leads out is
    /// `path_escape`.
    pub cwd: WsPath,
    /// The whole environment of the command: usually that of [`crate::OpenSandbox::environment`], and more.
    pub env: BTreeMap<String, String>,
    /// Its standard input.
    pub stdin: CommandStdin,
    /// The resources that it may use.
    pub limits: Limits,
    /// Whether it gets an empty home, which ends with it, instead of the one that is kept.
    pub has_empty_home: bool,
    /// The terminal that it runs on; without one, its streams are pipes.
    pub terminal: Option<CommandTerminal>,
}

/// A terminal of the sandbox's own, on which a command leads a session.
///
/// The standard streams of the command are the terminal, and all that is written to it comes as
/// [`OutputStream::Stdout`]. Its input is typed on the terminal; the end of the input is typed as Ctrl-D. The kind of
/// the terminal, `TERM`, is a variable of the command like any other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandTerminal {
    /// Its size at the start.
    pub size: TerminalSize,
    /// Whether the command also gets a pipe for marks, as the descriptor [`MARK_DESCRIPTOR`], and one for the answers
    /// to them, as [`ANSWER_DESCRIPTOR`]. The bytes of marks come as [`OutputStream::Stderr`], so that a shell can say
    /// something that its terminal does not show, and wait until it was heard ([`Process::answer_mark`]).
    pub has_mark_pipe: bool,
}

/// The number of the descriptor on which a command on a terminal writes its marks.
pub const MARK_DESCRIPTOR: i32 = 63;
/// The number of the descriptor from which a command on a terminal reads the answers to its marks, an empty line each.
pub const ANSWER_DESCRIPTOR: i32 = 62;

/// The size of a terminal, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TerminalSize {
    /// The number of lines.
    pub rows: u16,
    /// The number of characters in a line.
    pub columns: u16,
}

impl Default for TerminalSize {
    fn default() -> Self {
        Self { rows: 24, columns: 80 }
    }
}

/// Without the values of the environment and without the input: either may be a secret.
impl fmt::Debug for SandboxCommand {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Command")
            .field("program", &self.program)
            .field("cwd", &self.cwd)
            .field("env", &self.env.keys())
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

/// The program or shell text to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandProgram {
    /// A program, searched on the `PATH` of its environment, and its arguments.
    Arguments(Vec<String>),
    /// A text for the shell.
    Shell(String),
}

impl fmt::Display for CommandProgram {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Arguments(arguments) => formatter.write_str(&arguments.join(" ")),
            Self::Shell(text) => formatter.write_str(text),
        }
    }
}

/// The standard input of a command.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum CommandStdin {
    /// Nothing: the first read meets the end.
    #[default]
    Closed,
    /// These bytes, and then the end.
    Bytes(Bytes),
    /// The bytes that [`Process::write_stdin`] is given.
    Piped,
    /// The pieces that a source gives, and then the end. No piece is requested before the command has room for it.
    Stream(InputStream),
}

/// A source of the standard input of a command, piece by piece.
#[async_trait]
pub trait InputSource: Send + Sync {
    /// Waits for the next piece; `None` at the end.
    async fn next_piece(&self) -> Option<Bytes>;
}

/// A shared [`InputSource`]. Two are equal if they are the same source.
#[derive(Clone)]
pub struct InputStream(Arc<dyn InputSource>);

impl InputStream {
    /// Makes a stream that reads from `source`.
    pub fn new(source: impl InputSource + 'static) -> Self {
        Self(Arc::new(source))
    }

    /// Waits for the next piece; `None` at the end.
    pub async fn next_piece(&self) -> Option<Bytes> {
        self.0.next_piece().await
    }
}

impl PartialEq for InputStream {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for InputStream {}

/// Without the input itself: it may be a secret.
impl fmt::Debug for InputStream {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("InputStream").finish_non_exhaustive()
    }
}

/// A started process with its output and input. Dropping it ends its whole tree of processes.
#[async_trait]
pub trait Process: Send + Sync + fmt::Debug {
    /// Returns the next output, in the order in which it was read; `None` after the last. Nothing is read ahead without
    /// bound: a caller that does not ask for output blocks the command. The output ends with the process that was
    /// started, even if a process that it left behind holds its streams open.
    async fn next_output(&mut self) -> Option<Chunk>;

    /// Waits for the end of the process and returns its exit. Output that was not asked for is dropped.
    async fn wait(&mut self) -> Result<CommandExit>;

    /// Writes to its standard input; `invalid` unless its [`CommandStdin`] is piped.
    async fn write_stdin(&mut self, bytes: Bytes) -> Result<()>;

    /// Closes its standard input.
    async fn close_stdin(&mut self) -> Result<()>;

    /// Signals the process that was started; [`Signal::Kill`] ends the whole tree.
    async fn send_signal(&mut self, signal: Signal) -> Result<()>;

    /// Changes the size of its terminal, and tells the program in the foreground there; `invalid` without a terminal.
    async fn resize(&mut self, size: TerminalSize) -> Result<()> {
        let _ = size;
        Err(no_terminal_error())
    }

    /// Answers a mark; `invalid` without a pipe for marks.
    async fn answer_mark(&mut self) -> Result<()> {
        Err(no_marks_error())
    }
}

/// Returns the error for a command that writes no marks: `invalid`.
pub fn no_marks_error() -> Error {
    Error::invalid("the command writes no marks").hint("start it with a terminal and a pipe for marks")
}

/// Returns the error for a command that has no terminal: `invalid`.
pub fn no_terminal_error() -> Error {
    Error::invalid("the command does not run on a terminal").hint("start it with a terminal")
}

/// A signal for a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Signal {
    /// Interrupts it, as Ctrl-C does.
    Interrupt,
    /// Asks it to end.
    Terminate,
    /// Ends it and every process that it started.
    Kill,
}

/// A piece of output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// The stream that it was written to.
    pub stream: OutputStream,
    /// The bytes, exactly.
    pub bytes: Bytes,
}

/// An output stream of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// The end of a command, with its duration and usage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandExit {
    /// Whether it ended by itself or by a signal.
    pub ended: ExitCause,
    /// The limit that ended it, if one did.
    pub limit: Option<ResourceLimit>,
    /// How long it ran.
    pub duration: Duration,
    /// The resources that it used.
    pub usage: ResourceUsage,
}

/// Whether a command ended by itself or by a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExitCause {
    /// With this code.
    Exited(i32),
    /// By the signal of this number.
    Signalled(i32),
}

impl ExitCause {
    /// Returns the code as a shell would give it: 128 plus the number of the signal, if one ended it.
    pub const fn exit_code(self) -> i32 {
        match self {
            Self::Exited(code) => code,
            Self::Signalled(number) => 128 + number,
        }
    }
}

/// The resources that a command used, with all the processes that it waited for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ResourceUsage {
    /// Time on processors in its own code, in milliseconds.
    pub user_ms: u64,
    /// Time on processors in the kernel, in milliseconds.
    pub system_ms: u64,
    /// The most memory that it held, in bytes.
    pub max_memory: u64,
}
