//! The limits of a reading: entries, text, content and time.

use std::time::Instant;

use garret_core::{EffectLimits, EffectTally, Result};

use crate::supervisor::clock::current_time;

/// Counts the entries and bytes that a reading finds, and fails at the first limit that it passes.
#[derive(Debug)]
pub(super) struct EffectBudget {
    tally: EffectTally,
    deadline: ReadingDeadline,
    limits: EffectLimits,
}

/// The time by which effects, their content included, must be read.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReadingDeadline {
    until: Option<Instant>,
    limits: EffectLimits,
}

impl ReadingDeadline {
    /// Fails once the time is over.
    pub(super) fn check_time(&self) -> Result<()> {
        match self.until {
            Some(until) if current_time() >= until => Err(self.limits.timeout_error()),
            _ => Ok(()),
        }
    }
}

impl EffectBudget {
    /// Begins a reading; the time for it starts now.
    pub(super) fn new(limits: EffectLimits) -> Self {
        let until = limits.time.and_then(|time| current_time().checked_add(time));
        Self {
            tally: EffectTally::new(limits),
            deadline: ReadingDeadline { until, limits },
            limits,
        }
    }

    pub(super) fn deadline(&self) -> ReadingDeadline {
        self.deadline
    }

    /// Returns the most entries that there may be; `None` for any number.
    pub(super) fn most_entries(&self) -> Option<usize> {
        Some(usize::try_from(self.limits.entries?).unwrap_or(usize::MAX))
    }

    pub(super) fn add_entry(&mut self, path: &[u8]) -> Result<()> {
        self.deadline.check_time()?;
        self.tally.add_entry(path.len())
    }

    pub(super) fn add_target(&mut self, target: &str) -> Result<()> {
        self.tally.add_text(target.len())
    }

    pub(super) fn add_content(&mut self, bytes: u64) -> Result<()> {
        self.tally.add_content(bytes)
    }
}
