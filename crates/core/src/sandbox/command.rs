//! What is run, and how it goes.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use serde::Serialize;

use crate::{Limit, Limits, Result, WsPath};

/// A command to run.
#[derive(Clone, PartialEq, Eq)]
pub struct Command {
    /// What to run.
    pub program: Program,
    /// The directory to run it in. Links on the way are followed as far as they stay inside; one that leads out is `path_escape`.
    pub cwd: WsPath,
    /// Everything that is in its environment.
    pub env: BTreeMap<String, String>,
    /// What it reads.
    pub stdin: Stdin,
    /// How much it may use.
    pub limits: Limits,
}

/// Without the values of the environment and without what it reads: either may be a secret.
impl fmt::Debug for Command {
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

/// What to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Program {
    /// A program, looked for on the `PATH` of its environment, and its arguments.
    Arguments(Vec<String>),
    /// A text for the shell.
    Shell(String),
}

impl fmt::Display for Program {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Arguments(arguments) => formatter.write_str(&arguments.join(" ")),
            Self::Shell(text) => formatter.write_str(text),
        }
    }
}

/// What a command reads.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum Stdin {
    /// Nothing: it is at its end at once.
    #[default]
    Closed,
    /// These bytes, and then the end.
    Bytes(Bytes),
    /// What [`Process::write`] gives it.
    Piped,
    /// What a source gives, piece by piece, and then the end. No piece is asked for before the command has room for it.
    Stream(InputStream),
}

/// Gives a command what it reads, piece by piece.
#[async_trait]
pub trait InputSource: Send + Sync {
    /// Waits for the next piece; `None` at the end.
    async fn next_piece(&self) -> Option<Bytes>;
}

/// A shared [`InputSource`]. Two are equal where they are the same source.
#[derive(Clone)]
pub struct InputStream(Arc<dyn InputSource>);

impl InputStream {
    /// Reads from `source`.
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

/// Without what is read: it may be a secret.
impl fmt::Debug for InputStream {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("InputStream").finish_non_exhaustive()
    }
}

/// A process that was started, with everything that comes from it. Dropping it ends the whole tree.
#[async_trait]
pub trait Process: Send + Sync + fmt::Debug {
    /// The next output, in the order in which it was read; `None` after the last. Nothing is read ahead without bound: who does not ask
    /// holds the command up. It ends with the process that was started, even where one that it left behind holds its streams open.
    async fn output(&mut self) -> Option<Chunk>;

    /// How it ended; waits until it has. Output that was not asked for is dropped.
    async fn wait(&mut self) -> Result<Exit>;

    /// Gives it something to read; `invalid` unless its [`Stdin`] is piped.
    async fn write(&mut self, bytes: Bytes) -> Result<()>;

    /// Ends what it reads.
    async fn close_stdin(&mut self) -> Result<()>;

    /// Signals the process that was started; [`Signal::Kill`] ends the whole tree.
    async fn signal(&mut self, signal: Signal) -> Result<()>;
}

/// A signal for a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Signal {
    /// As Ctrl-C.
    Interrupt,
    /// Asks it to end.
    Terminate,
    /// Ends it and every process that it started.
    Kill,
}

/// Some output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// Where it was written.
    pub stream: Stream,
    /// The bytes, exactly.
    pub bytes: Bytes,
}

/// Where a command writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exit {
    /// By itself or by a signal.
    pub ended: Ended,
    /// The limit that ended it, where one did.
    pub limit: Option<Limit>,
    /// How long it ran.
    pub duration: Duration,
    /// What it used.
    pub usage: Usage,
}

/// By itself or by a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// With this code.
    Exited(i32),
    /// By the signal of this number.
    Signalled(i32),
}

impl Ended {
    /// The code as a shell would give it: 128 and the number of the signal where one ended it.
    pub const fn code(self) -> i32 {
        match self {
            Self::Exited(code) => code,
            Self::Signalled(number) => 128 + number,
        }
    }
}

/// What a command used, with all the processes that it waited for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Usage {
    /// Time on processors in its own code, in milliseconds.
    pub user_ms: u64,
    /// Time on processors in the kernel, in milliseconds.
    pub system_ms: u64,
    /// The most memory that it held, in bytes.
    pub max_memory: u64,
}

/// What a command left, for whoever does not follow it while it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// How it ended.
    pub exit: Exit,
    /// All its output, in the order in which it was read.
    pub output: Vec<Chunk>,
}
