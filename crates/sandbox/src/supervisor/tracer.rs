//! Stops the processes of a command by tracing them, where no control group can freeze them.
//!
//! A thread that is stopped by its tracer stays so, whatever signal it is sent, SIGCONT included. When it is let go, it is what it was: one
//! that a signal had stopped before is still stopped, and a signal that it was about to take reaches it.

#![cfg(target_os = "linux")]

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::sys::{self, Status};

/// How often the processes are looked at in vain before the init gives up; the server has long ended it by then.
const LOOKS: u32 = 3_000;
/// How many looks in a row must find everything still. A process can escape one look if it hands over to a child whose number is lower, which
/// happens only where the numbers start anew.
const CLEAN_LOOKS: u32 = 2;
/// Where the kernel has a process wait until the child that shares its memory executes a program or ends.
pub(crate) const WAITS_FOR_CHILD: [&[u8]; 3] = [b"kernel_clone", b"wait_for_vfork_done", b"_do_fork"];

/// The threads that this process traces.
#[derive(Debug, Default)]
pub(super) struct Tracer {
    /// Each with the signal that it was about to take; 0 for none.
    threads: BTreeMap<i32, i32>,
    is_holding: bool,
}

/// What came of stopping everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stopping {
    /// Nothing runs.
    Still,
    /// The program ended meanwhile.
    Ended(Status),
    /// Something runs on.
    Failed,
}

impl Tracer {
    /// Stops every thread of every process in this process namespace but its first process, which calls this.
    pub(super) fn stop_all(&mut self, program: i32) -> Stopping {
        self.is_holding = true;
        let mut clean_looks = 0;
        for look in 0..LOOKS {
            if let Some(status) = self.collect(program) {
                return Stopping::Ended(status);
            }
            clean_looks = if self.look().unwrap_or(false) {
                clean_looks + 1
            } else {
                0
            };
            if clean_looks == CLEAN_LOOKS {
                return Stopping::Still;
            }
            if clean_looks == 0 {
                std::thread::sleep(Duration::from_micros(if look < 20 { 50 } else { 500 }));
            }
        }
        Stopping::Failed
    }

    /// Lets everything go on.
    pub(super) fn let_go(&mut self) {
        self.is_holding = false;
        for (thread, signal) in std::mem::take(&mut self.threads) {
            // One that waits in the kernel cannot be let go before it stops; `collect` hears of that.
            let _ = sys::detach(thread, signal);
        }
    }

    /// Takes note of every child that ended and of every thread that stopped; how the program ended, if it did.
    pub(super) fn collect(&mut self, program: i32) -> Option<Status> {
        while let Ok(Some(waited)) = sys::wait_any(false) {
            match waited.status {
                Status::Stopped(signal) if self.is_holding => {
                    self.threads.insert(waited.pid, signal);
                }
                Status::Stopped(signal) => {
                    let _ = sys::detach(waited.pid, signal);
                }
                status => {
                    self.threads.remove(&waited.pid);
                    if waited.pid == program {
                        return Some(status);
                    }
                }
            }
        }
        None
    }

    /// Looks at every thread, and begins to trace those that run; whether none does.
    fn look(&mut self) -> rustix::io::Result<bool> {
        let mut is_still = true;
        for pid in numbers(&directory("/proc")?)?.into_iter().filter(|pid| *pid != 1) {
            let Ok(tasks) = directory(&format!("/proc/{pid}/task")) else {
                continue;
            };
            for thread in numbers(&tasks)? {
                let path = format!("/proc/{pid}/task/{thread}");
                if !is_thread_still(&path) {
                    is_still = false;
                    self.trace(thread as i32);
                }
            }
        }
        Ok(is_still)
    }

    fn trace(&mut self, thread: i32) {
        // One that is gone, or that another process of the command traces, cannot be traced: the next look tells.
        if !self.threads.contains_key(&thread) && sys::seize(thread).is_ok() {
            self.threads.insert(thread, 0);
            let _ = sys::interrupt(thread);
        }
    }
}

/// Whether a thread runs nothing and cannot begin to: it is stopped by a tracer, dead, or waits for a child that is so itself. A tracer other
/// than this process is a process of the same command, and so is stopped too.
fn is_thread_still(path: &str) -> bool {
    let stat = match read(&format!("{path}/stat")) {
        Ok(stat) => stat,
        Err(error) => return matches!(error, Errno::NOENT | Errno::SRCH),
    };
    match state(&stat) {
        Some(b't' | b'Z' | b'X') => true,
        Some(b'D') => read(&format!("{path}/wchan")).is_ok_and(|place| WAITS_FOR_CHILD.contains(&place.as_slice())),
        _ => false,
    }
}

/// The state stands after the name, which may hold anything, parentheses too.
fn state(stat: &[u8]) -> Option<u8> {
    let end_of_name = stat.iter().rposition(|byte| *byte == b')')?;
    stat.get(end_of_name + 2).copied()
}

fn read(path: &str) -> rustix::io::Result<Vec<u8>> {
    let file = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let mut bytes = vec![0; 512];
    let length = rustix::io::read(&file, &mut bytes)?;
    bytes.truncate(length);
    Ok(bytes)
}

fn directory(path: &str) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty())
}

/// The entries of a directory of `/proc` that are numbers.
pub(super) fn numbers(directory: &OwnedFd) -> rustix::io::Result<Vec<u32>> {
    let entries = rustix::fs::Dir::read_from(directory)?.flatten();
    Ok(entries
        .filter_map(|entry| entry.file_name().to_str().ok()?.parse().ok())
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_is_found_behind_any_name() {
        assert_eq!(state(b"7 (a) R) t 3 7"), Some(b't'));
        assert_eq!(state(b"7 (a"), None);
    }
}
