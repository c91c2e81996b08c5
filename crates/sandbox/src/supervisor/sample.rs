//! What the processes of a command used so far, all together, as the kernel counts it for each.
//!
//! The view is the `/proc` of the command's own process namespace: whatever the command started is in it, daemons too, and nothing else is.
//! What ended is counted by whoever waited for it, in the end by the init. Where nobody waits, the kernel forgets what a process used; so what
//! was last seen of it is remembered here.

#![cfg(target_os = "linux")]

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::ipc;
use super::tracer::numbers;

/// The first process of a command, which outlives all others and waits for whoever is orphaned.
const INIT: u32 = 1;

/// What was used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Used {
    pub(super) cpu_ms: u64,
    /// Bytes that were written to files that reach a disk.
    pub(super) written: u64,
}

/// The counters of a command.
#[derive(Debug)]
pub(super) struct Tally {
    processes: OwnedFd,
    /// The lists of what is held by System V IPC; none where memory is limited elsewhere.
    ipc_lists: Vec<OwnedFd>,
    living: BTreeMap<u32, Seen>,
    /// What those used that ended and that nobody waited for.
    lost: Used,
    /// Whether a process lets nobody see what it writes.
    is_hidden: bool,
}

/// What was seen of a process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Seen {
    parent: u32,
    /// Tells it from another process that has its number later.
    began: u64,
    /// With that of the children it waited for.
    cpu_ms: u64,
    children_ms: u64,
    /// The part of `cpu_ms` that the kernel worked for it.
    system_ms: u64,
    /// With that of the children it waited for; `None` where it cannot be read.
    written: Option<u64>,
}

impl Tally {
    /// Counts the processes that this `/proc` shows.
    pub(super) fn new(processes: OwnedFd, ipc_lists: Vec<OwnedFd>) -> Self {
        Self {
            processes,
            ipc_lists,
            living: BTreeMap::new(),
            lost: Used::default(),
            is_hidden: false,
        }
    }

    /// Looks at every process; whether some ended that nobody waited for, so that it is well to look again soon.
    pub(super) fn look(&mut self) -> bool {
        let pids = numbers(&self.processes).unwrap_or_default();
        let seen = pids.into_iter().filter_map(|pid| Some((pid, self.see(pid)?))).collect();
        let lost = lost(&self.living, &seen);
        self.lost.cpu_ms += lost.cpu_ms;
        self.lost.written += lost.written;
        self.is_hidden |= hides(&self.living, &seen);
        self.living = seen;
        lost != Used::default()
    }

    /// What was used until the last look.
    pub(super) fn used(&self) -> Used {
        let living = self.living.values();
        Used {
            cpu_ms: self.lost.cpu_ms + living.clone().map(|seen| seen.cpu_ms).sum::<u64>(),
            written: self.lost.written + living.filter_map(|seen| seen.written).sum::<u64>(),
        }
    }

    /// The part of the time that the kernel worked for those that were there at the last look.
    pub(super) fn system_ms(&self) -> u64 {
        self.living.values().map(|seen| seen.system_ms).sum()
    }

    /// The most bytes of memory that one of those that are there ever had.
    pub(super) fn largest(&self) -> u64 {
        let pids = self.living.keys();
        let peaks = pids.filter_map(|pid| self.read(*pid, "status").ok());
        peaks.map(|text| field(&text, "VmHWM:") * 1024).max().unwrap_or(0)
    }

    /// Whether some process did not let itself be counted.
    pub(super) fn is_hidden(&self) -> bool {
        self.is_hidden
    }

    /// Bytes of memory that are in use now, what is shared counted in part; with what is held by System V IPC and that no process shows.
    pub(super) fn memory(&self) -> u64 {
        let (mut all, mut shared) = (0, 0);
        for pid in self.living.keys() {
            let text = self.read(*pid, "smaps_rollup").unwrap_or_default();
            all += field(&text, "Pss:") * 1024;
            shared += field(&text, "Pss_Shmem:") * 1024;
        }
        all + ipc::bytes_held(&self.ipc_lists).saturating_sub(shared)
    }

    fn see(&self, pid: u32) -> Option<Seen> {
        let seen = parse(&self.read(pid, "stat").ok()?)?;
        let written = match self.read(pid, "io") {
            Ok(text) => Some(field(&text, "write_bytes:")),
            Err(Errno::ACCESS | Errno::PERM) => None,
            // It has just ended.
            Err(_) => Some(0),
        };
        Some(Seen { written, ..seen })
    }

    fn read(&self, pid: u32, name: &str) -> rustix::io::Result<String> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.processes, format!("{pid}/{name}"), flags, Mode::empty())?;
        let mut bytes = [0; 4096];
        let length = rustix::io::read(&file, &mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes[..length]).into_owned())
    }
}

/// What those used that are no longer there, as far as nobody else counts it: who waits for a process takes over what it used.
fn lost(before: &BTreeMap<u32, Seen>, after: &BTreeMap<u32, Seen>) -> Used {
    let mut gone: BTreeMap<u32, Used> = BTreeMap::new();
    for (pid, seen) in before {
        if !is_there(*pid, seen, after) {
            let heir = gone.entry(heir(seen.parent, before, after)).or_default();
            heir.cpu_ms += seen.cpu_ms;
            heir.written += seen.written.unwrap_or(0);
        }
    }
    let mut lost = Used::default();
    for (heir, left) in &gone {
        let rise = rise(*heir, before, after);
        lost.cpu_ms += left.cpu_ms.saturating_sub(rise.cpu_ms);
        lost.written += left.written.saturating_sub(rise.written);
    }
    // The init may have waited for those whose parents went first.
    let left = gone.get(&INIT).copied().unwrap_or_default();
    let orphans = rise(INIT, before, after).cpu_ms.saturating_sub(left.cpu_ms);
    lost.cpu_ms = lost.cpu_ms.saturating_sub(orphans);
    lost
}

fn is_there(pid: u32, seen: &Seen, after: &BTreeMap<u32, Seen>) -> bool {
    after.get(&pid).is_some_and(|now| now.began == seen.began)
}

/// The nearest one above that is still there.
fn heir(parent: u32, before: &BTreeMap<u32, Seen>, after: &BTreeMap<u32, Seen>) -> u32 {
    let mut pid = parent;
    // As many steps as there are processes at most: what was read at different moments need not be a tree.
    for _ in 0..before.len() {
        match before.get(&pid) {
            Some(seen) if !is_there(pid, seen, after) => pid = seen.parent,
            Some(_) => return pid,
            None => break,
        }
    }
    INIT
}

/// What a process took over, at most, between two looks. What the init has written is not known: it lets nobody look into it.
fn rise(pid: u32, before: &BTreeMap<u32, Seen>, after: &BTreeMap<u32, Seen>) -> Used {
    let (Some(before), Some(after)) = (before.get(&pid), after.get(&pid)) else {
        return Used::default();
    };
    let written = |seen: &Seen| seen.written.unwrap_or(0);
    Used {
        cpu_ms: after.children_ms.saturating_sub(before.children_ms),
        written: written(after).saturating_sub(written(before)),
    }
}

/// Whether a process could not be counted twice in a row. Once means nothing: a process is closed for a moment while it becomes a program.
fn hides(before: &BTreeMap<u32, Seen>, after: &BTreeMap<u32, Seen>) -> bool {
    let is_closed = |seen: &Seen| seen.written.is_none();
    after
        .iter()
        .any(|(pid, seen)| *pid != INIT && is_closed(seen) && before.get(pid).is_some_and(is_closed))
}

/// Reads the parent, the times (in hundredths of a second) and the beginning: the fields 4, 14 to 17 and 22.
fn parse(stat: &str) -> Option<Seen> {
    let after_name = &stat[stat.rfind(')')? + 1..];
    let fields: Vec<u64> = after_name
        .split_whitespace()
        .map(|field| field.parse().unwrap_or(0))
        .collect();
    let times = fields.get(11..15)?;
    Some(Seen {
        parent: u32::try_from(fields[1]).ok()?,
        began: *fields.get(19)?,
        cpu_ms: times.iter().sum::<u64>() * 10,
        children_ms: times[2..].iter().sum::<u64>() * 10,
        system_ms: (times[1] + times[3]) * 10,
        written: None,
    })
}

fn field(text: &str, name: &str) -> u64 {
    text.lines()
        .find_map(|line| line.strip_prefix(name))
        .and_then(|rest| rest.split_whitespace().next())
        .and_then(|number| number.parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(parent: u32, cpu_ms: u64, children_ms: u64, written: u64) -> Seen {
        Seen {
            parent,
            began: 7,
            cpu_ms: cpu_ms + children_ms,
            children_ms,
            system_ms: 0,
            written: Some(written),
        }
    }

    fn init(children_ms: u64) -> (u32, Seen) {
        let closed = Seen {
            written: None,
            ..seen(0, 0, children_ms, 0)
        };
        (INIT, closed)
    }

    fn used(cpu_ms: u64, written: u64) -> Used {
        Used { cpu_ms, written }
    }

    #[test]
    fn the_time_is_found_behind_any_name() {
        let stat = "7 (a) b) R 3 7 7 0 -1 4194304 100 0 0 0 3 4 5 6 20 0 1 0 99 1 1";
        let seen = parse(stat).unwrap();
        assert_eq!((seen.parent, seen.began), (3, 99));
        assert_eq!((seen.cpu_ms, seen.children_ms, seen.system_ms), (180, 110, 100));
        assert_eq!(parse(""), None);
    }

    #[test]
    fn what_was_written_is_not_what_was_cancelled() {
        let text = "rchar: 1\nwchar: 2\nwrite_bytes: 4096\ncancelled_write_bytes: 7\n";
        assert_eq!(field(text, "write_bytes:"), 4096);
    }

    #[test]
    fn who_was_waited_for_is_counted_once() {
        let before = BTreeMap::from([init(0), (2, seen(1, 10, 0, 5)), (3, seen(2, 40, 0, 100))]);
        let after = BTreeMap::from([init(0), (2, seen(1, 10, 50, 130))]);
        assert_eq!(lost(&before, &after), used(0, 0));
    }

    #[test]
    fn who_was_not_waited_for_is_remembered() {
        let before = BTreeMap::from([init(0), (2, seen(1, 10, 0, 5)), (3, seen(2, 40, 0, 100))]);
        let after = BTreeMap::from([init(0), (2, seen(1, 20, 0, 5))]);
        assert_eq!(lost(&before, &after), used(40, 100));
        let reused = Seen {
            began: 8,
            ..seen(2, 0, 0, 0)
        };
        let after = BTreeMap::from([init(0), (2, seen(1, 20, 0, 5)), (3, reused)]);
        assert_eq!(lost(&before, &after), used(40, 100));
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
        assert_eq!(lost(&before, &after), used(0, 0));
        // An orphan, for whom the init waited: its time is found there, and what it wrote is known from here only.
        let after = BTreeMap::from([init(30), (2, seen(1, 0, 40, 10))]);
        assert_eq!(lost(&before, &after), used(0, 20));
    }

    #[test]
    fn who_is_closed_for_a_moment_hides_nothing() {
        let closed = Seen {
            written: None,
            ..seen(1, 0, 0, 0)
        };
        let (open, shut) = (
            BTreeMap::from([init(0), (2, seen(1, 0, 0, 0))]),
            BTreeMap::from([init(0), (2, closed)]),
        );
        assert!(!hides(&open, &shut) && !hides(&shut, &open) && hides(&shut, &shut));
    }
}
