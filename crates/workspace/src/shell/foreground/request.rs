//! The request for a command, and the sink that takes its output while it runs.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use garret_core::{Chunk, CommandProgram, EffectsMode, InputStream};

use crate::CommandChanges;
use crate::shell::foreground::command_turn::TurnWaiting;
use crate::shell::foreground::run_terminal::RunTerminal;

/// A command to run in the foreground.
#[derive(Clone, PartialEq, Eq)]
pub struct RunRequest {
    /// The program to run.
    pub program: CommandProgram,
    /// The directory to run it in, as a path of this view; empty for its root.
    pub cwd: String,
    /// Variables that this call adds to the environment.
    pub env: BTreeMap<String, String>,
    /// The bytes of its standard input; closed if both this and `stdin_stream` are `None`.
    pub stdin: Option<Bytes>,
    /// Its standard input as a stream of any size; `stdin` must be `None` then.
    pub stdin_stream: Option<InputStream>,
    /// The terminal on which it runs; without one, its streams are pipes. Its standard input is what is typed, and all
    /// its output is one stream.
    pub terminal: Option<RunTerminal>,
    /// The name of the shell to run it in, which keeps its directory, variables and functions from one command to the
    /// next; without one, the command is a process of its own. The shell is made by its first command and ends with the
    /// workspace, by [`Workspace::kill`](crate::Workspace::kill), or at the time limit of a command. Its output is only
    /// in the result.
    pub shell: Option<String>,
    /// The wall time after which it is ended; `None` for that of the policy. The policy also bounds it.
    pub timeout: Option<Duration>,
    /// The most bytes of output that are stored; `None` for those of the policy. The policy also bounds it.
    pub max_output: Option<u64>,
    /// Whether its effects on the files are committed, discarded or approved first; `None` for the mode of the policy.
    pub effects: Option<EffectsMode>,
    /// The longest wait while another foreground command, of this process or another, runs on the same files; `None`
    /// for 60 seconds. Zero does not wait.
    pub turn_wait: Option<Duration>,
}

impl RunRequest {
    /// Returns a request for a command line of the shell.
    pub fn shell(text: impl Into<String>) -> Self {
        Self::for_program(CommandProgram::Shell(text.into()))
    }

    /// Returns a request for a program with its arguments.
    pub fn arguments<I: Into<String>>(arguments: impl IntoIterator<Item = I>) -> Self {
        Self::for_program(CommandProgram::Arguments(
            arguments.into_iter().map(Into::into).collect(),
        ))
    }

    /// Returns a request for `program` with default settings.
    pub fn for_program(program: CommandProgram) -> Self {
        Self {
            program,
            cwd: String::new(),
            env: BTreeMap::new(),
            stdin: None,
            stdin_stream: None,
            terminal: None,
            shell: None,
            timeout: None,
            max_output: None,
            effects: None,
            turn_wait: None,
        }
    }
}

/// Shows neither the values of the environment nor the standard input: both may hold secrets.
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

/// Takes the output of a command while it runs. The command may block on its output until a chunk was taken.
#[async_trait]
pub trait OutputSink: Send {
    /// Takes a chunk; secrets are masked in it.
    async fn take(&mut self, chunk: &Chunk);

    /// Learns that the command waits for its turn, and for which other command. Called at once when the wait begins.
    async fn wait_for_turn(&mut self, _waiting: &TurnWaiting) {}

    /// Learns of effects that were committed, or could not be, while the command goes on.
    async fn note_changes(&mut self, _changed: &CommandChanges) {}
}

/// Drops the output, for callers that need only the result, which has it, too.
pub(crate) struct NoSink;

#[async_trait]
impl OutputSink for NoSink {
    async fn take(&mut self, _chunk: &Chunk) {}
}
