//! The mounted layers, and the requests that wait for their commands.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};

use super::running::Running;
use super::{Served, Server};
use crate::supervisor::clock::now;
use crate::supervisor::held::Held;
use crate::supervisor::layers::Laid;
use crate::supervisor::place::{self, Arriving};
use crate::supervisor::protocol::{Answer, Failure, Ground, Item, Lift};

/// A layer, and the requests that wait for its commands.
pub(super) struct Layer {
    pub(super) laid: Result<Laid, Failure>,
    pub(super) held: Held,
    /// Whether a command was started on the layer.
    pub(super) is_used: bool,
    pub(super) lifting: Option<Lift>,
    /// The pause, from the request for it until the layer is resumed.
    pub(super) pause: Option<Pause>,
}

/// A request to pause the processes of a layer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pause {
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

impl Server<'_> {
    pub(super) fn lay(&mut self, layer: String, ground: Ground) {
        self.laid_so_far += 1;
        let laid = Laid::lay(self.laid_so_far, &layer, ground);
        let held = match ground {
            Ground::Copy => Held::something(&layer),
            Ground::Bench | Ground::BenchWithoutHidden | Ground::OwnLower => Held::nothing(&layer),
        };
        self.laid.insert(
            layer,
            Layer {
                laid,
                held,
                is_used: false,
                lifting: None,
                pause: None,
            },
        );
    }

    /// Returns the layer's mount point, or the reason that it has none.
    pub(super) fn mounted(&self, layer: &str) -> Result<String, Failure> {
        let gone = || Failure::new("finding the layer", std::io::Error::from_raw_os_error(libc::ENOENT));
        let laid = self
            .laid
            .get(layer)
            .ok_or_else(gone)?
            .laid
            .as_ref()
            .map_err(Clone::clone)?;
        Ok(laid.path().to_string_lossy().into_owned())
    }

    pub(super) fn on_layer(&mut self, layer: &str) -> impl Iterator<Item = &mut Running> {
        self.running
            .values_mut()
            .filter(move |running| running.layer == layer && running.pidfd.is_some())
    }

    pub(super) fn refresh(&mut self, request: u64, layer: &str) {
        let laid = self.laid.get(layer).and_then(|found| found.laid.as_ref().ok());
        let refreshed = laid.map_or(Ok(()), Laid::refresh);
        self.settle(request, refreshed);
    }

    pub(super) fn pause(&mut self, request: u64, layer: &str) {
        let within = self.plan.still_within;
        for running in self.on_layer(layer) {
            running.pause(request, within);
        }
        let pause = Pause {
            request,
            ends_by: now() + within,
            is_answered: false,
            ended: 0,
        };
        match self.laid.get_mut(layer) {
            Some(laid) => laid.pause = Some(pause),
            None => self.settle(request, Ok(())),
        }
        self.check_paused(layer);
    }

    /// Answers the request to pause a layer once every command on it is stopped.
    pub(super) fn check_paused(&mut self, layer: &str) {
        if self.unanswered_pause(layer).is_none() || !self.on_layer(layer).all(Running::is_still) {
            return;
        }
        if let Some(pause) = self.unanswered_pause(layer) {
            pause.is_answered = true;
            let (request, ended) = (pause.request, pause.ended);
            self.answer(&Answer::Paused { request, ended });
        }
    }

    /// Returns whether the processes of a layer are being stopped.
    pub(super) fn is_stopping(layers: &BTreeMap<String, Layer>, layer: &str) -> bool {
        let pause = layers.get(layer).and_then(|laid| laid.pause);
        pause.is_some_and(|pause| !pause.is_answered)
    }

    fn unanswered_pause(&mut self, layer: &str) -> Option<&mut Pause> {
        let pause = self.laid.get_mut(layer)?.pause.as_mut()?;
        (!pause.is_answered).then_some(pause)
    }

    pub(super) fn has_unanswered_pause(&self) -> bool {
        let pauses = self.laid.values().filter_map(|laid| laid.pause.as_ref());
        pauses.into_iter().any(|pause| !pause.is_answered)
    }

    /// Checks the layers that are being paused, and ends commands that are not stopped in time.
    pub(super) fn look_at_pauses(&mut self) {
        if !self.has_unanswered_pause() {
            return;
        }
        let layers: Vec<String> = self.laid.keys().cloned().collect();
        for layer in layers {
            self.check_paused(&layer);
            if self.unanswered_pause(&layer).is_none_or(|pause| now() < pause.ends_by) {
                continue;
            }
            let mut ended = 0;
            for running in self.on_layer(&layer) {
                if !running.is_still() && running.used.is_none() {
                    running.end_unstill();
                    ended += 1;
                }
            }
            if let Some(pause) = self.unanswered_pause(&layer) {
                pause.ended += ended;
            }
        }
    }

    pub(super) fn resume(&mut self, request: u64, layer: &str) {
        // A resume before the pause was answered gives that pause up; its request is still owed an answer.
        let given_up = self.unanswered_pause(layer).map(|pause| pause.request);
        if let Some(laid) = self.laid.get_mut(layer) {
            laid.pause = None;
        }
        for running in self.on_layer(layer) {
            running.resume();
        }
        if let Some(given_up) = given_up {
            self.settle(given_up, Ok(()));
        }
        self.settle(request, Ok(()));
    }

    pub(super) fn lift(&mut self, request: u64, layer: &str) -> Served {
        for running in self.on_layer(layer) {
            running.kill();
        }
        let may_stay = false;
        self.lift_after_all(Lift { request, may_stay }, layer);
        Ok(())
    }

    /// Unmounts the layer once every command on it has ended.
    pub(super) fn lift_after_all(&mut self, lift: Lift, layer: &str) {
        match self.laid.get_mut(layer) {
            Some(laid) => laid.lifting = Some(lift),
            None => self.settle(lift.request, Ok(())),
        }
        self.check_lifted(layer);
    }

    pub(super) fn check_lifted(&mut self, layer: &str) {
        let Some(Lift { request, may_stay }) = self.laid.get(layer).and_then(|laid| laid.lifting) else {
            return;
        };
        if self.on_layer(layer).next().is_some() {
            return;
        }
        if may_stay && self.stays(layer) {
            self.answer(&Answer::Stays { request });
        } else if let Some(Layer { laid, .. }) = self.laid.remove(layer) {
            let lifted = laid.map_or(Ok(()), Laid::lift);
            self.settle(request, lifted);
        }
    }

    /// Keeps a layer mounted for the next command if nothing was written to it; returns whether it stays.
    fn stays(&mut self, layer: &str) -> bool {
        let is_untouched = |found: &&mut Layer| found.laid.as_ref().is_ok_and(|laid| laid.is_untouched(layer));
        let Some(found) = self.laid.get_mut(layer).filter(is_untouched) else {
            return false;
        };
        found.held = Held::nothing(layer);
        found.is_used = false;
        found.lifting = None;
        true
    }

    pub(super) fn place(&mut self, request: u64, layer: &str, path: &[u8], item: &Item) {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let placed = self.mounted(layer).and_then(|mounted| {
            let base = rustix::fs::open(mounted, flags, Mode::empty())
                .map_err(|error| Failure::new("opening the layer", error))?;
            place::place(&base, path, item)
        });
        if let (Item::File { size, .. }, Some(laid)) = (item, self.laid.get_mut(layer)) {
            laid.held.put(*size);
        }
        self.keep_or_settle(request, placed);
    }

    /// Adds bytes to a file that is being placed.
    pub(super) fn take_content(&mut self, request: u64, bytes: &[u8]) {
        if let Some(arriving) = self.arriving.remove(&request) {
            let added = arriving.add(bytes);
            self.keep_or_settle(request, added);
        }
    }

    /// Keeps a file of which more bytes are to come; otherwise answers the request.
    fn keep_or_settle(&mut self, request: u64, placed: Result<Option<Arriving>, Failure>) {
        match placed {
            Ok(Some(arriving)) => {
                self.arriving.insert(request, arriving);
            }
            Ok(None) => self.settle(request, Ok(())),
            Err(failure) => self.settle(request, Err(failure)),
        }
    }
}
