//! Checks the limits that hold for all processes of a command together.

#![cfg(target_os = "linux")]

use std::time::{Duration, Instant};

use super::clock::now;
use super::held;
use super::protocol::{Ending, SpawnLimits};
use super::sample::{Counters, Tally, Used};

/// The time from the start of a command to its first check, and between the later ones.
const FIRST_LOOK: Duration = Duration::from_millis(20);
const LOOK: Duration = Duration::from_millis(50);
/// The shortest time to the next check if processes ended that nobody waited for, and that time as a multiple of the
/// time a check took.
const SOON: Duration = Duration::from_millis(4);
const REST: u32 = 20;
/// The longest time for one piece of a check, and for the last check before a command is killed: neither grows with the
/// number of processes.
const PIECE: Duration = Duration::from_millis(5);
const LAST_LOOK: Duration = Duration::from_millis(100);

/// The limits of a command, and its usage by the last check.
#[derive(Debug)]
pub(super) struct Watch {
    limits: SpawnLimits,
    /// Whether a control group limits memory.
    has_group: bool,
    tally: Option<Tally>,
    started: Instant,
    next: Instant,
    in_memory: u64,
    in_use: u64,
}

/// The usage of a command that its control group and its layer show.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Around {
    /// Its time on processors, if its own control group counts that.
    pub(super) cpu_ms: Option<u64>,
    /// The bytes stored in its layer that no counter explains.
    pub(super) unexplained: u64,
    /// Whether there may be more such bytes, because a part of the layer could not be read.
    pub(super) is_blind: bool,
}

/// The resources that a command used, as far as they can be seen while it runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Spent {
    pub(super) user_ms: u64,
    pub(super) system_ms: u64,
    /// The peak memory of the largest process.
    pub(super) max_memory: u64,
}

impl Watch {
    /// Begins to watch a command that starts now.
    pub(super) fn new(limits: SpawnLimits, has_group: bool, tally: Option<Tally>) -> Self {
        let started = now();
        Self {
            limits,
            has_group,
            tally,
            started,
            next: started + FIRST_LOOK,
            in_memory: held::in_memory(),
            in_use: held::in_use(),
        }
    }

    pub(super) fn limits(&self) -> &SpawnLimits {
        &self.limits
    }

    pub(super) fn started(&self) -> Instant {
        self.started
    }

    fn deadline(&self) -> Option<Instant> {
        Some(self.started + Duration::from_millis(self.limits.wall_ms?))
    }

    /// Returns the time of the next check.
    pub(super) fn wakes(&self) -> Instant {
        self.deadline().map_or(self.next, |deadline| deadline.min(self.next))
    }

    /// Returns the usage of its processes by the last check.
    pub(super) fn used(&self) -> Used {
        self.tally.as_ref().map(Tally::used).unwrap_or_default()
    }

    /// Continues the check of its processes, for one piece of time.
    pub(super) fn look(&mut self) {
        let begun = now();
        let counters = if self.counts_memory() {
            Counters::UsageAndMemory
        } else {
            Counters::Usage
        };
        let looked = self.tally.as_mut().map(|tally| tally.look(PIECE, counters));
        let end = now();
        // Short-lived processes that nobody waits for take their counters with them, so a command with such is checked
        // more often.
        self.next = end
            + match looked {
                Some(None) => Duration::ZERO,
                Some(Some(true)) => (end.saturating_duration_since(begun) * REST).clamp(SOON, LOOK),
                Some(Some(false)) | None => LOOK,
            };
    }

    /// Returns whether the memory of the processes is added up here.
    fn counts_memory(&self) -> bool {
        !self.has_group && self.limits.memory.is_some()
    }

    /// Checks its processes for the last time; `group` is the time on processors, if its own control group counts that.
    pub(super) fn spent(&mut self, group: Option<u64>) -> Spent {
        let Some(tally) = &mut self.tally else {
            return Spent::default();
        };
        tally.look_last(LAST_LOOK);
        let total = group.unwrap_or(tally.used().cpu_ms);
        let system_ms = tally.system_ms().min(total);
        Spent {
            user_ms: total - system_ms,
            system_ms,
            max_memory: tally.largest(),
        }
    }

    /// Returns the limit that it is over, by the last check.
    pub(super) fn is_over(&self, around: Around) -> Option<Ending> {
        let limits = &self.limits;
        let is_over = |used: u64, limit: Option<u64>| limit.is_some_and(|limit| used > limit);
        if self.deadline().is_some_and(|deadline| deadline <= now()) {
            return Some(Ending::Wall);
        }
        if is_over(around.cpu_ms.unwrap_or(self.used().cpu_ms), limits.cpu_ms) {
            return Some(Ending::Cpu);
        }
        if is_over(self.written(around), limits.written) {
            return Some(Ending::Written);
        }
        let tally = self.tally.as_ref().filter(|_| self.counts_memory());
        let memory = tally.map_or(0, Tally::memory);
        is_over(memory, limits.memory).then_some(Ending::Memory)
    }

    /// Returns the bytes that the command wrote.
    fn written(&self, around: Around) -> u64 {
        let in_memory = held::in_memory().saturating_sub(self.in_memory);
        let counted = self.used().written + around.unexplained;
        // If a process hides its counters, or a part of the layer cannot be read, the growth of the whole file system
        // since the start of the command is the only upper bound.
        let is_hidden = around.is_blind || self.tally.as_ref().is_some_and(Tally::is_hidden);
        let lost = if is_hidden {
            held::in_use().saturating_sub(self.in_use)
        } else {
            0
        };
        counted.max(lost) + in_memory
    }
}
