//! Starts commands.

use std::collections::VecDeque;
use std::path::Path;

use super::Server;
use super::running::{Running, Unsent};
use super::spare::receive;
use crate::supervisor::confine::Order;
use crate::supervisor::groups::Narrow;
use crate::supervisor::init::{Run, Tell};
use crate::supervisor::protocol::{CREDIT, Decoder, Failure, Spawn, encode_message};
use crate::supervisor::root::clone_tree;
use crate::supervisor::sample::Tally;
use crate::supervisor::watch::Watch;

impl Server<'_> {
    pub(super) fn start(&mut self, request: u64, process: u64, layer: &str, spawn: Spawn, may_pause: bool) {
        match self.try_start(process, layer, &spawn, may_pause) {
            Ok(mut running) => {
                running.starting = Some(request);
                self.running.insert(process, running);
                // Not after the first command: a user of one command runs no second, and the spare init would only take
                // time from it.
                self.wants_spare |= std::mem::replace(&mut self.has_started_any, true);
                if let Some(laid) = self.laid.get_mut(layer)
                    && std::mem::replace(&mut laid.is_used, true)
                {
                    // Bytes that earlier commands left in the layer are not charged to this one.
                    laid.held.begin_anew();
                }
            }
            Err(failure) => self.settle(request, Err(failure)),
        }
    }

    fn try_start(&mut self, process: u64, layer: &str, spawn: &Spawn, may_pause: bool) -> Result<Running, Failure> {
        let mounted = self.mounted(layer)?;
        let shown = clone_tree(Path::new(&mounted)).map_err(|error| Failure::new("finding the layer", error))?;
        let most = self.plan.group.as_ref().and_then(|group| group.memory);
        let narrow = self.groups.narrow(process, &spawn.limits, most, may_pause);
        // A spare init runs in the group of the sandbox; a command with a group of its own needs an init made for that.
        let spare = match (self.spare.take(), narrow) {
            (Some(spare), None) => spare,
            (kept, narrow) => {
                self.spare = kept;
                self.make_init(narrow)
                    .map_err(|error| Failure::new("making an init", error))?
            }
        };
        let mut views = receive(&spare.socket)
            .map_err(|error| Failure::new("meeting the init", error))?
            .into_iter();
        let tally = views.next().map(|processes| Tally::new(processes, views.collect()));
        let has_freezer = spare.narrow.as_ref().is_some_and(Narrow::can_freeze);
        let run = Run {
            order: Order {
                spawn: spawn.clone(),
                has_landlock: self.plan.has_landlock,
                has_group: self.has_group,
                // Counts the server, the init of each command, and a spare init with the process that waits in it.
                own_processes: (self.running.len() + self.leaving.len()) as u64 + 4,
            },
            read_only: self.plan.read_only.clone(),
            may_pause: may_pause && !has_freezer,
        };
        let socket = spare.socket;
        let mut order = Vec::new();
        encode_message(&Tell::Run(Box::new(run)), &mut order);
        let mut unsent = Some(Unsent { order, layer: shown });
        let is_paused = self.laid.get(layer).is_some_and(|laid| laid.pause.is_some());
        if !is_paused && let Some(unsent) = unsent.take() {
            unsent
                .send(&socket)
                .map_err(|error| Failure::new("telling the init", error))?;
        }
        let memory_kills = self.memory_kills(spare.narrow.as_ref());
        let watch = Watch::new(spawn.limits.clone(), self.has_group, tally);
        Ok(Running {
            layer: layer.to_owned(),
            pid: spare.pid,
            pidfd: Some(spare.pidfd),
            socket,
            decoder: Decoder::default(),
            starting: None,
            unsent,
            is_paused,
            input: spawn.has_input.then_some(spare.input),
            waiting_input: VecDeque::new(),
            is_input_closing: false,
            outputs: [Some(spare.output), Some(spare.error)],
            credit: CREDIT,
            narrow: spare.narrow,
            watch,
            spawn: spawn.clone(),
            memory_kills,
            exit: None,
            limit: None,
            ends_by: None,
            used: None,
        })
    }

    pub(super) fn memory_kills(&self, narrow: Option<&Narrow>) -> u64 {
        let own = narrow.and_then(Narrow::memory_kills);
        own.unwrap_or_else(|| self.groups.memory_kills())
    }
}
