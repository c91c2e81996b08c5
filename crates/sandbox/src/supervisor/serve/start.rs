//! Starting commands.

use std::collections::VecDeque;

use super::Server;
use super::running::Running;
use super::spare::receive;
use crate::supervisor::confine::Order;
use crate::supervisor::groups::Narrow;
use crate::supervisor::init::{Run, Tell};
use crate::supervisor::protocol::{CREDIT, Decoder, Failure, Spawn, write_message};
use crate::supervisor::sample::Tally;
use crate::supervisor::watch::Watch;

impl Server<'_> {
    pub(super) fn start(&mut self, request: u64, process: u64, layer: &str, spawn: Spawn) {
        match self.try_start(process, layer, &spawn) {
            Ok(mut running) => {
                running.starting = Some(request);
                self.running.insert(process, running);
                if let Some(laid) = self.laid.get_mut(layer)
                    && std::mem::replace(&mut laid.is_used, true)
                {
                    laid.held.begin_anew();
                }
            }
            Err(failure) => self.settle(request, Err(failure)),
        }
    }

    fn try_start(&mut self, process: u64, layer: &str, spawn: &Spawn) -> Result<Running, Failure> {
        let mounted = self.mounted(layer)?;
        let most = self.plan.group.as_ref().and_then(|group| group.memory);
        let narrow = self.groups.narrow(process, &spawn.limits, most);
        let spare = match (self.spare.take(), narrow) {
            (Some(spare), None) => spare,
            (kept, narrow) => {
                self.spare = kept;
                self.make_init(narrow)
                    .map_err(|error| Failure::new("making an init", error))?
            }
        };
        let processes = receive(&spare.socket).map_err(|error| Failure::new("meeting the init", error))?;
        let run = Run {
            order: Order {
                spawn: spawn.clone(),
                has_landlock: self.plan.has_landlock,
                has_group: self.has_group,
                // The server, the init of each command, and an init that waits with its program.
                own_processes: (self.running.len() + self.leaving.len()) as u64 + 4,
            },
            layer: mounted,
            read_only: self.plan.read_only.clone(),
        };
        let mut socket = spare.socket;
        write_message(&Tell::Run(Box::new(run)), &mut socket)
            .map_err(|error| Failure::new("telling the init", error))?;
        let memory_kills = self.memory_kills(spare.narrow.as_ref());
        let watch = Watch::new(spawn.limits.clone(), self.has_group, processes.map(Tally::new));
        Ok(Running {
            layer: layer.to_owned(),
            pid: spare.pid,
            pidfd: Some(spare.pidfd),
            socket,
            decoder: Decoder::default(),
            starting: None,
            is_paused: false,
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
