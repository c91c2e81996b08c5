//! The process tree of a command.

#![cfg(target_os = "linux")]

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use garret_core::ResourceLimit;
use garret_handles::{list_names, open_child};
use rustix::fs::CWD;
use rustix::process::{Pid, Signal, kill_process};

use crate::supervisor::thread_tracer::{is_gone, is_thread_stopped};

/// The time that processes have to stop before they are checked again.
const STOP_WAIT: Duration = Duration::from_millis(2);

/// The processes of a command, under its minder.
#[derive(Debug)]
pub(super) struct ProcessTree {
    minder: i32,
    command: i32,
    child: Mutex<Child>,
    lifeline: Mutex<Option<OwnedFd>>,
    limit: Mutex<Option<ResourceLimit>>,
    has_ended: AtomicBool,
}

fn lock_mutex<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ProcessTree {
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

    /// Ends every process; does not wait for their end.
    pub(super) fn end_processes(&self) {
        lock_mutex(&self.lifeline).take();
    }

    /// Ends every process; records `limit` as the reason, unless the command ended before.
    pub(super) fn end_by_limit(&self, limit: ResourceLimit) {
        if !self.has_ended.load(Ordering::Acquire) {
            lock_mutex(&self.limit).get_or_insert(limit);
        }
        self.end_processes();
    }

    /// Records that the command itself has ended; returns the limit that ended it.
    pub(super) fn mark_ended(&self) -> Option<ResourceLimit> {
        self.has_ended.store(true, Ordering::Release);
        *lock_mutex(&self.limit)
    }

    /// Waits until no process of the tree is left.
    pub(super) fn wait_until_gone(&self) {
        // The minder ends when it has no child any more, so its end is the end of the tree.
        let _ = lock_mutex(&self.child).wait();
    }

    /// Signals the command itself, unless it has ended.
    pub(super) fn signal_command(&self, signal: Signal) {
        // After the end, the number may belong to another process.
        if !self.has_ended.load(Ordering::Acquire) {
            send_signal(self.command, signal);
        }
    }

    /// Lets every process continue.
    pub(super) fn resume_processes(&self) {
        // All are found before the first continues: it may end at once, and its children would be missed while they
        // change their parent.
        let mut stopped = Vec::new();
        self.each_process(|pid| {
            stopped.push(pid);
            true
        });
        stopped.into_iter().for_each(|pid| send_signal(pid, Signal::CONT));
    }

    /// Checks every process, and signals each that runs to stop. Ends early at `deadline`, because a tree that grows
    /// has no end.
    fn check_processes(&self, deadline: Instant) -> TreeCheck {
        let (mut processes, mut has_moving) = (BTreeSet::new(), false);
        let is_whole = self.each_process(|pid| {
            processes.insert(pid);
            if !is_process_stopped(pid) {
                has_moving = true;
                send_signal(pid, Signal::STOP);
            }
            Instant::now() < deadline
        });
        match (is_whole, has_moving) {
            (true, false) => TreeCheck::AllStopped(processes),
            _ => TreeCheck::SomeRunning,
        }
    }

    /// Passes each process below the minder to `take`, parents before children, until `take` returns `false`; returns
    /// whether it took all.
    fn each_process(&self, mut take: impl FnMut(i32) -> bool) -> bool {
        let (mut found, mut open) = (BTreeSet::new(), vec![self.minder]);
        while let Some(pid) = open.pop() {
            if pid != self.minder && !take(pid) {
                return false;
            }
            open.extend(children_of(pid).into_iter().filter(|child| found.insert(*child)));
        }
        true
    }
}

/// The result of a check of a tree.
#[derive(Debug, PartialEq, Eq)]
enum TreeCheck {
    /// These are all processes, and each is stopped.
    AllStopped(BTreeSet<i32>),
    /// One ran, or not all could be checked in time.
    SomeRunning,
}

/// A tree that is being paused.
#[derive(Debug)]
struct PausingTree {
    tree: Arc<ProcessTree>,
    /// The newest check; `None` before the first.
    look: Option<TreeCheck>,
    is_still: bool,
}

impl PausingTree {
    fn new(tree: Arc<ProcessTree>) -> Self {
        Self {
            tree,
            look: None,
            is_still: false,
        }
    }

    /// Checks the tree again. It is stopped when two checks in a row found the same processes, all of them stopped.
    fn check_again(&mut self, deadline: Instant) {
        let look = self.tree.check_processes(deadline);
        // One check is not enough: before a process is stopped itself, it can wake one that was checked already; and a
        // process that hands over to its child and ends can hide both.
        self.is_still = match &look {
            TreeCheck::AllStopped(processes) => processes.is_empty() || self.look.as_ref() == Some(&look),
            TreeCheck::SomeRunning => false,
        };
        self.look = Some(look);
    }

    fn has_moved(&self) -> bool {
        self.look == Some(TreeCheck::SomeRunning)
    }
}

/// Stops every process of all trees, and ends each tree that is not stopped after `within`; returns the number of ended
/// trees.
///
/// Without a namespace only signals can stop a process, and every process of the user can send the signal that undoes
/// them. So the trees are paused together, and after one was ended, the others are checked anew: it may have woken them
/// until its end.
pub(super) fn pause_all(mut trees: Vec<Arc<ProcessTree>>, within: Duration) -> u64 {
    let mut ended = 0;
    loop {
        let mut all: Vec<_> = trees.into_iter().map(PausingTree::new).collect();
        if stop_trees(&mut all, within) {
            return ended;
        }
        // If one tree runs, others may lack only the second check: they are not ended for that.
        let has_moved = all.iter().any(PausingTree::has_moved);
        let is_resisting = |one: &PausingTree| {
            if has_moved {
                one.has_moved()
            } else {
                !one.is_still && one.look.is_some()
            }
        };
        let (resisting, others): (Vec<_>, Vec<_>) = all.into_iter().partition(is_resisting);
        resisting
            .iter()
            .for_each(|one| one.tree.end_by_limit(ResourceLimit::Pause));
        resisting.iter().for_each(|one| one.tree.wait_until_gone());
        ended += resisting.len() as u64;
        trees = others.into_iter().map(|one| one.tree).collect();
    }
}

/// Stops the trees; returns whether all of them are stopped at the same time before the time is over.
fn stop_trees(all: &mut [PausingTree], within: Duration) -> bool {
    let deadline = Instant::now() + within;
    loop {
        for one in &mut *all {
            one.check_again(deadline);
            if Instant::now() >= deadline {
                break;
            }
        }
        if all.iter().all(|one| one.is_still) {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        if all.iter().any(PausingTree::has_moved) {
            std::thread::sleep(STOP_WAIT);
        }
    }
}

/// Ends the tree when its last owner drops it.
impl Drop for ProcessTree {
    fn drop(&mut self) {
        self.end_processes();
    }
}

fn send_signal(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        // A process that has ended needs no signal.
        let _ = kill_process(pid, signal);
    }
}

/// Returns the children of all threads of a process.
fn children_of(pid: i32) -> Vec<i32> {
    let lists = threads_of(pid).unwrap_or_default();
    let lists = lists
        .iter()
        .filter_map(|thread| std::fs::read_to_string(thread.join("children")).ok());
    lists
        .flat_map(|list| {
            list.split_whitespace()
                .filter_map(|pid| pid.parse().ok())
                .collect::<Vec<_>>()
        })
        .collect()
}

/// Returns the directories of the threads of a process under `/proc`.
fn threads_of(pid: i32) -> rustix::io::Result<Vec<PathBuf>> {
    let tasks = PathBuf::from(format!("/proc/{pid}/task"));
    let names = list_names(open_child(CWD, &tasks)?)?;
    Ok(names.iter().map(|name| tasks.join(OsStr::from_bytes(name))).collect())
}

/// Returns whether no thread of a process runs.
fn is_process_stopped(pid: i32) -> bool {
    // The state of the process itself is that of its first thread, which may have ended before others.
    match threads_of(pid) {
        Ok(threads) => threads.iter().all(|thread| is_thread_stopped(thread, b"TtZX")),
        Err(error) => is_gone(error),
    }
}
