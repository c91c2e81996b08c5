//! Carries bytes between commands and Garret, as far as each has room for them.

use std::os::fd::AsFd;

use garret_core::TerminalSize;
use rustix::io::Errno;

use super::SupervisorServer;
use super::running_command::RunningCommand;
use crate::supervisor::command_terminal;
use crate::supervisor::protocol::{DATA, SupervisorAnswer, encode_bytes};

/// The character by which a person ends the input on a terminal: Ctrl-D.
const END_OF_FILE: u8 = 4;

impl SupervisorServer<'_> {
    /// Changes the size of the terminal of a command.
    pub(super) fn resize_terminal(&mut self, process: u64, size: TerminalSize) {
        if let Some(running) = self.running.get(&process).filter(|running| running.has_terminal)
            && let Some(terminal) = &running.outputs[0]
        {
            // A terminal whose program has ended needs no size.
            let _ = command_terminal::set_size(terminal.as_fd(), size);
        }
    }

    /// Answers a mark of a command.
    pub(super) fn answer_mark(&mut self, process: u64) {
        if let Some(answers) = self.running.get(&process).and_then(|running| running.answers.as_ref()) {
            // A command that reads no answers wants none.
            let _ = rustix::io::write(answers, b"\n");
        }
    }

    pub(super) fn take_input(&mut self, process: u64, bytes: &[u8]) {
        if let Some(running) = self.running.get_mut(&process) {
            if running.input.is_some() {
                running.waiting_input.extend(bytes);
            }
            self.pump_input(process);
        }
    }

    pub(super) fn close_input(&mut self, process: u64) {
        if let Some(running) = self.running.get_mut(&process) {
            running.is_input_closing = true;
            if running.has_terminal {
                // A terminal has no end of its input; this character makes a reader see one.
                running.waiting_input.push_back(END_OF_FILE);
            }
            self.pump_input(process);
        }
    }

    /// Writes waiting input to a command, as far as its pipe takes it.
    pub(super) fn pump_input(&mut self, process: u64) {
        let Some(running) = self.running.get_mut(&process) else {
            return;
        };
        let mut given = 0;
        while let (Some(input), false) = (&running.input, running.waiting_input.is_empty()) {
            let (front, _) = running.waiting_input.as_slices();
            match rustix::io::write(input, front) {
                Ok(length) => {
                    running.waiting_input.drain(..length);
                    given += length as u64;
                }
                Err(Errno::AGAIN | Errno::INTR) => break,
                Err(_) => {
                    // The command does not read any more. Room is reported all the same, so that the writer does not
                    // wait for ever.
                    given += running.waiting_input.len() as u64;
                    running.waiting_input.clear();
                    running.input = None;
                }
            }
        }
        if running.is_input_closing && running.waiting_input.is_empty() {
            running.input = None;
        }
        if given > 0 {
            self.send_answer(&SupervisorAnswer::Room { process, bytes: given });
        }
    }

    /// Carries output of a command, as far as Garret has room for it.
    pub(super) fn pump_output(&mut self, process: u64, at: usize) {
        let Some(running) = self.running.get_mut(&process) else {
            return;
        };
        let room = usize::try_from(running.credit).unwrap_or(DATA).min(DATA);
        let Some(output) = &running.outputs[at] else {
            return;
        };
        if room == 0 {
            return;
        }
        self.carried.resize(DATA, 0);
        match rustix::io::read(output, &mut self.carried[..room]) {
            Ok(0) => running.outputs[at] = None,
            Ok(length) => {
                running.credit -= length as u64;
                encode_bytes(process, at as u8 + 1, &self.carried[..length], &mut self.out);
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => running.outputs[at] = None,
        }
        self.end_output(process);
    }

    /// Reports that all output was carried, and forgets the command, if it has ended and its output too.
    pub(super) fn end_output(&mut self, process: u64) {
        // The end of the output is reported together with the end of the command, so that a reader of both wakes only
        // once.
        let is_done = |running: &RunningCommand| running.pidfd.is_none() && running.outputs.iter().all(Option::is_none);
        if self.running.get(&process).is_some_and(is_done) {
            self.send_answer(&SupervisorAnswer::OutputEnded { process });
            self.running.remove(&process);
        }
    }
}
