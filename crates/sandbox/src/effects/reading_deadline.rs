//! The limit on the time of a reading.

use std::time::Instant;

use garret_core::{EffectLimits, Result};

use crate::supervisor::clock::current_time;

/// The time by which effects, their content included, must be read.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReadingDeadline {
    until: Option<Instant>,
    limits: EffectLimits,
}

impl ReadingDeadline {
    /// Begins a reading; the time for it starts now.
    pub(super) fn new(limits: EffectLimits) -> Self {
        let until = limits.time.and_then(|time| current_time().checked_add(time));
        Self { until, limits }
    }

    /// Fails once the time is over.
    pub(super) fn check_time(&self) -> Result<()> {
        match self.until {
            Some(until) if current_time() >= until => Err(self.limits.timeout_error()),
            _ => Ok(()),
        }
    }
}
