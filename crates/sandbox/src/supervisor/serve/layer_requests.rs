//! The mounted layers, and the requests that wait for their commands.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use garret_handles::open_child;
use rustix::fs::CWD;

use super::SupervisorServer;
use super::running_command::RunningCommand;
use crate::supervisor::clock::current_time;
use crate::supervisor::layer_usage::LayerUsage;
use crate::supervisor::mounted_layer::MountedLayer;
use crate::supervisor::place_item::{self, ArrivingFile};
use crate::supervisor::protocol::{
    FailedStep, LayerItem, LayerLower, LiftRequest, RequestOutcome, StepFailure, SupervisorAnswer,
};

/// A layer, and the requests that wait for its commands.
pub(super) struct ServedLayer {
    pub(super) laid: Result<MountedLayer, StepFailure>,
    pub(super) held: LayerUsage,
    /// Whether a command was started on the layer.
    pub(super) is_used: bool,
    pub(super) lifting: Option<LiftRequest>,
    /// The pause, from the request for it until the layer is resumed.
    pub(super) pause: Option<LayerPause>,
}

/// A request to pause the processes of a layer.
#[derive(Debug, Clone, Copy)]
pub(super) struct LayerPause {
    pub(super) request: u64,
    /// The time at which commands that are not stopped are ended.
    ends_by: Instant,
    /// Whether every command is stopped, and the request was answered.
    is_answered: bool,
    /// The number of commands that were ended because they were not stopped in time.
    ended: u64,
}

/// The time between two checks whether a control group has frozen its processes.
pub(super) const PAUSE_LOOK: Duration = Duration::from_micros(200);

impl SupervisorServer<'_> {
    pub(super) fn mount_layer(&mut self, layer: String, lower: LayerLower) {
        self.laid_so_far += 1;
        let laid = MountedLayer::mount_layer(self.laid_so_far, &layer, lower);
        let held = match lower {
            LayerLower::Copy => LayerUsage::for_unknown_layer(&layer),
            LayerLower::Bench | LayerLower::BenchWithoutHidden | LayerLower::OwnLower => {
                LayerUsage::for_empty_layer(&layer)
            }
        };
        self.laid.insert(
            layer,
            ServedLayer {
                laid,
                held,
                is_used: false,
                lifting: None,
                pause: None,
            },
        );
    }

    /// Returns the layer's mount point, or the reason that it has none.
    pub(super) fn mount_point(&self, layer: &str) -> Result<String, StepFailure> {
        let gone = || StepFailure::new("finding the layer", std::io::Error::from_raw_os_error(libc::ENOENT));
        let laid = self
            .laid
            .get(layer)
            .ok_or_else(gone)?
            .laid
            .as_ref()
            .map_err(Clone::clone)?;
        Ok(laid.path().to_string_lossy().into_owned())
    }

    pub(super) fn commands_on_layer(&mut self, layer: &str) -> impl Iterator<Item = &mut RunningCommand> {
        self.running
            .values_mut()
            .filter(move |running| running.layer == layer && running.pidfd.is_some())
    }

    pub(super) fn refresh_layer(&mut self, request: u64, layer: &str) {
        let laid = self.laid.get(layer).and_then(|found| found.laid.as_ref().ok());
        let refreshed = laid.map_or(Ok(()), MountedLayer::refresh);
        self.answer_request(request, refreshed);
    }

    pub(super) fn pause_layer(&mut self, request: u64, layer: &str) {
        let within = self.plan.still_within;
        for running in self.commands_on_layer(layer) {
            running.pause_processes(request, within);
        }
        let pause = LayerPause {
            request,
            ends_by: current_time() + within,
            is_answered: false,
            ended: 0,
        };
        match self.laid.get_mut(layer) {
            Some(laid) => laid.pause = Some(pause),
            None => self.answer_request(request, Ok(())),
        }
        self.check_paused(layer);
    }

    /// Answers the request to pause a layer once every command on it is stopped.
    pub(super) fn check_paused(&mut self, layer: &str) {
        if self.unanswered_pause(layer).is_none() || !self.commands_on_layer(layer).all(RunningCommand::is_stopped) {
            return;
        }
        if let Some(pause) = self.unanswered_pause(layer) {
            pause.is_answered = true;
            let (request, ended) = (pause.request, pause.ended);
            let outcome = Ok(RequestOutcome::Paused { ended });
            self.send_answer(&SupervisorAnswer::Answered { request, outcome });
        }
    }

    /// Returns whether the processes of a layer are being stopped.
    pub(super) fn is_stopping(layers: &BTreeMap<String, ServedLayer>, layer: &str) -> bool {
        let pause = layers.get(layer).and_then(|laid| laid.pause);
        pause.is_some_and(|pause| !pause.is_answered)
    }

    fn unanswered_pause(&mut self, layer: &str) -> Option<&mut LayerPause> {
        let pause = self.laid.get_mut(layer)?.pause.as_mut()?;
        (!pause.is_answered).then_some(pause)
    }

    pub(super) fn has_unanswered_pause(&self) -> bool {
        let pauses = self.laid.values().filter_map(|laid| laid.pause.as_ref());
        pauses.into_iter().any(|pause| !pause.is_answered)
    }

    /// Checks the layers that are being paused, and ends commands that are not stopped in time.
    pub(super) fn check_pauses(&mut self) {
        if !self.has_unanswered_pause() {
            return;
        }
        let layers: Vec<String> = self.laid.keys().cloned().collect();
        for layer in layers {
            self.check_paused(&layer);
            if self
                .unanswered_pause(&layer)
                .is_none_or(|pause| current_time() < pause.ends_by)
            {
                continue;
            }
            let mut ended = 0;
            for running in self.commands_on_layer(&layer) {
                if !running.is_stopped() && running.used.is_none() {
                    running.end_for_pause();
                    ended += 1;
                }
            }
            if let Some(pause) = self.unanswered_pause(&layer) {
                pause.ended += ended;
            }
        }
    }

    pub(super) fn resume_layer(&mut self, request: u64, layer: &str) {
        // A resume before the pause was answered gives that pause up; its request is still owed an answer.
        let given_up = self.unanswered_pause(layer).map(|pause| pause.request);
        if let Some(laid) = self.laid.get_mut(layer) {
            laid.pause = None;
        }
        for running in self.commands_on_layer(layer) {
            running.resume_processes();
        }
        if let Some(given_up) = given_up {
            self.answer_request(given_up, Ok(()));
        }
        self.answer_request(request, Ok(()));
    }

    pub(super) fn lift_layer(&mut self, request: u64, layer: &str) {
        for running in self.commands_on_layer(layer) {
            running.kill_init();
        }
        let may_stay = false;
        self.lift_after_all(LiftRequest { request, may_stay }, layer);
    }

    /// Unmounts the layer once every command on it has ended.
    pub(super) fn lift_after_all(&mut self, lift: LiftRequest, layer: &str) {
        match self.laid.get_mut(layer) {
            Some(laid) => laid.lifting = Some(lift),
            None => self.answer_request(lift.request, Ok(())),
        }
        self.lift_if_idle(layer);
    }

    pub(super) fn lift_if_idle(&mut self, layer: &str) {
        let Some(LiftRequest { request, may_stay }) = self.laid.get(layer).and_then(|laid| laid.lifting) else {
            return;
        };
        if self.commands_on_layer(layer).next().is_some() {
            return;
        }
        if may_stay && self.keep_if_untouched(layer) {
            let outcome = Ok(RequestOutcome::Kept);
            self.send_answer(&SupervisorAnswer::Answered { request, outcome });
        } else if let Some(ServedLayer { laid, .. }) = self.laid.remove(layer) {
            let lifted = laid.map_or(Ok(()), MountedLayer::unmount_layer);
            self.answer_request(request, lifted);
        }
    }

    /// Keeps a layer mounted for the next command if nothing was written to it; returns whether it stays.
    fn keep_if_untouched(&mut self, layer: &str) -> bool {
        let is_untouched = |found: &&mut ServedLayer| found.laid.as_ref().is_ok_and(|laid| laid.is_untouched(layer));
        let Some(found) = self.laid.get_mut(layer).filter(is_untouched) else {
            return false;
        };
        found.held = LayerUsage::for_empty_layer(layer);
        found.is_used = false;
        found.lifting = None;
        true
    }

    pub(super) fn place_item(&mut self, request: u64, layer: &str, path: &[u8], item: &LayerItem) {
        let placed = self.mount_point(layer).and_then(|mounted| {
            let base = open_child(CWD, mounted).in_step("opening the layer")?;
            place_item::place_item(&base, path, item)
        });
        if let (LayerItem::File { size, .. }, Some(laid)) = (item, self.laid.get_mut(layer)) {
            laid.held.record_placed(*size);
        }
        self.keep_or_answer(request, placed);
    }

    /// Adds bytes to a file that is being placed.
    pub(super) fn take_content(&mut self, request: u64, bytes: &[u8]) {
        if let Some(arriving) = self.arriving.remove(&request) {
            let added = arriving.add_bytes(bytes);
            self.keep_or_answer(request, added);
        }
    }

    /// Keeps a file of which more bytes are to come; otherwise answers the request.
    fn keep_or_answer(&mut self, request: u64, placed: Result<Option<ArrivingFile>, StepFailure>) {
        match placed {
            Ok(Some(arriving)) => {
                self.arriving.insert(request, arriving);
            }
            Ok(None) => self.answer_request(request, Ok(())),
            Err(failure) => self.answer_request(request, Err(failure)),
        }
    }
}
