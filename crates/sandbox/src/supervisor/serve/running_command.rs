//! A running command, and how it ends.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use garret_core::{CommandExit, ExitCause, ResourceLimit, ResourceUsage};

use super::ReadyPart;
use crate::supervisor::clock::current_time;
use crate::supervisor::control_groups::CommandGroup;
use crate::supervisor::init::MessageToInit;
use crate::supervisor::limit_watch::LimitWatch;
use crate::supervisor::protocol::{FrameDecoder, SpawnLimits, write_message};
use crate::supervisor::{descriptor_passing, sys};

/// A command, from its start until its end and all of its output are reported.
pub(super) struct RunningCommand {
    pub(super) layer: String,
    pub(super) pid: i32,
    pub(super) pidfd: Option<OwnedFd>,
    pub(super) socket: UnixStream,
    pub(super) decoder: FrameDecoder,
    pub(super) starting: Option<u64>,
    /// The order that its init still waits for, because the layer was paused when the command was started.
    pub(super) unsent: Option<UnsentOrder>,
    pub(super) is_paused: bool,
    pub(super) input: Option<OwnedFd>,
    pub(super) waiting_input: VecDeque<u8>,
    pub(super) is_input_closing: bool,
    pub(super) outputs: [Option<OwnedFd>; 2],
    /// Whether it runs on a terminal, which is then its input and its first output.
    pub(super) has_terminal: bool,
    /// The pipe for the answers to its marks.
    pub(super) answers: Option<OwnedFd>,
    pub(super) credit: u64,
    pub(super) narrow: Option<CommandGroup>,
    pub(super) watch: LimitWatch,
    pub(super) memory_kills: u64,
    /// How its program ended, as the init reported it, and the resources used.
    pub(super) exit: Option<(ExitCause, ResourceUsage)>,
    pub(super) limit: Option<ResourceLimit>,
    /// The time at which it is killed, after its init was told to end it.
    pub(super) ends_by: Option<Instant>,
    /// The resources it had used when it was killed.
    pub(super) used: Option<ResourceUsage>,
}

/// The order to run a command, with the layer to run it on.
pub(super) struct UnsentOrder {
    pub(super) order: Vec<u8>,
    pub(super) layer: OwnedFd,
}

impl UnsentOrder {
    pub(super) fn send_to_init(&self, socket: &UnixStream) -> std::io::Result<()> {
        descriptor_passing::send_with_descriptors(socket, &self.order, &[self.layer.as_fd()])
    }
}

/// The time that an init has to end its command. It needs much less unless the machine is overloaded.
const PATIENCE: Duration = Duration::from_millis(500);

impl RunningCommand {
    /// Takes the terminal on which its program runs now.
    pub(super) fn connect_terminal(&mut self, terminal: OwnedFd) -> std::io::Result<()> {
        rustix::io::ioctl_fionbio(&terminal, true)?;
        self.input = Some(terminal.try_clone()?);
        self.outputs[0] = Some(terminal);
        Ok(())
    }

    /// Returns the time of its next check; `None` if it was killed already.
    pub(super) fn next_check(&self) -> Option<Instant> {
        match (self.ends_by, &self.used) {
            (Some(_), Some(_)) => None,
            (Some(ends_by), None) => Some(ends_by),
            (None, _) => Some(self.watch.next_check()),
        }
    }

    /// Makes the init end the command and count the resources it used.
    pub(super) fn end_command(&mut self) {
        // The init is not killed at once: the kernel would forget the usage of the processes that it waited for.
        self.ends_by.get_or_insert_with(|| current_time() + PATIENCE);
        if self.starting.is_some() || write_message(&MessageToInit::End, &mut self.socket).is_err() {
            self.kill_init();
        }
        self.end_frozen();
    }

    /// Begins to stop its processes, which must be stopped within this time.
    pub(super) fn pause_processes(&mut self, request: u64, within: Duration) {
        // A command that has not begun has no process to stop.
        self.is_paused = self.unsent.is_some();
        if self.is_paused {
            return;
        }
        // If either fails, the command is not stopped in time, and is ended for that.
        match self.freezing_group() {
            Some(narrow) => drop(narrow.freeze()),
            None => drop(write_message(
                &MessageToInit::Pause { request, within },
                &mut self.socket,
            )),
        }
    }

    /// Returns whether all of its processes are stopped.
    pub(super) fn is_stopped(&mut self) -> bool {
        self.is_paused = self.is_paused || self.freezing_group().is_some_and(CommandGroup::is_frozen);
        self.is_paused
    }

    /// Lets its processes continue, or its program begin.
    pub(super) fn resume_processes(&mut self) {
        self.is_paused = false;
        let told = match (self.unsent.take(), self.freezing_group()) {
            (Some(unsent), _) => unsent.send_to_init(&self.socket),
            (None, Some(narrow)) => narrow.thaw().map_err(Into::into),
            (None, None) => write_message(&MessageToInit::Resume, &mut self.socket),
        };
        if told.is_err() {
            self.kill_init();
        }
    }

    /// Ends it because it was not stopped in time.
    pub(super) fn end_for_pause(&mut self) {
        self.ends_by.get_or_insert_with(current_time);
        self.limit = Some(ResourceLimit::Pause);
        self.count_and_kill();
    }

    fn freezing_group(&self) -> Option<&CommandGroup> {
        self.narrow.as_ref().filter(|narrow| narrow.can_freeze())
    }

    fn end_frozen(&self) {
        if let Some(narrow) = self.freezing_group() {
            narrow.end_frozen();
        }
    }

    pub(super) fn watched_descriptors(&self) -> Vec<(ReadyPart, BorrowedFd<'_>)> {
        let mut watched = Vec::with_capacity(5);
        if self.credit > 0 {
            for (at, output) in self.outputs.iter().enumerate() {
                watched.extend(output.as_ref().map(|output| (ReadyPart::Output(at), output.as_fd())));
            }
        }
        if let (Some(input), false) = (&self.input, self.waiting_input.is_empty()) {
            watched.push((ReadyPart::Input, input.as_fd()));
        }
        // In this order, so that messages and output from before the end are handled before the end.
        if let Some(pidfd) = &self.pidfd {
            watched.push((ReadyPart::Message, self.socket.as_fd()));
            watched.push((ReadyPart::InitEnded, pidfd.as_fd()));
        }
        watched
    }

    /// Kills the init; the kernel then ends every process of the command.
    pub(super) fn kill_init(&self) {
        kill_pid(self.pid);
        self.end_frozen();
    }

    /// Counts the resources that its processes used, and then kills the init, which did not count them in time.
    pub(super) fn count_and_kill(&mut self) {
        self.used = Some(
            self.watch
                .final_usage(self.narrow.as_ref().and_then(CommandGroup::cpu_ms)),
        );
        self.kill_init();
    }

    /// Returns how it ended, with the limit that ended it.
    pub(super) fn final_exit(&self, memory_kills: u64) -> CommandExit {
        let killed = (ExitCause::Signalled(libc::SIGKILL), self.used.unwrap_or_default());
        let (ended, usage) = self.exit.unwrap_or(killed);
        let has_memory_kill = memory_kills > self.memory_kills;
        CommandExit {
            ended,
            limit: self
                .limit
                .or_else(|| limit_from_exit(ended, self.watch.limits(), has_memory_kill)),
            duration: current_time().saturating_duration_since(self.watch.started()),
            usage,
        }
    }
}

/// Returns the limit that an exit code or signal reveals.
fn limit_from_exit(ended: ExitCause, limits: &SpawnLimits, has_memory_kill: bool) -> Option<ResourceLimit> {
    // A shell exits with 128 and the number of the signal that ended its program.
    match ended.exit_code() - 128 {
        libc::SIGXFSZ => limits.largest_file().map(|(_, limit)| limit),
        libc::SIGXCPU => Some(ResourceLimit::Cpu),
        _ if has_memory_kill && ended != ExitCause::Exited(0) => Some(ResourceLimit::Memory),
        _ => None,
    }
}

/// Kills an init.
fn kill_pid(pid: i32) {
    // The number cannot belong to another process: the init was not collected yet.
    let _ = sys::send_signal(pid, libc::SIGKILL);
}
