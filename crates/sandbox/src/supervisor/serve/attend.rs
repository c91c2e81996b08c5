//! Handles the messages of inits, and the end of commands.

use super::{Served, Server};
use crate::supervisor::groups::Narrow;
use crate::supervisor::init::{Said, Tell};
use crate::supervisor::protocol::{Answer, EndedExit, Failure, Frame, write_message};
use crate::supervisor::sys;

impl Server<'_> {
    /// Reads and handles the messages of an init.
    pub(super) fn listen(&mut self, process: u64) -> Served {
        let Some(running) = self.running.get_mut(&process) else {
            return Ok(());
        };
        if running.decoder.fill(&mut running.socket).unwrap_or(0) == 0 {
            return Ok(());
        }
        while let Some(running) = self.running.get_mut(&process) {
            let Some(Frame::Message(said)) = running.decoder.next()? else {
                break;
            };
            self.hear(process, said);
        }
        Ok(())
    }

    fn hear(&mut self, process: u64, said: Said) {
        let Some(running) = self.running.get_mut(&process) else {
            return;
        };
        match said {
            Said::Started => {
                if let Some(request) = running.starting.take() {
                    self.settle(request, Ok(()));
                }
            }
            Said::NotStarted(failure) => {
                let request = running.starting.take();
                running.outputs = [None, None];
                if let Some(request) = request {
                    self.settle(request, Err(failure));
                }
            }
            Said::Paused(request) => {
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
            Said::Ended {
                code,
                signal,
                user_us,
                system_us,
                max_memory,
            } => {
                running.exit = Some(EndedExit {
                    code,
                    signal,
                    limit: None,
                    duration_us: 0,
                    user_us,
                    system_us,
                    max_memory,
                });
                self.leaving.push(running.pid);
                self.conclude(process);
            }
        }
    }

    /// Handles the end of an init, and so of every process of its command.
    pub(super) fn bury(&mut self, process: u64) -> Served {
        // Its last message may still be unread, and it holds how the command ended.
        self.listen(process)?;
        if let Some(running) = self.running.get(&process)
            && running.pidfd.is_some()
        {
            let _ = sys::wait_for(running.pid, true);
            self.conclude(process);
        }
        Ok(())
    }

    /// Reports how a command ended, after its last process has ended.
    fn conclude(&mut self, process: u64) {
        let Some(running) = self.running.get_mut(&process) else {
            return;
        };
        running.pidfd = None;
        running.input = None;
        let kills = running
            .narrow
            .as_ref()
            .and_then(Narrow::memory_kills)
            .unwrap_or_else(|| self.groups.memory_kills());
        let exit = running.exit_now(kills);
        let layer = running.layer.clone();
        if let Some(request) = running.starting.take() {
            running.outputs = [None, None];
            // A limit that ends a command before its program begins is reported with the end, like any other.
            let started = match exit.limit {
                Some(_) => Ok(()),
                None => Err(Failure::new(
                    "starting",
                    std::io::Error::from_raw_os_error(libc::ECHILD),
                )),
            };
            self.settle(request, started);
        }
        if let Some(laid) = self.laid.get_mut(&layer) {
            // The counters of this command are gone with it, and its bytes must not be charged to the others.
            laid.held.begin_anew();
        }
        self.check_paused(&layer);
        // Before the end is reported: Garret then checks at once whether the layer is unmounted.
        self.check_lifted(&layer);
        self.answer(&Answer::Ended { process, exit });
        self.end_output(process);
        self.wants_spare = true;
    }

    pub(super) fn signal(&mut self, process: u64, number: i32) {
        let Some(running) = self.running.get_mut(&process) else {
            return;
        };
        if number == libc::SIGKILL {
            running.end();
        } else {
            let _ = write_message(&Tell::Signal(number), &mut running.socket);
        }
    }
}
