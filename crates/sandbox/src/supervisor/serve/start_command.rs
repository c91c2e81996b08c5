//! Starts commands.

use std::collections::VecDeque;
use std::path::Path;

use super::SupervisorServer;
use super::running_command::{RunningCommand, UnsentOrder};
use super::spare_init::receive_views;
use crate::supervisor::confine::ExecOrder;
use crate::supervisor::control_groups::CommandGroup;
use crate::supervisor::init::{EmptyHome, MessageToInit, RunOrder};
use crate::supervisor::limit_watch::LimitWatch;
use crate::supervisor::protocol::{CREDIT, FailedStep, FrameDecoder, SpawnRequest, StepFailure, encode_message};
use crate::supervisor::sandbox_root::clone_tree;
use crate::supervisor::usage_tally::UsageTally;

impl SupervisorServer<'_> {
    pub(super) fn start_command(
        &mut self,
        request: u64,
        process: u64,
        layer: &str,
        spawn: SpawnRequest,
        may_pause: bool,
    ) {
        match self.prepare_command(process, layer, &spawn, may_pause) {
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
                    laid.held.restart_comparison();
                }
            }
            Err(failure) => self.answer_request(request, Err(failure)),
        }
    }

    fn prepare_command(
        &mut self,
        process: u64,
        layer: &str,
        spawn: &SpawnRequest,
        may_pause: bool,
    ) -> Result<RunningCommand, StepFailure> {
        let mounted = self.mount_point(layer)?;
        let shown = clone_tree(Path::new(&mounted)).in_step("finding the layer")?;
        let most = self.plan.group.as_ref().and_then(|group| group.memory);
        let narrow = self.groups.make_command_group(process, &spawn.limits, most, may_pause);
        // A spare init runs in the group of the sandbox; a command with a group of its own needs an init made for that.
        let spare = match (self.spare.take(), narrow) {
            (Some(spare), None) => spare,
            (kept, narrow) => {
                self.spare = kept;
                self.make_init(narrow).in_step("making an init")?
            }
        };
        let mut views = receive_views(&spare.socket).in_step("meeting the init")?.into_iter();
        let tally = views
            .next()
            .map(|processes| UsageTally::new(processes, views.collect()));
        let has_freezer = spare.narrow.as_ref().is_some_and(CommandGroup::can_freeze);
        let run = RunOrder {
            order: ExecOrder {
                spawn: spawn.clone(),
                start: self.plan.start_path().to_owned(),
                has_landlock: self.plan.has_landlock,
                has_group: self.has_group,
                // Counts the server, the init of each command, and a spare init with the process that waits in it.
                own_processes: (self.running.len() + self.leaving.len()) as u64 + 4,
            },
            read_only: self.plan.read_only.clone(),
            host_paths: self.plan.host_paths.clone(),
            empty_home: spawn.has_empty_home.then(|| EmptyHome {
                path: self.plan.home.path.clone(),
                bytes: self.plan.home.memory_bytes,
            }),
            may_pause: may_pause && !has_freezer,
        };
        let socket = spare.socket;
        let mut order = Vec::new();
        encode_message(&MessageToInit::Run(Box::new(run)), &mut order);
        let mut unsent = Some(UnsentOrder { order, layer: shown });
        let is_paused = self.laid.get(layer).is_some_and(|laid| laid.pause.is_some());
        if !is_paused && let Some(unsent) = unsent.take() {
            unsent.send_to_init(&socket).in_step("telling the init")?;
        }
        let has_terminal = spawn.terminal.is_some();
        let has_marks = spawn.terminal.is_some_and(|terminal| terminal.has_mark_pipe);
        let (input, answers) = if has_terminal {
            (None, has_marks.then_some(spare.input))
        } else {
            (spawn.has_input.then_some(spare.input), None)
        };
        let memory_kills = self.groups.kills_of_command(spare.narrow.as_ref());
        let watch = LimitWatch::new(spawn.limits.clone(), self.has_group, tally);
        Ok(RunningCommand {
            layer: layer.to_owned(),
            pid: spare.pid,
            pidfd: Some(spare.pidfd),
            socket,
            decoder: FrameDecoder::default(),
            starting: None,
            unsent,
            is_paused,
            // The init makes the terminal, and passes it when the program runs.
            input,
            waiting_input: VecDeque::new(),
            is_input_closing: false,
            outputs: [
                (!has_terminal).then_some(spare.output),
                (!has_terminal || has_marks).then_some(spare.error),
            ],
            has_terminal,
            answers,
            credit: CREDIT,
            narrow: spare.narrow,
            watch,
            memory_kills,
            exit: None,
            limit: None,
            ends_by: None,
            used: None,
        })
    }
}
