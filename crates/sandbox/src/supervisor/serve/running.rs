//! A command that runs, and how it ends.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use super::What;
use crate::supervisor::clock::now;
use crate::supervisor::groups::Narrow;
use crate::supervisor::init::Tell;
use crate::supervisor::protocol::{Decoder, EndedExit, Ending, Spawn, SpawnLimits, write_message};
use crate::supervisor::watch::{Spent, Watch};
use crate::supervisor::{passing, sys};

/// A command.
pub(super) struct Running {
    pub(super) layer: String,
    pub(super) pid: i32,
    pub(super) pidfd: Option<OwnedFd>,
    pub(super) socket: UnixStream,
    pub(super) decoder: Decoder,
    pub(super) starting: Option<u64>,
    /// What its init is still to be told, since the layer was paused when it was started.
    pub(super) unsent: Option<Unsent>,
    pub(super) is_paused: bool,
    pub(super) input: Option<OwnedFd>,
    pub(super) waiting_input: VecDeque<u8>,
    pub(super) is_input_closing: bool,
    pub(super) outputs: [Option<OwnedFd>; 2],
    pub(super) credit: u64,
    pub(super) narrow: Option<Narrow>,
    pub(super) watch: Watch,
    pub(super) spawn: Spawn,
    pub(super) memory_kills: u64,
    pub(super) exit: Option<EndedExit>,
    pub(super) limit: Option<Ending>,
    /// When it is killed, having been told to end.
    pub(super) ends_by: Option<Instant>,
    /// What it had used by then.
    pub(super) used: Option<Spent>,
}

/// The order to run a command, with the layer to run it on.
pub(super) struct Unsent {
    pub(super) order: Vec<u8>,
    pub(super) layer: OwnedFd,
}

impl Unsent {
    pub(super) fn send(&self, socket: &UnixStream) -> std::io::Result<()> {
        passing::send(socket, &self.order, &[self.layer.as_fd()])
    }
}

/// How long an init that was told to end its command may take for that. It is quick unless the machine is not.
const PATIENCE: Duration = Duration::from_millis(500);

impl Running {
    /// When it must be looked at next.
    pub(super) fn wakes(&self) -> Option<Instant> {
        match (self.ends_by, &self.used) {
            (Some(_), Some(_)) => None,
            (Some(ends_by), None) => Some(ends_by),
            (None, _) => Some(self.watch.wakes()),
        }
    }

    /// Has the init end the command and count what it used; the kernel forgets that where the init itself is killed.
    pub(super) fn end(&mut self) {
        self.ends_by.get_or_insert_with(|| now() + PATIENCE);
        if self.starting.is_some() || write_message(&Tell::End, &mut self.socket).is_err() {
            self.kill();
        }
        self.end_frozen();
    }

    /// Begins to stop it where it stands, within this time.
    pub(super) fn pause(&mut self, request: u64, within: Duration) {
        // One that has not begun runs nothing.
        self.is_paused = self.unsent.is_some();
        if self.is_paused {
            return;
        }
        // Where either fails, it is not still in time.
        match self.freezer() {
            Some(narrow) => drop(narrow.freeze()),
            None => drop(write_message(&Tell::Pause { request, within }, &mut self.socket)),
        }
    }

    /// Whether it stands still.
    pub(super) fn is_still(&mut self) -> bool {
        self.is_paused = self.is_paused || self.freezer().is_some_and(Narrow::is_frozen);
        self.is_paused
    }

    /// Lets it go on, or begin.
    pub(super) fn resume(&mut self) {
        self.is_paused = false;
        let told = match (self.unsent.take(), self.freezer()) {
            (Some(unsent), _) => unsent.send(&self.socket),
            (None, Some(narrow)) => narrow.thaw().map_err(Into::into),
            (None, None) => write_message(&Tell::Resume, &mut self.socket),
        };
        if told.is_err() {
            self.kill();
        }
    }

    /// Ends it because it does not stand still.
    pub(super) fn end_unstill(&mut self) {
        self.ends_by.get_or_insert_with(now);
        self.limit = Some(Ending::Pause);
        self.kill_counted();
    }

    fn freezer(&self) -> Option<&Narrow> {
        self.narrow.as_ref().filter(|narrow| narrow.can_freeze())
    }

    fn end_frozen(&self) {
        if let Some(narrow) = self.freezer() {
            narrow.end_frozen();
        }
    }

    pub(super) fn watched(&self) -> Vec<(What, BorrowedFd<'_>)> {
        let mut watched = Vec::with_capacity(5);
        if self.credit > 0 {
            for (at, output) in self.outputs.iter().enumerate() {
                watched.extend(output.as_ref().map(|output| (What::Output(at), output.as_fd())));
            }
        }
        if let (Some(input), false) = (&self.input, self.waiting_input.is_empty()) {
            watched.push((What::Input, input.as_fd()));
        }
        // In this order: what was said and written before the end is heard before it.
        if let Some(pidfd) = &self.pidfd {
            watched.push((What::Said, self.socket.as_fd()));
            watched.push((What::Dead, pidfd.as_fd()));
        }
        watched
    }

    /// Ends the init, and by the kernel everything that the command started.
    pub(super) fn kill(&self) {
        end(self.pid);
        self.end_frozen();
    }

    /// The same, for one whose init does not get to it: what its processes used is looked at first.
    pub(super) fn kill_counted(&mut self) {
        self.used = Some(self.watch.spent(self.narrow.as_ref().and_then(Narrow::cpu_ms)));
        self.kill();
    }

    /// How it ended, with the limit that did it.
    pub(super) fn exit_now(&self, memory_kills: u64) -> EndedExit {
        let used = self.used.unwrap_or_default();
        let mut exit = self.exit.clone().unwrap_or(EndedExit {
            code: None,
            signal: Some(libc::SIGKILL),
            limit: None,
            duration_us: 0,
            user_us: used.user_ms * 1000,
            system_us: used.system_ms * 1000,
            max_memory: used.max_memory,
        });
        exit.duration_us =
            u64::try_from(now().saturating_duration_since(self.watch.started()).as_micros()).unwrap_or(u64::MAX);
        let has_memory_kill = memory_kills > self.memory_kills;
        exit.limit = self
            .limit
            .or_else(|| ended_by(&exit, &self.spawn.limits, has_memory_kill));
        exit
    }
}

/// The limit that a way of ending tells of. A shell gives 128 and the number where a signal ended what it ran.
fn ended_by(exit: &EndedExit, limits: &SpawnLimits, has_memory_kill: bool) -> Option<Ending> {
    let number = exit.signal.or(exit.code.map(|code| code - 128))?;
    match number {
        libc::SIGXFSZ => limits.largest_file().map(|(_, limit)| limit),
        libc::SIGXCPU => Some(Ending::Cpu),
        _ if has_memory_kill && exit.code != Some(0) => Some(Ending::Memory),
        _ => None,
    }
}

/// Kills an init. It cannot be a stranger of the same number: nobody collected it yet.
fn end(pid: i32) {
    let _ = sys::kill(pid, libc::SIGKILL);
}
