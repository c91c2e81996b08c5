//! Sums the resources that the processes of a command have used so far, from the kernel's counters of each process.
//!
//! The counters are read from the `/proc` of the command's own process namespace: every process of the command is in
//! it, daemons too, and no other. The usage of an ended process is added to the process that waited for it, in the end
//! the init. If none waits, the kernel forgets the usage; so the last counters that were read are kept here.
//!
//! A command decides how many processes it has, and the load of the machine how long one takes to read. So a sweep over
//! all processes is made in pieces of a bounded time, between which the server does its other work.

#![cfg(target_os = "linux")]

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::fs::{Dir, Mode, OFlags};
use rustix::io::Errno;

use super::clock::current_time;
use super::ipc_memory;
use super::thread_tracer::next_number;

/// The first process of a command, which outlives all others and waits for orphaned processes.
const INIT: u32 = 1;

/// The resources that were used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ProcessUsage {
    pub(super) cpu_ms: u64,
    /// The bytes that were written to files on a disk.
    pub(super) written: u64,
}

/// The counters of a command.
#[derive(Debug)]
pub(super) struct UsageTally {
    processes: OwnedFd,
    /// The lists of the memory held by System V IPC; empty if a control group limits memory.
    ipc_lists: Vec<OwnedFd>,
    /// The counters of each process by the last complete sweep.
    living: BTreeMap<u32, ProcessCounters>,
    /// The sweep that is not complete yet.
    sweep: Option<ProcessSweep>,
    /// The usage of ended processes that nobody waited for.
    lost: ProcessUsage,
    /// The peak memory of the largest process, if a sweep read it.
    largest: u64,
    /// Whether a process hides the bytes that it writes.
    is_hidden: bool,
}

/// A sweep over every process that is not complete yet.
#[derive(Debug)]
struct ProcessSweep {
    entries: Dir,
    seen: BTreeMap<u32, ProcessCounters>,
}

/// The counters that a sweep reads of each process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CounterSet {
    /// Time and bytes written.
    Usage,
    /// Time, bytes written and the memory in use. The kernel may wait for the process to read the last.
    UsageAndMemory,
    /// Time, bytes written and the most memory that the process ever had.
    UsageAndPeak,
}

/// The counters of a process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct ProcessCounters {
    parent: u32,
    /// Its start time, which tells it from a later process with the same number.
    began: u64,
    /// Its time on processors, with that of the children it waited for.
    cpu_ms: u64,
    children_ms: u64,
    /// The part of `cpu_ms` that was spent in the kernel.
    system_ms: u64,
    /// The bytes it wrote, with those of the children it waited for; `None` if they cannot be read.
    written: Option<u64>,
    /// The bytes of memory in use; shared memory is counted in part.
    memory: u64,
    /// The part of `memory` that is shared and belongs to no file.
    shared_memory: u64,
}

impl UsageTally {
    /// Begins to count the processes that this `/proc` shows.
    pub(super) fn new(processes: OwnedFd, ipc_lists: Vec<OwnedFd>) -> Self {
        Self {
            processes,
            ipc_lists,
            living: BTreeMap::new(),
            sweep: None,
            lost: ProcessUsage::default(),
            largest: 0,
            is_hidden: false,
        }
    }

    /// Continues the sweep for this time, and by at least one process. Returns `None` until the sweep is complete; then
    /// whether processes ended that nobody waited for, so that the next sweep should come soon.
    pub(super) fn continue_sweep(&mut self, piece: Duration, counters: CounterSet) -> Option<bool> {
        let Some(mut sweep) = self.sweep.take().or_else(|| self.begin_sweep()) else {
            return Some(false);
        };
        if !self.read_processes(&mut sweep, piece, counters) {
            self.sweep = Some(sweep);
            return None;
        }
        let seen = sweep.seen;
        let lost = lost_usage(&self.living, &seen);
        self.lost.cpu_ms += lost.cpu_ms;
        self.lost.written += lost.written;
        self.is_hidden |= hides_counters(&self.living, &seen);
        self.living = seen;
        Some(lost != ProcessUsage::default())
    }

    /// Makes a last sweep. A process that it does not reach in time counts with its counters of the last complete
    /// sweep.
    pub(super) fn sweep_last(&mut self, time: Duration) {
        self.sweep = None;
        if self.continue_sweep(time, CounterSet::UsageAndPeak).is_none()
            && let Some(sweep) = self.sweep.take()
        {
            self.living.extend(sweep.seen);
        }
    }

    fn begin_sweep(&self) -> Option<ProcessSweep> {
        Some(ProcessSweep {
            entries: Dir::read_from(&self.processes).ok()?,
            seen: BTreeMap::new(),
        })
    }

    /// Reads the counters of processes until the time is over; returns whether the sweep is complete.
    fn read_processes(&mut self, sweep: &mut ProcessSweep, piece: Duration, counters: CounterSet) -> bool {
        let until = current_time() + piece;
        while let Some(pid) = next_number(&mut sweep.entries) {
            sweep
                .seen
                .extend(self.read_counters(pid, counters).map(|seen| (pid, seen)));
            if current_time() >= until {
                return false;
            }
        }
        true
    }

    /// Returns the usage by the last sweep.
    pub(super) fn total_usage(&self) -> ProcessUsage {
        let living = self.living.values();
        ProcessUsage {
            cpu_ms: self.lost.cpu_ms + living.clone().map(|seen| seen.cpu_ms).sum::<u64>(),
            written: self.lost.written + living.filter_map(|seen| seen.written).sum::<u64>(),
        }
    }

    /// Returns the time in the kernel of the processes of the last sweep.
    pub(super) fn system_ms(&self) -> u64 {
        self.living.values().map(|seen| seen.system_ms).sum()
    }

    /// Returns the peak memory of the largest process that the last sweep reached.
    pub(super) fn largest_memory(&self) -> u64 {
        self.largest
    }

    /// Returns whether some process hid the bytes that it wrote.
    pub(super) fn is_hidden(&self) -> bool {
        self.is_hidden
    }

    /// Returns the bytes of memory in use by the last sweep, with the memory held by System V IPC that no process has
    /// attached; shared memory is counted in part.
    pub(super) fn memory_in_use(&self) -> u64 {
        let all: u64 = self.living.values().map(|seen| seen.memory).sum();
        // Attached segments of System V IPC are in the sum of the processes already, as shared memory.
        let shared = self.living.values().map(|seen| seen.shared_memory).sum();
        all + ipc_memory::bytes_held(&self.ipc_lists).saturating_sub(shared)
    }

    fn read_counters(&mut self, pid: u32, counters: CounterSet) -> Option<ProcessCounters> {
        let mut seen = parse_stat(&self.read_process_file(pid, "stat").ok()?)?;
        match counters {
            CounterSet::Usage => {}
            CounterSet::UsageAndMemory => {
                let text = self.read_process_file(pid, "smaps_rollup").unwrap_or_default();
                seen.memory = field_value(&text, "Pss:") * 1024;
                seen.shared_memory = field_value(&text, "Pss_Shmem:") * 1024;
            }
            CounterSet::UsageAndPeak => {
                let text = self.read_process_file(pid, "status").unwrap_or_default();
                self.largest = self.largest.max(field_value(&text, "VmHWM:") * 1024);
            }
        }
        let written = match self.read_process_file(pid, "io") {
            Ok(text) => Some(field_value(&text, "write_bytes:")),
            Err(Errno::ACCESS | Errno::PERM) => None,
            // The process has just ended.
            Err(_) => Some(0),
        };
        Some(ProcessCounters { written, ..seen })
    }

    fn read_process_file(&self, pid: u32, name: &str) -> rustix::io::Result<String> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.processes, format!("{pid}/{name}"), flags, Mode::empty())?;
        let mut bytes = [0; 4096];
        let length = rustix::io::read(&file, &mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes[..length]).into_owned())
    }
}

/// Returns the usage of processes that have ended since `before`, except the part that a process took over by waiting
/// for them.
fn lost_usage(before: &BTreeMap<u32, ProcessCounters>, after: &BTreeMap<u32, ProcessCounters>) -> ProcessUsage {
    let mut gone: BTreeMap<u32, ProcessUsage> = BTreeMap::new();
    for (pid, seen) in before {
        if !is_there(*pid, seen, after) {
            let heir = gone
                .entry(nearest_living_ancestor(seen.parent, before, after))
                .or_default();
            heir.cpu_ms += seen.cpu_ms;
            heir.written += seen.written.unwrap_or(0);
        }
    }
    let mut lost = ProcessUsage::default();
    for (heir, left) in &gone {
        let rise = usage_taken_over(*heir, before, after);
        lost.cpu_ms += left.cpu_ms.saturating_sub(rise.cpu_ms);
        lost.written += left.written.saturating_sub(rise.written);
    }
    // The init may have waited for processes whose parents ended first.
    let left = gone.get(&INIT).copied().unwrap_or_default();
    let orphans = usage_taken_over(INIT, before, after).cpu_ms.saturating_sub(left.cpu_ms);
    lost.cpu_ms = lost.cpu_ms.saturating_sub(orphans);
    lost
}

fn is_there(pid: u32, seen: &ProcessCounters, after: &BTreeMap<u32, ProcessCounters>) -> bool {
    after.get(&pid).is_some_and(|now| now.began == seen.began)
}

/// Returns the nearest ancestor that still runs.
fn nearest_living_ancestor(
    parent: u32,
    before: &BTreeMap<u32, ProcessCounters>,
    after: &BTreeMap<u32, ProcessCounters>,
) -> u32 {
    let mut pid = parent;
    // Bounded by the number of processes: parents that were read at different moments need not form a tree.
    for _ in 0..before.len() {
        match before.get(&pid) {
            Some(seen) if !is_there(pid, seen, after) => pid = seen.parent,
            Some(_) => return pid,
            None => break,
        }
    }
    INIT
}

/// Returns the usage that a process took over, at most, between two sweeps. For the init the bytes are 0: its counters
/// cannot be read.
fn usage_taken_over(
    pid: u32,
    before: &BTreeMap<u32, ProcessCounters>,
    after: &BTreeMap<u32, ProcessCounters>,
) -> ProcessUsage {
    let (Some(before), Some(after)) = (before.get(&pid), after.get(&pid)) else {
        return ProcessUsage::default();
    };
    let written = |seen: &ProcessCounters| seen.written.unwrap_or(0);
    ProcessUsage {
        cpu_ms: after.children_ms.saturating_sub(before.children_ms),
        written: written(after).saturating_sub(written(before)),
    }
}

/// Returns whether the counters of a process could not be read twice in a row.
fn hides_counters(before: &BTreeMap<u32, ProcessCounters>, after: &BTreeMap<u32, ProcessCounters>) -> bool {
    // Once means nothing: the counters of any process are closed for a moment while it executes a program.
    let is_closed = |seen: &ProcessCounters| seen.written.is_none();
    after
        .iter()
        .any(|(pid, seen)| *pid != INIT && is_closed(seen) && before.get(pid).is_some_and(is_closed))
}

/// Parses the parent, the times (in hundredths of a second) and the start time: the fields 4, 14 to 17 and 22.
fn parse_stat(stat: &str) -> Option<ProcessCounters> {
    let after_name = &stat[stat.rfind(')')? + 1..];
    let fields: Vec<u64> = after_name
        .split_whitespace()
        .map(|field| field.parse().unwrap_or(0))
        .collect();
    let times = fields.get(11..15)?;
    Some(ProcessCounters {
        parent: u32::try_from(fields[1]).ok()?,
        began: *fields.get(19)?,
        cpu_ms: times.iter().sum::<u64>() * 10,
        children_ms: times[2..].iter().sum::<u64>() * 10,
        system_ms: (times[1] + times[3]) * 10,
        ..ProcessCounters::default()
    })
}

fn field_value(text: &str, name: &str) -> u64 {
    text.lines()
        .find_map(|line| line.strip_prefix(name))
        .and_then(|rest| rest.split_whitespace().next())
        .and_then(|number| number.parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "the tests make files like those of `/proc`")]
mod tests {
    use super::*;

    fn seen(parent: u32, cpu_ms: u64, children_ms: u64, written: u64) -> ProcessCounters {
        ProcessCounters {
            parent,
            began: 7,
            cpu_ms: cpu_ms + children_ms,
            children_ms,
            written: Some(written),
            ..ProcessCounters::default()
        }
    }

    fn init(children_ms: u64) -> (u32, ProcessCounters) {
        let closed = ProcessCounters {
            written: None,
            ..seen(0, 0, children_ms, 0)
        };
        (INIT, closed)
    }

    fn used(cpu_ms: u64, written: u64) -> ProcessUsage {
        ProcessUsage { cpu_ms, written }
    }

    #[test]
    fn the_time_is_found_behind_any_name() {
        let stat = "7 (a) b) R 3 7 7 0 -1 4194304 100 0 0 0 3 4 5 6 20 0 1 0 99 1 1";
        let seen = parse_stat(stat).unwrap();
        assert_eq!((seen.parent, seen.began), (3, 99));
        assert_eq!((seen.cpu_ms, seen.children_ms, seen.system_ms), (180, 110, 100));
        assert_eq!(parse_stat(""), None);
    }

    #[test]
    fn what_was_written_is_not_what_was_cancelled() {
        let text = "rchar: 1\nwchar: 2\nwrite_bytes: 4096\ncancelled_write_bytes: 7\n";
        assert_eq!(field_value(text, "write_bytes:"), 4096);
    }

    #[test]
    fn who_was_waited_for_is_counted_once() {
        let before = BTreeMap::from([init(0), (2, seen(1, 10, 0, 5)), (3, seen(2, 40, 0, 100))]);
        let after = BTreeMap::from([init(0), (2, seen(1, 10, 50, 130))]);
        assert_eq!(lost_usage(&before, &after), used(0, 0));
    }

    #[test]
    fn who_was_not_waited_for_is_remembered() {
        let before = BTreeMap::from([init(0), (2, seen(1, 10, 0, 5)), (3, seen(2, 40, 0, 100))]);
        let after = BTreeMap::from([init(0), (2, seen(1, 20, 0, 5))]);
        assert_eq!(lost_usage(&before, &after), used(40, 100));
        let reused = ProcessCounters {
            began: 8,
            ..seen(2, 0, 0, 0)
        };
        let after = BTreeMap::from([init(0), (2, seen(1, 20, 0, 5)), (3, reused)]);
        assert_eq!(lost_usage(&before, &after), used(40, 100));
    }

    #[test]
    fn a_whole_family_that_is_gone_is_looked_for_at_who_is_left_above_it() {
        let before = BTreeMap::from([
            init(0),
            (2, seen(1, 0, 0, 0)),
            (3, seen(2, 40, 0, 10)),
            (4, seen(3, 30, 0, 20)),
        ]);
        let after = BTreeMap::from([init(0), (2, seen(1, 0, 70, 30))]);
        assert_eq!(lost_usage(&before, &after), used(0, 0));
        // An orphan, for whom the init waited: its time is found there, and what it wrote is known from here only.
        let after = BTreeMap::from([init(30), (2, seen(1, 0, 40, 10))]);
        assert_eq!(lost_usage(&before, &after), used(0, 20));
    }

    #[test]
    fn who_is_closed_for_a_moment_hides_nothing() {
        let closed = ProcessCounters {
            written: None,
            ..seen(1, 0, 0, 0)
        };
        let (open, shut) = (
            BTreeMap::from([init(0), (2, seen(1, 0, 0, 0))]),
            BTreeMap::from([init(0), (2, closed)]),
        );
        assert!(!hides_counters(&open, &shut) && !hides_counters(&shut, &open) && hides_counters(&shut, &shut));
    }

    /// A directory that looks like `/proc` with so many processes.
    fn shown(processes: u32) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        for pid in 1..=processes {
            let own = directory.path().join(pid.to_string());
            std::fs::create_dir(&own).unwrap();
            let stat = format!("{pid} (a) R 1 7 7 0 -1 0 0 0 0 0 1 0 0 0 20 0 1 0 7 1 1");
            std::fs::write(own.join("stat"), stat).unwrap();
            std::fs::write(own.join("io"), "write_bytes: 10\n").unwrap();
            std::fs::write(own.join("smaps_rollup"), "Pss: 3 kB\n").unwrap();
            std::fs::write(own.join("status"), "VmHWM: 4 kB\n").unwrap();
        }
        directory
    }

    fn tally(directory: &tempfile::TempDir) -> UsageTally {
        UsageTally::new(std::fs::File::open(directory.path()).unwrap().into(), Vec::new())
    }

    #[test]
    fn a_look_takes_no_longer_at_once_than_it_may_however_many_processes_there_are() {
        let directory = shown(50);
        let mut tally = tally(&directory);
        let mut pieces = 1;
        while tally
            .continue_sweep(Duration::ZERO, CounterSet::UsageAndMemory)
            .is_none()
        {
            assert_eq!(
                (tally.total_usage(), tally.memory_in_use()),
                (used(0, 0), 0),
                "a part counts for nothing"
            );
            pieces += 1;
        }
        assert_eq!(pieces, 51);
        assert_eq!(
            (tally.total_usage(), tally.memory_in_use()),
            (used(500, 500), 150 * 1024)
        );
    }

    #[test]
    fn the_last_look_counts_what_it_does_not_reach_as_it_was() {
        let directory = shown(50);
        let mut tally = tally(&directory);
        tally.continue_sweep(Duration::from_secs(60), CounterSet::Usage);
        let more = "1 (a) R 1 7 7 0 -1 0 0 0 0 0 3 0 0 0 20 0 1 0 7 1 1";
        for pid in 1..=50 {
            std::fs::write(directory.path().join(format!("{pid}/stat")), more).unwrap();
        }
        tally.sweep_last(Duration::ZERO);
        assert_eq!((tally.total_usage(), tally.largest_memory()), (used(520, 500), 4096));
        tally.sweep_last(Duration::from_secs(60));
        assert_eq!(tally.total_usage(), used(1500, 500));
    }
}
