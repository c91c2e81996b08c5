//! Stops the processes of a command by tracing them, if no control group can freeze them.
//!
//! A thread that is stopped by its tracer stays stopped, whatever signal it is sent, SIGCONT included. When the tracer
//! detaches, the thread is in its state from before: one that a signal had stopped is still stopped, and a signal that
//! was about to be delivered reaches it.

#![cfg(target_os = "linux")]

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use garret_handles::open_child;
use rustix::fs::{CWD, Dir, Mode, OFlags};
use rustix::io::Errno;

use super::clock::current_time;
use super::sys::{self, ChildStatus};

/// The kernel functions in which a process waits until the child that shares its memory executes a program or ends.
const WAITS_FOR_CHILD: [&[u8]; 3] = [b"kernel_clone", b"wait_for_vfork_done", b"_do_fork"];

/// The threads that this process traces.
#[derive(Debug, Default)]
pub(super) struct ThreadTracer {
    /// Each thread with the signal that it was about to take; 0 for none.
    threads: BTreeMap<i32, i32>,
    is_holding: bool,
}

/// The result of stopping every process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StopOutcome {
    /// Every process is stopped.
    AllStopped,
    /// The program ended meanwhile.
    Ended(ChildStatus),
    /// Some process still runs.
    Failed,
}

impl ThreadTracer {
    /// Stops every thread of every process in this process namespace except its first process, which calls this. Gives
    /// up after `within`, also in the middle of a scan of `/proc`.
    ///
    /// Every process is stopped when two scans in a row find the same threads, all of them stopped. A process that
    /// hands over to a child and ends escapes one scan; its child is then a new thread of the next one.
    pub(super) fn stop_all(&mut self, program: i32, within: Duration) -> StopOutcome {
        self.is_holding = true;
        let until = current_time() + within;
        let mut still_before = None;
        let mut looks = 0;
        while current_time() < until {
            if let Some(status) = self.collect_children(program) {
                return StopOutcome::Ended(status);
            }
            let still = self.scan_threads(until).unwrap_or(None);
            if still.is_some() && still == still_before {
                return StopOutcome::AllStopped;
            }
            if still.is_none() {
                std::thread::sleep(Duration::from_micros(if looks < 20 { 50 } else { 500 }));
            }
            still_before = still;
            looks += 1;
        }
        StopOutcome::Failed
    }

    /// Lets every process continue.
    pub(super) fn release_all(&mut self) {
        self.is_holding = false;
        for (thread, signal) in std::mem::take(&mut self.threads) {
            // A thread that waits in the kernel cannot be detached before it stops; `collect_children` does so then.
            let _ = sys::detach_thread(thread, signal);
        }
    }

    /// Collects every child that ended and every thread that stopped; returns how the program ended, if it did.
    pub(super) fn collect_children(&mut self, program: i32) -> Option<ChildStatus> {
        while let Ok(Some(waited)) = sys::wait_any(false) {
            match waited.status {
                ChildStatus::Stopped(signal) if self.is_holding => {
                    self.threads.insert(waited.pid, signal);
                }
                ChildStatus::Stopped(signal) => {
                    let _ = sys::detach_thread(waited.pid, signal);
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

    /// Scans every thread, and begins to trace those that run. Returns the threads if none of them runs; `None` if one
    /// does, or if the time is over before the last one.
    fn scan_threads(&mut self, until: Instant) -> rustix::io::Result<Option<Vec<u32>>> {
        let mut is_still = true;
        let mut threads = Vec::new();
        let mut processes = open_entries("/proc")?;
        while let Some(pid) = next_number(&mut processes) {
            if pid == 1 {
                continue;
            }
            let mut tasks = match open_entries(&format!("/proc/{pid}/task")) {
                Ok(tasks) => tasks,
                Err(error) => {
                    is_still &= is_gone(error);
                    continue;
                }
            };
            while let Some(thread) = next_number(&mut tasks) {
                if current_time() >= until {
                    return Ok(None);
                }
                threads.push(thread);
                // A tracer other than this process is a process of the same command, and so is stopped too.
                if !is_thread_stopped(Path::new(&format!("/proc/{pid}/task/{thread}")), b"tZX") {
                    is_still = false;
                    self.trace_thread(thread as i32);
                }
            }
        }
        Ok(is_still.then_some(threads))
    }

    fn trace_thread(&mut self, thread: i32) {
        // A thread that has ended, or that another process of the command traces, cannot be traced: the next scan tells
        // which.
        if !self.threads.contains_key(&thread) && sys::seize_thread(thread).is_ok() {
            self.threads.insert(thread, 0);
            let _ = sys::interrupt_thread(thread);
        }
    }
}

/// Returns whether a thread, by its directory under `/proc`, does not run and cannot begin to: it is in one of these
/// states, has ended, or waits in the kernel for a child that shares its memory and for which the same holds.
pub(crate) fn is_thread_stopped(thread: &Path, stopped: &[u8]) -> bool {
    let stat = match read_proc_file(&thread.join("stat")) {
        Ok(stat) => stat,
        Err(error) => return is_gone(error),
    };
    match thread_state(&stat) {
        Some(b'D') => {
            read_proc_file(&thread.join("wchan")).is_ok_and(|place| WAITS_FOR_CHILD.contains(&place.as_slice()))
        }
        state => state.is_some_and(|state| stopped.contains(&state)),
    }
}

/// Returns the state of a thread from its `stat` file.
fn thread_state(stat: &[u8]) -> Option<u8> {
    // The state follows the name, which may hold any byte, a parenthesis too: so the last one is searched for.
    let end_of_name = stat.iter().rposition(|byte| *byte == b')')?;
    stat.get(end_of_name + 2).copied()
}

fn read_proc_file(path: &Path) -> rustix::io::Result<Vec<u8>> {
    let file = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let mut bytes = vec![0; 512];
    let length = rustix::io::read(&file, &mut bytes)?;
    bytes.truncate(length);
    Ok(bytes)
}

/// Returns whether an error of `/proc` says that the process or thread has ended. One that cannot be checked for another
/// reason may run.
pub(crate) fn is_gone(error: Errno) -> bool {
    matches!(error, Errno::NOENT | Errno::SRCH)
}

fn open_entries(path: &str) -> rustix::io::Result<Dir> {
    Dir::new(open_child(CWD, path)?)
}

/// Returns the next entry of a directory of `/proc` that is a number. The kernel lists the processes in order of their
/// numbers, each in its state at that moment.
pub(super) fn next_number(entries: &mut Dir) -> Option<u32> {
    let mut numbers = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str().ok()?.parse().ok());
    numbers.next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_is_found_behind_any_name() {
        assert_eq!(thread_state(b"7 (a) R) t 3 7"), Some(b't'));
        assert_eq!(thread_state(b"7 (a"), None);
    }
}
