//! A command with everything that it started.

#![cfg(target_os = "linux")]

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use garret_core::Limit;
use rustix::process::{Pid, Signal, kill_process};

use crate::supervisor::tracer::WAITS_FOR_CHILD;

const MOMENT: Duration = Duration::from_millis(2);
/// How often processes that were told to stop are looked at until they did: for a second, which a process that waits for a disk may exceed.
const MOST_LOOKS: usize = 500;
/// How many looks in a row must find everything still: one process may wake another that was just looked at, before it is stopped itself.
const CLEAN_LOOKS: usize = 2;

/// A command under its minder.
#[derive(Debug)]
pub(super) struct Tree {
    minder: i32,
    command: i32,
    child: Mutex<Child>,
    lifeline: Mutex<Option<OwnedFd>>,
    limit: Mutex<Option<Limit>>,
    has_ended: AtomicBool,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Tree {
    pub(super) fn new(child: Child, command: i32, lifeline: OwnedFd) -> Self {
        Self {
            minder: i32::try_from(child.id()).expect("a pid is an int"),
            command,
            child: Mutex::new(child),
            lifeline: Mutex::new(Some(lifeline)),
            limit: Mutex::new(None),
            has_ended: AtomicBool::new(false),
        }
    }

    /// Ends everything; does not wait for it.
    pub(super) fn end(&self) {
        locked(&self.lifeline).take();
    }

    /// Ends everything because of `limit`, unless the command ended before.
    pub(super) fn end_by(&self, limit: Limit) {
        if !self.has_ended.load(Ordering::Acquire) {
            locked(&self.limit).get_or_insert(limit);
        }
        self.end();
    }

    /// The command itself has ended, and what ended it.
    pub(super) fn ended(&self) -> Option<Limit> {
        self.has_ended.store(true, Ordering::Release);
        *locked(&self.limit)
    }

    /// Waits until nothing of it is left.
    pub(super) fn wait_until_gone(&self) {
        // The minder ends when it has no child any more, and cannot fail to.
        let _ = locked(&self.child).wait();
    }

    /// Signals the command itself; one that ended hears nothing.
    pub(super) fn signal(&self, signal: Signal) {
        if !self.has_ended.load(Ordering::Acquire) {
            send(self.command, signal);
        }
    }

    /// Stops every process where it stands; whether all of them did. Without a namespace, signals must do: processes that wake each other
    /// again and again are not stopped.
    pub(super) fn pause(&self) -> bool {
        let mut clean_looks = 0;
        for _ in 0..MOST_LOOKS {
            let processes = self.processes();
            let moving: Vec<_> = processes.iter().filter(|pid| !is_still(**pid)).collect();
            clean_looks = if moving.is_empty() { clean_looks + 1 } else { 0 };
            if clean_looks == CLEAN_LOOKS {
                return true;
            }
            if !moving.is_empty() {
                moving.into_iter().for_each(|pid| send(*pid, Signal::STOP));
                std::thread::sleep(MOMENT);
            }
        }
        false
    }

    /// Lets every process go on.
    pub(super) fn resume(&self) {
        self.processes().into_iter().for_each(|pid| send(pid, Signal::CONT));
    }

    /// Everything below the minder.
    fn processes(&self) -> BTreeSet<i32> {
        let (mut found, mut open) = (BTreeSet::new(), vec![self.minder]);
        while let Some(pid) = open.pop() {
            open.extend(children(pid).into_iter().filter(|child| found.insert(*child)));
        }
        found
    }
}

/// A tree that nobody holds any more ends.
impl Drop for Tree {
    fn drop(&mut self) {
        self.end();
    }
}

fn send(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        // One that is gone needs no signal.
        let _ = kill_process(pid, signal);
    }
}

/// The children of all threads of a process.
fn children(pid: i32) -> Vec<i32> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten()
        .flatten();
    let lists = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    lists
        .flat_map(|list| {
            list.split_whitespace()
                .filter_map(|pid| pid.parse().ok())
                .collect::<Vec<_>>()
        })
        .collect()
}

/// Whether a process is stopped or dead, or waits in the kernel for a child that shares its memory and is so itself.
fn is_still(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The state follows the name, which is in parentheses and may hold anything.
    let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    match state {
        None | Some('T' | 't' | 'Z' | 'X') => true,
        Some('D') => {
            let place = std::fs::read(format!("/proc/{pid}/wchan")).unwrap_or_default();
            WAITS_FOR_CHILD.contains(&place.as_slice())
        }
        Some(_) => false,
    }
}
