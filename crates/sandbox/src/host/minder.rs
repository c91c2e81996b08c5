//! A process between Garret and a command, which makes sure that no process of the command is left.
//!
//! It is a fork of Garret that runs nothing but the few calls below. A process that the command starts and abandons
//! becomes its child (it is a "subreaper"), so that daemons and double forks cannot escape. It holds the end of a pipe,
//! the lifeline; when the other end is closed, by Garret or by Garret's death, it kills its children until there are
//! none, and ends. Until then it also holds the lock of the layer. A command that wants to escape, for example by a
//! service that starts processes for it, can: this is no boundary.

#![cfg(target_os = "linux")]
#![allow(
    unsafe_code,
    reason = "a fork, and calls that are allowed between a fork and the next program"
)]

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

use garret_core::ResourceUsage;
use rustix::pipe::PipeFlags;
use rustix::process::Resource;

use crate::supervisor::confine::{forbid_cores, lower_limit};
use crate::supervisor::protocol::SpawnLimits;
use crate::supervisor::sys::{check_result, exit_process, reset_signals, resource_usage, send_signal, watch_children};

/// A command under its minder.
#[derive(Debug)]
pub(super) struct CommandUnderMinder {
    /// The minder.
    pub(super) child: Child,
    /// The lifeline; closing it ends every process of the command.
    pub(super) lifeline: OwnedFd,
    /// The pipe from which the pid of the command is read, and a [`MinderReport`] after its end.
    pub(super) status: OwnedFd,
}

/// How the command ended, as the minder writes it.
#[derive(Debug, Clone, Copy)]
pub(super) struct MinderReport {
    pub(super) status: i32,
    pub(super) usage: ResourceUsage,
}

impl MinderReport {
    /// Fewer than a pipe takes at once, so that a report is never read in parts.
    pub(super) const BYTES: usize = 32;

    fn to_bytes(self) -> [[u8; 8]; 4] {
        let ResourceUsage {
            user_ms,
            system_ms,
            max_memory,
        } = self.usage;
        [self.status as u64, user_ms, system_ms, max_memory].map(u64::to_ne_bytes)
    }

    pub(super) fn from_bytes(bytes: &[u8; Self::BYTES]) -> Self {
        let number = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        Self {
            status: number(0) as i32,
            usage: ResourceUsage {
                user_ms: number(8),
                system_ms: number(16),
                max_memory: number(24),
            },
        }
    }
}

/// The descriptors that the minder keeps open.
#[derive(Debug, Clone, Copy)]
struct MinderHandles {
    lifeline: RawFd,
    status: RawFd,
    lock: RawFd,
}

/// Starts `command` under a minder, which holds `lock` until no process of the command is left.
pub(super) fn spawn_minded(
    mut command: Command,
    limits: SpawnLimits,
    lock: &OwnedFd,
) -> io::Result<CommandUnderMinder> {
    let (broken, lifeline) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    let (status, report) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    let handles = MinderHandles {
        lifeline: broken.as_raw_fd(),
        status: report.as_raw_fd(),
        lock: lock.as_raw_fd(),
    };
    // SAFETY: the closure makes system calls only and allocates nothing; the handles are open until after the fork. The
    // side that is the minder never returns from it.
    unsafe { command.pre_exec(move || begin_minding(handles, &limits)) };
    let child = command.spawn()?;
    Ok(CommandUnderMinder {
        child,
        lifeline,
        status,
    })
}

/// The umask of commands, the same as in the namespace sandbox.
const UMASK: libc::mode_t = 0o022;

/// Runs in the child of the first fork, which becomes the minder; its own child becomes the command.
fn begin_minding(handles: MinderHandles, limits: &SpawnLimits) -> io::Result<()> {
    // The minder, too: if SIGCHLD were ignored, it would not learn how a child ended.
    reset_signals();
    // SAFETY: these calls take numbers only.
    unsafe {
        libc::setsid();
        check_result(libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))?;
        match libc::fork() {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                libc::setsid();
                // Files of a command are not writable for others, whatever the umask of Garret.
                libc::umask(UMASK);
                set_limits(limits)
            }
            pid => run_minder(pid, handles),
        }
    }
}

fn set_limits(limits: &SpawnLimits) -> io::Result<()> {
    forbid_cores();
    // The kernel counts whole seconds, and a limit of 0 would end the command at once. The kill comes one second after
    // SIGXCPU, so that a command usually ends by SIGXCPU, which shows the limit.
    let cpu_seconds = limits.cpu_ms.map(|milliseconds| (milliseconds / 1000).max(1));
    for (resource, limit, grace) in [
        (Resource::Cpu, cpu_seconds, 1),
        (Resource::Data, limits.memory, 0),
        (Resource::Fsize, limits.file_size, 0),
        (Resource::Nofile, limits.open_files, 0),
    ] {
        if let Some(limit) = limit {
            lower_limit(resource, limit, limit.saturating_add(grace))?;
        }
    }
    Ok(())
}

/// Runs the minder until no child is left. It only makes calls that are allowed after a fork of a program with threads:
/// no allocation, no lock.
fn run_minder(command: i32, handles: MinderHandles) -> ! {
    write_all(handles.status, &command.to_ne_bytes());
    keep_only(handles);
    // Without the signals, the minder would not learn that the command ended, so it ends the command.
    let signals = watch_children().ok();
    let (mut command, mut is_ending) = (Some(command), signals.is_none());
    let signals = signals.as_ref().map_or(-1, AsRawFd::as_raw_fd);
    loop {
        if !collect_children(&mut command, handles.status) {
            exit_process(0);
        }
        if is_ending {
            kill_children();
        }
        is_ending |= wait_for_event(handles.lifeline, signals, is_ending);
    }
}

/// Collects every child that ended; returns `false` if no child is left.
fn collect_children(command: &mut Option<i32>, report: RawFd) -> bool {
    loop {
        let mut status = 0;
        // SAFETY: a zeroed rusage is a valid one; the kernel writes into live variables.
        let (pid, usage) = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            (libc::wait4(-1, &raw mut status, libc::WNOHANG, &raw mut usage), usage)
        };
        match pid {
            0 => return true,
            -1 => return false,
            pid if *command == Some(pid) => {
                *command = None;
                let usage = resource_usage(&usage);
                write_all(report, MinderReport { status, usage }.to_bytes().as_flattened());
                // SAFETY: the handle is the minder's own and used by nobody after this.
                unsafe { libc::close(report) };
            }
            _ => {}
        }
    }
}

/// Waits until a child ends or the lifeline breaks; returns whether it broke.
fn wait_for_event(lifeline: RawFd, signals: RawFd, is_ending: bool) -> bool {
    let watched = |fd| libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    };
    // A broken lifeline is always ready, and would make the wait return at once.
    let mut fds = [watched(signals), watched(if is_ending { -1 } else { lifeline })];
    // While ending, the wait is short: the children of a killed child become children of this process without a signal.
    let mut read = [0_u8; 512];
    // SAFETY: the kernel writes into live variables of the sizes that it is told.
    unsafe {
        libc::poll(fds.as_mut_ptr(), 2, if is_ending { 2 } else { -1 });
        libc::read(signals, read.as_mut_ptr().cast(), read.len());
    }
    fds[1].revents != 0
}

/// Kills every child. The children of a killed child are children of the minder the next time.
fn kill_children() {
    let mut text = [0_u8; 4096];
    // SAFETY: the path ends with a NUL, the kernel writes into a live buffer of the size that it is told, and the rest
    // takes numbers.
    let length = unsafe {
        let file = libc::open(c"/proc/thread-self/children".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        let length = libc::read(file, text.as_mut_ptr().cast(), text.len());
        libc::close(file);
        length
    };
    let Ok(length) = usize::try_from(length) else { return };
    // The last number may be cut off by the buffer, and would be another pid.
    let whole = text[..length].iter().rposition(|byte| *byte == b' ').unwrap_or(0);
    for number in text[..whole].split(|byte| *byte == b' ') {
        let digits = number.iter().filter(|byte| byte.is_ascii_digit());
        let pid = digits.fold(0_i32, |pid, digit| {
            pid.wrapping_mul(10).wrapping_add(i32::from(digit - b'0'))
        });
        if pid > 1 {
            // The pid is that of a child which was not collected, so it is nobody else's.
            let _ = send_signal(pid, libc::SIGKILL);
        }
    }
}

/// Closes every other descriptor that was inherited from Garret.
fn keep_only(handles: MinderHandles) {
    // The streams of the command are among them: with the minder's copies open, their readers would never see the end.
    let mut kept = [handles.lifeline, handles.status, handles.lock];
    kept.sort_unstable();
    let mut from = 0;
    for handle in kept {
        close_range(from, handle - 1);
        from = handle + 1;
    }
    close_range(from, RawFd::MAX);
}

fn close_range(from: RawFd, to: RawFd) {
    if from > to {
        return;
    }
    // SAFETY: the minder uses none of these handles, and its memory is its own.
    unsafe {
        // A kernel before 5.9 has no `close_range`.
        if libc::syscall(libc::SYS_close_range, from, to, 0) != 0 {
            let most = libc::sysconf(libc::_SC_OPEN_MAX).clamp(256, 65_536);
            let most = RawFd::try_from(most).unwrap_or(RawFd::MAX);
            (from..=to.min(most)).for_each(|handle| {
                libc::close(handle);
            });
        }
    }
}

fn write_all(handle: RawFd, bytes: &[u8]) {
    // SAFETY: the bytes are live; so few fit into an empty pipe at once.
    unsafe { libc::write(handle, bytes.as_ptr().cast(), bytes.len()) };
}
