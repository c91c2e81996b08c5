//! What is asked for: a command, and where its output goes while it runs.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use garret_core::{Chunk, EffectsMode, InputStream, Program};

use super::turn::TurnWaiting;

/// A command to run in the foreground.
#[derive(Clone, PartialEq, Eq)]
pub struct RunRequest {
    /// What to run.
    pub program: Program,
    /// The directory to run it in, as this view knows it; the root of the view where it is empty.
    pub cwd: String,
    /// What this call adds to the environment.
    pub env: BTreeMap<String, String>,
    /// What it reads; nothing where none is given.
    pub stdin: Option<Bytes>,
    /// What it reads as it comes, of any size; `stdin` must be `None` then.
    pub stdin_stream: Option<InputStream>,
    /// The time on the clock after which it is ended; that of the policy where none is given, and never more.
    pub timeout: Option<Duration>,
    /// The most bytes of output that are kept; those of the policy where none are given, and never more.
    pub max_output: Option<u64>,
    /// What becomes of what it does to the files; what the policy says where none is given.
    pub effects: Option<EffectsMode>,
    /// The longest wait while another command in the foreground runs on the same files, of this process or another; 60 seconds where none
    /// is given. Zero does not wait.
    pub turn_wait: Option<Duration>,
}

impl RunRequest {
    /// Runs a text by the shell.
    pub fn shell(text: impl Into<String>) -> Self {
        Self::of(Program::Shell(text.into()))
    }

    /// Runs a program with its arguments.
    pub fn arguments<I: Into<String>>(arguments: impl IntoIterator<Item = I>) -> Self {
        Self::of(Program::Arguments(arguments.into_iter().map(Into::into).collect()))
    }

    /// Runs `program` with everything at its default.
    pub fn of(program: Program) -> Self {
        Self {
            program,
            cwd: String::new(),
            env: BTreeMap::new(),
            stdin: None,
            stdin_stream: None,
            timeout: None,
            max_output: None,
            effects: None,
            turn_wait: None,
        }
    }
}

/// Without the values of the environment and without what it reads: either may be a secret.
impl std::fmt::Debug for RunRequest {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("RunRequest")
            .field("program", &self.program)
            .field("cwd", &self.cwd)
            .field("env", &self.env.keys())
            .finish_non_exhaustive()
    }
}

/// Takes the output of a command while it runs. The command is held up until a chunk was taken.
#[async_trait]
pub trait OutputSink: Send {
    /// Takes a chunk; secrets are masked in it.
    async fn take(&mut self, chunk: &Chunk);

    /// Learns that the command waits for its turn, and for which other command. Called at once when the wait begins.
    async fn wait_for_turn(&mut self, _waiting: &TurnWaiting) {}
}

/// Takes output and forgets it: the result has it too.
pub(crate) struct NoSink;

#[async_trait]
impl OutputSink for NoSink {
    async fn take(&mut self, _chunk: &Chunk) {}
}
