//! Checks the limits that hold for all processes of a command together.

#![cfg(target_os = "linux")]

use std::time::{Duration, Instant};

use garret_core::{ResourceLimit, ResourceUsage};

use super::clock::current_time;
use super::layer_usage;
use super::protocol::SpawnLimits;
use super::usage_tally::{CounterSet, ProcessUsage, UsageTally};

/// The time from the start of a command to its first check, and between the later ones.
const FIRST_LOOK: Duration = Duration::from_millis(20);
const LOOK: Duration = Duration::from_millis(50);
/// The shortest time to the next check if processes ended that nobody waited for, and that time as a multiple of the
/// time a check took.
const SOON: Duration = Duration::from_millis(4);
const REST_FACTOR: u32 = 20;
/// The longest time for one piece of a check, and for the last check before a command is killed: neither grows with the
/// number of processes.
const PIECE: Duration = Duration::from_millis(5);
const LAST_LOOK: Duration = Duration::from_millis(100);

/// The limits of a command, and its usage by the last check.
#[derive(Debug)]
pub(super) struct LimitWatch {
    limits: SpawnLimits,
    /// Whether a control group limits memory.
    has_group: bool,
    tally: Option<UsageTally>,
    started: Instant,
    next: Instant,
    in_memory: u64,
    in_use: u64,
}

/// The usage of a command that its control group and its layer show.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct GroupAndLayerUsage {
    /// Its time on processors, if its own control group counts that.
    pub(super) cpu_ms: Option<u64>,
    /// The bytes stored in its layer that no counter explains.
    pub(super) unexplained: u64,
    /// Whether there may be more such bytes, because a part of the layer could not be read.
    pub(super) is_blind: bool,
    /// Whether the home holds more than its limit.
    pub(super) is_home_full: bool,
}

impl LimitWatch {
    /// Begins to watch a command that starts now.
    pub(super) fn new(limits: SpawnLimits, has_group: bool, tally: Option<UsageTally>) -> Self {
        let started = current_time();
        Self {
            limits,
            has_group,
            tally,
            started,
            next: started + FIRST_LOOK,
            in_memory: layer_usage::memory_file_bytes(),
            in_use: layer_usage::layer_file_system_bytes(),
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
    pub(super) fn next_check(&self) -> Instant {
        self.deadline().map_or(self.next, |deadline| deadline.min(self.next))
    }

    /// Returns the usage of its processes by the last check.
    pub(super) fn process_usage(&self) -> ProcessUsage {
        self.tally.as_ref().map(UsageTally::total_usage).unwrap_or_default()
    }

    /// Continues the check of its processes, for one piece of time.
    pub(super) fn check_processes(&mut self) {
        let begun = current_time();
        let counters = if self.counts_memory() {
            CounterSet::UsageAndMemory
        } else {
            CounterSet::Usage
        };
        let looked = self.tally.as_mut().map(|tally| tally.continue_sweep(PIECE, counters));
        let end = current_time();
        // Short-lived processes that nobody waits for take their counters with them, so a command with such is checked
        // more often.
        self.next = end
            + match looked {
                Some(None) => Duration::ZERO,
                Some(Some(true)) => (end.saturating_duration_since(begun) * REST_FACTOR).clamp(SOON, LOOK),
                Some(Some(false)) | None => LOOK,
            };
    }

    /// Returns whether the memory of the processes is added up here.
    fn counts_memory(&self) -> bool {
        !self.has_group && self.limits.memory.is_some()
    }

    /// Checks its processes for the last time, and returns the resources that the command used, as far as they can be seen
    /// while it runs; the memory is the peak of the largest process. `group` is the time on processors, if its own control group counts that.
    pub(super) fn final_usage(&mut self, group: Option<u64>) -> ResourceUsage {
        let Some(tally) = &mut self.tally else {
            return ResourceUsage::default();
        };
        tally.sweep_last(LAST_LOOK);
        let total = group.unwrap_or(tally.total_usage().cpu_ms);
        let system_ms = tally.system_ms().min(total);
        ResourceUsage {
            user_ms: total - system_ms,
            system_ms,
            max_memory: tally.largest_memory(),
        }
    }

    /// Returns the limit that it is over, by the last check.
    pub(super) fn exceeded_limit(&self, around: GroupAndLayerUsage) -> Option<ResourceLimit> {
        let limits = &self.limits;
        let is_over = |used: u64, limit: Option<u64>| limit.is_some_and(|limit| used > limit);
        if self.deadline().is_some_and(|deadline| deadline <= current_time()) {
            return Some(ResourceLimit::Wall);
        }
        if is_over(around.cpu_ms.unwrap_or(self.process_usage().cpu_ms), limits.cpu_ms) {
            return Some(ResourceLimit::Cpu);
        }
        if is_over(self.written_bytes(around), limits.written) {
            return Some(ResourceLimit::Written);
        }
        if around.is_home_full {
            return Some(ResourceLimit::Home);
        }
        let tally = self.tally.as_ref().filter(|_| self.counts_memory());
        let memory = tally.map_or(0, UsageTally::memory_in_use);
        is_over(memory, limits.memory).then_some(ResourceLimit::Memory)
    }

    /// Returns the bytes that the command wrote.
    fn written_bytes(&self, around: GroupAndLayerUsage) -> u64 {
        let in_memory = layer_usage::memory_file_bytes().saturating_sub(self.in_memory);
        let counted = self.process_usage().written + around.unexplained;
        // If a process hides its counters, or a part of the layer cannot be read, the growth of the whole file system
        // since the start of the command is the only upper bound.
        let is_hidden = around.is_blind || self.tally.as_ref().is_some_and(UsageTally::is_hidden);
        let lost = if is_hidden {
            layer_usage::layer_file_system_bytes().saturating_sub(self.in_use)
        } else {
            0
        };
        counted.max(lost) + in_memory
    }
}
