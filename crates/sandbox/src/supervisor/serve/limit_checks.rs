//! Ends commands that are over a limit.

use std::time::Duration;

use super::SupervisorServer;
use super::layer_requests::PAUSE_LOOK;
use super::running_command::RunningCommand;
use crate::supervisor::clock::current_time;
use crate::supervisor::control_groups::CommandGroup;
use crate::supervisor::home_size_watch::HomeSizeWatch;
use crate::supervisor::limit_watch::GroupAndLayerUsage;

impl SupervisorServer<'_> {
    pub(super) fn time_to_next_check(&self) -> Option<Duration> {
        let living = self.running.values().filter(|running| running.pidfd.is_some());
        let next = living.filter_map(RunningCommand::next_check).min();
        let next = next.map(|next| next.saturating_duration_since(current_time()));
        if self.has_unanswered_pause() {
            return Some(PAUSE_LOOK);
        }
        next
    }

    /// Checks the commands that are due, and ends each that is over a limit.
    pub(super) fn check_limits(&mut self) {
        let now = current_time();
        let mut due = Vec::new();
        for (process, running) in &mut self.running {
            if running.pidfd.is_none() || running.next_check().is_none_or(|wakes| wakes > now) {
                continue;
            }
            // Its init was told to end the command and did not do so in time.
            if running.ends_by.is_some() {
                running.count_and_kill();
                continue;
            }
            // A read from `/proc` may wait for a process, and would then delay the end of a command that is not stopped
            // in time.
            if !Self::is_stopping(&self.laid, &running.layer) {
                running.watch.check_processes();
            }
            due.push(*process);
        }
        for process in due {
            let around = self.group_and_layer_usage(process);
            if let Some(running) = self.running.get_mut(&process) {
                running.limit = running.watch.exceeded_limit(around);
                if running.limit.is_some() {
                    running.end_command();
                }
            }
        }
    }

    /// Returns the usage of a command that its control group and its layer show.
    fn group_and_layer_usage(&mut self, process: u64) -> GroupAndLayerUsage {
        let is_home_full = self.home.as_mut().is_some_and(HomeSizeWatch::is_over_limit);
        let Some(running) = self.running.get(&process) else {
            return GroupAndLayerUsage::default();
        };
        let layer = running.layer.clone();
        let cpu_ms = running.narrow.as_ref().and_then(CommandGroup::cpu_ms);
        let has_limit = running.watch.limits().written.is_some();
        let counted = self
            .commands_on_layer(&layer)
            .map(|one| one.watch.process_usage().written)
            .sum();
        match self.laid.get_mut(&layer).filter(|_| has_limit) {
            None => GroupAndLayerUsage {
                cpu_ms,
                is_home_full,
                ..GroupAndLayerUsage::default()
            },
            Some(laid) => {
                laid.held.check_layer(counted);
                GroupAndLayerUsage {
                    cpu_ms,
                    is_home_full,
                    unexplained: laid.held.unexplained_bytes(counted),
                    is_blind: laid.held.is_blind(),
                }
            }
        }
    }
}
