//! Ends commands that are over a limit.

use std::time::Duration;

use super::Server;
use super::layered::PAUSE_LOOK;
use super::running::Running;
use crate::supervisor::clock::now;
use crate::supervisor::groups::Narrow;
use crate::supervisor::watch::Around;

impl Server<'_> {
    pub(super) fn next_look(&self) -> Option<Duration> {
        let living = self.running.values().filter(|running| running.pidfd.is_some());
        let next = living.filter_map(Running::wakes).min();
        let next = next.map(|next| next.saturating_duration_since(now()));
        if self.has_unanswered_pause() {
            return Some(PAUSE_LOOK);
        }
        next
    }

    /// Checks the commands that are due, and ends each that is over a limit.
    pub(super) fn look(&mut self) {
        let now = now();
        let mut due = Vec::new();
        for (process, running) in &mut self.running {
            if running.pidfd.is_none() || running.wakes().is_none_or(|wakes| wakes > now) {
                continue;
            }
            // Its init was told to end the command and did not do so in time.
            if running.ends_by.is_some() {
                running.kill_counted();
                continue;
            }
            // A read from `/proc` may wait for a process, and would then delay the end of a command that is not stopped
            // in time.
            if !Self::is_stopping(&self.laid, &running.layer) {
                running.watch.look();
            }
            due.push(*process);
        }
        for process in due {
            let around = self.around(process);
            if let Some(running) = self.running.get_mut(&process) {
                running.limit = running.watch.is_over(around);
                if running.limit.is_some() {
                    running.end();
                }
            }
        }
    }

    /// Returns the usage of a command that its control group and its layer show.
    fn around(&mut self, process: u64) -> Around {
        let Some(running) = self.running.get(&process) else {
            return Around::default();
        };
        let layer = running.layer.clone();
        let cpu_ms = running.narrow.as_ref().and_then(Narrow::cpu_ms);
        let has_limit = running.watch.limits().written.is_some();
        let counted = self.on_layer(&layer).map(|one| one.watch.used().written).sum();
        match self.laid.get_mut(&layer).filter(|_| has_limit) {
            None => Around {
                cpu_ms,
                ..Around::default()
            },
            Some(laid) => {
                laid.held.look(counted);
                Around {
                    cpu_ms,
                    unexplained: laid.held.unexplained(counted),
                    is_blind: laid.held.is_blind(),
                }
            }
        }
    }
}
