//! Whether a command is over a limit that holds for all of its processes together.

#![cfg(target_os = "linux")]

use std::time::{Duration, Instant};

use super::clock::now;
use super::held;
use super::protocol::{Ending, SpawnLimits};
use super::sample::{Counters, Tally, Used};

/// How long after its start a command is first looked at, and how often then.
const FIRST_LOOK: Duration = Duration::from_millis(20);
const LOOK: Duration = Duration::from_millis(50);
/// How soon it is looked at again where processes end that nobody waits for, and how many times as long as a look took at least.
const SOON: Duration = Duration::from_millis(4);
const REST: u32 = 20;
/// How long one piece of a look takes at most, and the last look before a command is killed: neither grows with the number of processes.
const PIECE: Duration = Duration::from_millis(5);
const LAST_LOOK: Duration = Duration::from_millis(100);

/// What is known of a command and its limits.
#[derive(Debug)]
pub(super) struct Watch {
    limits: SpawnLimits,
    /// Whether memory is limited elsewhere.
    has_group: bool,
    tally: Option<Tally>,
    started: Instant,
    next: Instant,
    in_memory: u64,
    in_use: u64,
}

/// What is known of a command from elsewhere than its processes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Around {
    /// Its time on processors, where its own control group counts that.
    pub(super) cpu_ms: Option<u64>,
    /// Bytes that lie in its layer and that nobody's counters explain.
    pub(super) unexplained: u64,
    /// Whether there may be more of them.
    pub(super) is_blind: bool,
}

/// What a command used, as far as that can be seen while it runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Spent {
    pub(super) user_ms: u64,
    pub(super) system_ms: u64,
    /// Of the largest process.
    pub(super) max_memory: u64,
}

impl Watch {
    /// Begins with the command.
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

    /// When it must be looked at next.
    pub(super) fn wakes(&self) -> Instant {
        self.deadline().map_or(self.next, |deadline| deadline.min(self.next))
    }

    /// What its own processes used until the last look.
    pub(super) fn used(&self) -> Used {
        self.tally.as_ref().map(Tally::used).unwrap_or_default()
    }

    /// Looks at its processes, for one piece of time.
    pub(super) fn look(&mut self) {
        let begun = now();
        let counters = if self.counts_memory() {
            Counters::UsageAndMemory
        } else {
            Counters::Usage
        };
        let looked = self.tally.as_mut().map(|tally| tally.look(PIECE, counters));
        let end = now();
        self.next = end
            + match looked {
                Some(None) => Duration::ZERO,
                Some(Some(true)) => (end.saturating_duration_since(begun) * REST).clamp(SOON, LOOK),
                Some(Some(false)) | None => LOOK,
            };
    }

    /// Whether the memory of the processes is added up here.
    fn counts_memory(&self) -> bool {
        !self.has_group && self.limits.memory.is_some()
    }

    /// Looks at its processes for the last time; `group` is the time on processors, where its own control group counts that.
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

    /// The limit that it is over, by the last look.
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

    /// What was written. Where a process does not let itself be counted, and where the layer cannot be looked through, the whole file system
    /// stands in for them: whatever it lost since the command began.
    fn written(&self, around: Around) -> u64 {
        let in_memory = held::in_memory().saturating_sub(self.in_memory);
        let counted = self.used().written + around.unexplained;
        let is_hidden = around.is_blind || self.tally.as_ref().is_some_and(Tally::is_hidden);
        let lost = if is_hidden {
            held::in_use().saturating_sub(self.in_use)
        } else {
            0
        };
        counted.max(lost) + in_memory
    }
}
