//! A process in a sandbox, on Garret's side of the connection.

#![cfg(target_os = "linux")]

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use garret_core::{
    Chunk, CommandExit, CommandStdin, Error, ErrorKind, InputStream, Process, Result, SandboxCommand, Signal,
    TerminalSize, no_marks_error, no_terminal_error,
};
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;

use super::connection::{ProcessSource, SupervisorConnection, sandbox_ended_error};
use crate::supervisor::protocol::{CREDIT, DATA, SupervisorRequest};

/// A process that was started. Dropping it ends its tree.
#[derive(Debug)]
pub(super) struct NamespaceProcess {
    id: u64,
    connection: Arc<SupervisorConnection>,
    source: ProcessSource,
    is_piped: bool,
    has_terminal: bool,
    has_marks: bool,
    is_output_over: bool,
    /// The bytes of output that were taken and for which no new credit was sent yet.
    taken: u64,
    exit: Option<CommandExit>,
    /// The task that sends a stream of input, if there is one.
    feeding: Option<AbortHandle>,
}

impl NamespaceProcess {
    pub(super) fn new(
        id: u64,
        connection: Arc<SupervisorConnection>,
        source: ProcessSource,
        command: &SandboxCommand,
    ) -> Self {
        Self {
            id,
            connection,
            source,
            is_piped: matches!(command.stdin, CommandStdin::Piped),
            has_terminal: command.terminal.is_some(),
            has_marks: command.terminal.is_some_and(|terminal| terminal.has_mark_pipe),
            is_output_over: false,
            taken: 0,
            exit: None,
            feeding: None,
        }
    }

    /// Sends the pieces of `stream`, until either side ends.
    pub(super) fn feed_stream(&mut self, stream: InputStream) {
        let (connection, room, process) = (self.connection.clone(), self.source.room.clone(), self.id);
        let feeding = tokio::spawn(async move {
            // A failure means that the command or the sandbox has ended, which `wait` reports.
            if send_stream(&stream, &connection, &room, process).await.is_ok() {
                let _ = connection.send_message(&SupervisorRequest::CloseInput { process });
            }
        });
        self.feeding = Some(feeding.abort_handle());
    }

    /// Sends credit for the output that was taken.
    fn make_room(&mut self, length: usize) {
        self.taken += length as u64;
        // In large steps, because each credit is a message and wakes the supervisor.
        if self.taken >= CREDIT / 4 {
            let ask = SupervisorRequest::Credit {
                process: self.id,
                bytes: std::mem::take(&mut self.taken),
            };
            // A sandbox that has ended sends no more output and needs no credit.
            let _ = self.connection.send_message(&ask);
        }
    }

    fn signal_number(&self, number: i32) -> Result<()> {
        self.connection.send_message(&SupervisorRequest::Signal {
            process: self.id,
            number,
        })
    }
}

#[async_trait]
impl Process for NamespaceProcess {
    async fn next_output(&mut self) -> Option<Chunk> {
        let chunk = self.source.output.recv().await;
        match &chunk {
            Some(chunk) => self.make_room(chunk.bytes.len()),
            None => self.is_output_over = true,
        }
        chunk
    }

    async fn wait(&mut self) -> Result<CommandExit> {
        while self.exit.is_none() {
            tokio::select! {
                biased;
                exit = &mut self.source.exit => self.exit = Some(exit.map_err(|_| sandbox_ended_error())?),
                chunk = self.source.output.recv(), if !self.is_output_over => match chunk {
                    Some(chunk) => self.make_room(chunk.bytes.len()),
                    None => self.is_output_over = true,
                },
            }
        }
        Ok(self.exit.clone().expect("the loop ends with an exit"))
    }

    async fn write_stdin(&mut self, bytes: Bytes) -> Result<()> {
        if !self.is_piped {
            return Err(Error::invalid("the command was started without piped standard input")
                .hint("start it with a piped standard input"));
        }
        send_input(&bytes, &self.connection, &self.source.room, self.id).await
    }

    async fn close_stdin(&mut self) -> Result<()> {
        self.is_piped = false;
        self.connection
            .send_message(&SupervisorRequest::CloseInput { process: self.id })
    }

    async fn send_signal(&mut self, signal: Signal) -> Result<()> {
        self.signal_number(match signal {
            Signal::Interrupt => libc::SIGINT,
            Signal::Terminate => libc::SIGTERM,
            Signal::Kill => libc::SIGKILL,
        })
    }

    async fn answer_mark(&mut self) -> Result<()> {
        if !self.has_marks {
            return Err(no_marks_error());
        }
        let process = self.id;
        self.connection.send_message(&SupervisorRequest::AnswerMark { process })
    }

    async fn resize(&mut self, size: TerminalSize) -> Result<()> {
        if !self.has_terminal {
            return Err(no_terminal_error());
        }
        let process = self.id;
        self.connection
            .send_message(&SupervisorRequest::Resize { process, size })
    }
}

impl Drop for NamespaceProcess {
    fn drop(&mut self) {
        if let Some(feeding) = &self.feeding {
            feeding.abort();
        }
        if self.exit.is_none() {
            let _ = self.signal_number(libc::SIGKILL);
        } else if self.is_output_over {
            return;
        }
        // The supervisor forgets a process only after it has sent all of its output, which nobody takes any more.
        let _ = self.connection.send_message(&SupervisorRequest::Credit {
            process: self.id,
            bytes: u64::MAX / 2,
        });
    }
}

/// Sends every piece of `stream`. The next piece is read when the command has room for some of it.
async fn send_stream(
    stream: &InputStream,
    connection: &SupervisorConnection,
    room: &Semaphore,
    process: u64,
) -> Result<()> {
    loop {
        drop(room.acquire().await.map_err(|_| not_running_error())?);
        let Some(piece) = stream.next_piece().await else {
            return Ok(());
        };
        send_input(&piece, connection, room, process).await?;
    }
}

/// Sends input to a process, as fast as it has room for it.
async fn send_input(bytes: &[u8], connection: &SupervisorConnection, room: &Semaphore, process: u64) -> Result<()> {
    for part in bytes.chunks(DATA) {
        let count = u32::try_from(part.len()).expect("a part is short");
        room.acquire_many(count)
            .await
            .map_err(|_| not_running_error())?
            .forget();
        connection.send_bytes(process, 0, part)?;
    }
    Ok(())
}

fn not_running_error() -> Error {
    Error::new(ErrorKind::Unavailable, "the command has ended").hint("start it again")
}
