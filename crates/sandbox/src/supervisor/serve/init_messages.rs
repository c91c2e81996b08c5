//! Handles the messages of inits, and the end of commands.

use super::{ServeResult, SupervisorServer};
use crate::supervisor::descriptor_passing::DescriptorReceiver;
use crate::supervisor::init::{MessageFromInit, MessageToInit};
use crate::supervisor::protocol::{ProtocolFrame, StepFailure, SupervisorAnswer, write_message};
use crate::supervisor::sys;

impl SupervisorServer<'_> {
    /// Reads and handles the messages of an init.
    pub(super) fn read_init_messages(&mut self, process: u64) -> ServeResult {
        let Some(running) = self.running.get_mut(&process) else {
            return Ok(());
        };
        let mut receiving = DescriptorReceiver::new(&running.socket);
        if running.decoder.read_more(&mut receiving).unwrap_or(0) == 0 {
            return Ok(());
        }
        if let Some(terminal) = receiving.descriptors.pop() {
            // Without its terminal, nobody would read the program's output.
            if running.connect_terminal(terminal).is_err() {
                running.kill_init();
            }
        }
        while let Some(running) = self.running.get_mut(&process) {
            let Some(ProtocolFrame::Message(said)) = running.decoder.next_frame()? else {
                break;
            };
            self.handle_init_message(process, said);
        }
        Ok(())
    }

    fn handle_init_message(&mut self, process: u64, said: MessageFromInit) {
        let Some(running) = self.running.get_mut(&process) else {
            return;
        };
        match said {
            MessageFromInit::Started => {
                if let Some(request) = running.starting.take() {
                    self.answer_request(request, Ok(()));
                }
            }
            MessageFromInit::NotStarted(failure) => {
                let request = running.starting.take();
                running.outputs = [None, None];
                if let Some(request) = request {
                    self.answer_request(request, Err(failure));
                }
            }
            MessageFromInit::Paused(request) => {
                let layer = running.layer.clone();
                // If the layer was resumed and paused again meanwhile, this answers the earlier request.
                let is_asked = self
                    .laid
                    .get(&layer)
                    .and_then(|laid| laid.pause)
                    .map(|pause| pause.request);
                running.is_paused = is_asked == Some(request);
                self.check_paused(&layer);
            }
            MessageFromInit::Ended { ended, usage } => {
                running.exit = Some((ended, usage));
                self.leaving.push(running.pid);
                self.report_end(process);
            }
        }
    }

    /// Handles the end of an init, and so of every process of its command.
    pub(super) fn handle_init_end(&mut self, process: u64) -> ServeResult {
        // Its last message may still be unread, and it holds how the command ended.
        self.read_init_messages(process)?;
        if let Some(running) = self.running.get(&process)
            && running.pidfd.is_some()
        {
            let _ = sys::wait_for(running.pid, true);
            self.report_end(process);
        }
        Ok(())
    }

    /// Reports how a command ended, after its last process has ended.
    fn report_end(&mut self, process: u64) {
        let Some(running) = self.running.get_mut(&process) else {
            return;
        };
        running.pidfd = None;
        running.input = None;
        let exit = running.final_exit(self.groups.kills_of_command(running.narrow.as_ref()));
        let layer = running.layer.clone();
        if let Some(request) = running.starting.take() {
            running.outputs = [None, None];
            // A limit that ends a command before its program begins is reported with the end, like any other.
            let started = match exit.limit {
                Some(_) => Ok(()),
                None => Err(StepFailure::new(
                    "starting",
                    std::io::Error::from_raw_os_error(libc::ECHILD),
                )),
            };
            self.answer_request(request, started);
        }
        if let Some(laid) = self.laid.get_mut(&layer) {
            // The counters of this command are gone with it, and its bytes must not be charged to the others.
            laid.held.restart_comparison();
        }
        self.check_paused(&layer);
        // Before the end is reported: Garret then checks at once whether the layer is unmounted.
        self.lift_if_idle(&layer);
        self.send_answer(&SupervisorAnswer::Ended { process, exit });
        self.end_output(process);
        self.wants_spare = true;
    }

    pub(super) fn signal_command(&mut self, process: u64, number: i32) {
        let Some(running) = self.running.get_mut(&process) else {
            return;
        };
        if number == libc::SIGKILL {
            running.end_command();
        } else {
            let _ = write_message(&MessageToInit::Signal(number), &mut running.socket);
        }
    }
}
