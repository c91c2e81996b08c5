//! The process that stays inside the sandbox: it mounts layers, starts commands and carries bytes.
//!
//! It has one thread and one loop. Steps that take time run in the inits; the output of a command is read only as far
//! as Garret has room for it.

#![cfg(target_os = "linux")]

mod byte_streams;
mod init_messages;
mod layer_requests;
mod limit_checks;
mod running_command;
mod socket_requests;
mod spare_init;
mod start_command;

use std::collections::BTreeMap;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::DumpableBehavior;

use self::layer_requests::ServedLayer;
use self::running_command::RunningCommand;
use self::spare_init::SpareInit;
use super::control_groups::ControlGroups;
use super::home_size_watch::HomeSizeWatch;
use super::keeper::KeeperDirectories;
use super::place_item::ArrivingFile;
use super::protocol::{
    FailedStep, FrameDecoder, OpenedReport, PauseMethod, ProtocolFrame, RequestOutcome, StepFailure, SupervisorAnswer,
    SupervisorRequest, encode_message, write_message,
};
use super::system_call_filter::{SetIdBits, SystemCallFilter};
use super::{confine, mounted_layer, sandbox_root, sys};
use crate::namespace::plan::{INSIDE, PlannedAccess, SandboxPlan};

/// The channels of the server.
#[derive(Debug)]
pub(super) struct ServerChannels<'a> {
    /// Carries frames from and to Garret.
    pub(super) frames: &'a UnixStream,
    /// Carries sockets to Garret.
    pub(super) sockets: UnixStream,
    /// The decoder of the frames, which may hold some already.
    pub(super) decoder: FrameDecoder,
    /// Comes from the keeper.
    pub(super) link: UnixStream,
}

/// Runs the server; never returns.
pub(super) fn main(
    plan: &SandboxPlan,
    channels: ServerChannels<'_>,
    grabbed: Option<KeeperDirectories>,
    groups: ControlGroups,
) -> ! {
    let Ok(mut channel) = channels.frames.try_clone() else {
        sys::exit_process(1)
    };
    match enter_sandbox(plan, &channels.link, grabbed) {
        Ok((has_proc, filter)) => {
            let has_group = groups.have_memory();
            let has_groups = groups.are_in_force();
            let without_freezer = if has_proc {
                PauseMethod::Trace
            } else {
                PauseMethod::Nothing
            };
            let pausing = groups.freezer().unwrap_or(without_freezer);
            let server = SupervisorServer {
                plan,
                writable: plan.writable_paths(),
                has_group,
                channel,
                sockets: channels.sockets,
                decoder: channels.decoder,
                out: Vec::new(),
                carried: Vec::new(),
                groups,
                filter,
                laid: BTreeMap::new(),
                running: BTreeMap::new(),
                leaving: Vec::new(),
                arriving: BTreeMap::new(),
                spare: None,
                wants_spare: true,
                laid_so_far: 0,
                home: plan.home.limit.map(|limit| HomeSizeWatch::new(&plan.home.path, limit)),
                has_started_any: false,
            };
            let _ = server.serve(OpenedReport {
                has_proc,
                overlay_failure: mounted_layer::try_overlay(&plan.overlays),
                has_groups,
                pausing,
            });
        }
        Err(failure) => {
            let _ = write_message(&SupervisorAnswer::Opened(Err(failure)), &mut channel);
        }
    }
    // This is the first process of its namespace, so the kernel now ends every process of the sandbox.
    sys::exit_process(0)
}

fn enter_sandbox(
    plan: &SandboxPlan,
    link: &UnixStream,
    grabbed: Option<KeeperDirectories>,
) -> Result<(bool, SystemCallFilter), StepFailure> {
    let mut byte = [0];
    rustix::io::read(link, &mut byte).in_step("starting")?;
    if byte[0] != b'm' {
        return Err(StepFailure::new(
            "starting",
            std::io::Error::from_raw_os_error(libc::ECANCELED),
        ));
    }
    if plan.user.is_dedicated {
        become_user().in_step("becoming the user of the commands")?;
    }
    let has_proc = sandbox_root::make_root(plan, grabbed)?;
    // Removes the capabilities from the bounding set; each command drops the ones it holds itself.
    confine::drop_gainable_capabilities();
    sys::join_free_memory_at_once();
    // After the change of identity, which would reset both.
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
        .and_then(|()| rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable))
        .in_step("closing itself off")?;
    // Translated once here, and inherited by every init.
    let shares_files = plan.mounts.iter().any(|mount| mount.access == PlannedAccess::Write);
    let set_id = if shares_files {
        SetIdBits::Refused
    } else {
        SetIdBits::Allowed
    };
    let filter = SystemCallFilter::new(set_id).map_err(|_| {
        StepFailure::new(
            "translating the filter",
            std::io::Error::from_raw_os_error(libc::ENOSYS),
        )
    })?;
    Ok((has_proc, filter))
}

fn become_user() -> rustix::io::Result<()> {
    let group = rustix::fs::Gid::from_raw(INSIDE);
    let user = rustix::fs::Uid::from_raw(INSIDE);
    rustix::thread::set_thread_res_gid(group, group, group)?;
    rustix::thread::set_thread_res_uid(user, user, user)
}

struct SupervisorServer<'a> {
    plan: &'a SandboxPlan,
    /// The paths of the sandbox at which commands may write.
    writable: Vec<String>,
    /// The size of the kept home, if it has a limit.
    home: Option<HomeSizeWatch>,
    /// Whether memory is limited by a control group.
    has_group: bool,
    channel: UnixStream,
    /// The channel over which sockets are passed to Garret.
    sockets: UnixStream,
    decoder: FrameDecoder,
    out: Vec<u8>,
    /// The buffer for output that is carried.
    carried: Vec<u8>,
    groups: ControlGroups,
    filter: SystemCallFilter,
    laid: BTreeMap<String, ServedLayer>,
    running: BTreeMap<u64, RunningCommand>,
    /// Inits whose command has ended and that the kernel has not ended yet.
    leaving: Vec<i32>,
    arriving: BTreeMap<u64, ArrivingFile>,
    spare: Option<SpareInit>,
    /// Whether to make the next init ahead: at first, after a command was started, and after one has ended.
    wants_spare: bool,
    laid_so_far: u64,
    has_started_any: bool,
}

type ServeResult<T = ()> = std::io::Result<T>;

impl SupervisorServer<'_> {
    fn serve(mut self, opened: OpenedReport) -> ServeResult {
        rustix::io::ioctl_fionbio(&self.channel, true)?;
        // Fails if the channel is no socket; each socket that is asked for is then refused.
        let _ = rustix::io::ioctl_fionbio(&self.sockets, true);
        self.send_answer(&SupervisorAnswer::Opened(Ok(opened)));
        self.flush_channel()?;
        loop {
            if std::mem::take(&mut self.wants_spare) && self.spare.is_none() {
                self.spare = self.make_init(None).ok();
            }
            self.handle_events()?;
            self.flush_channel()?;
        }
    }

    fn send_answer(&mut self, answer: &SupervisorAnswer) {
        encode_message(answer, &mut self.out);
    }

    fn answer_request(&mut self, request: u64, result: Result<(), StepFailure>) {
        let outcome = result.map(|()| RequestOutcome::Complete);
        self.send_answer(&SupervisorAnswer::Answered { request, outcome });
    }

    /// Writes as much as the channel takes, and never waits.
    fn flush_channel(&mut self) -> ServeResult {
        // A wait could deadlock: Garret may be blocked on writing to this process.
        while !self.out.is_empty() {
            match self.channel.write(&self.out) {
                Ok(0) => return Err(std::io::ErrorKind::WriteZero.into()),
                Ok(length) => drop(self.out.drain(..length)),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Waits for events, and handles them.
    fn handle_events(&mut self) -> ServeResult {
        let ReadyEvents { processes, is_asked } = self.wait_for_events()?;
        for (process, what) in processes {
            match what {
                ReadyPart::Output(at) => self.pump_output(process, at),
                ReadyPart::Input => self.pump_input(process),
                ReadyPart::Message => self.read_init_messages(process)?,
                ReadyPart::InitEnded => self.handle_init_end(process)?,
            }
        }
        self.check_limits();
        self.check_pauses();
        self.leaving
            .retain(|pid| matches!(sys::wait_for(*pid, false), Ok(None)));
        if is_asked {
            match self.decoder.read_more(&mut self.channel) {
                Ok(0) => return Err(std::io::ErrorKind::UnexpectedEof.into()),
                Err(error) if error.kind() != std::io::ErrorKind::WouldBlock => return Err(error),
                _ => {}
            }
            while let Some(frame) = self.decoder.next_frame()? {
                self.handle_frame(frame);
            }
        }
        Ok(())
    }

    fn wait_for_events(&self) -> ServeResult<ReadyEvents> {
        let writing = if self.out.is_empty() {
            PollFlags::empty()
        } else {
            PollFlags::OUT
        };
        let mut watched = vec![PollFd::new(&self.channel, PollFlags::IN | writing)];
        let mut meant = Vec::new();
        for (process, running) in &self.running {
            for (what, fd) in running.watched_descriptors() {
                let flags = if what == ReadyPart::Input {
                    PollFlags::OUT
                } else {
                    PollFlags::IN
                };
                watched.push(PollFd::from_borrowed_fd(fd, flags));
                meant.push((*process, what));
            }
        }
        let timeout = self.time_to_next_check().map(to_timespec);
        match poll(&mut watched, timeout.as_ref()) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(ReadyEvents::default()),
            Err(error) => return Err(error.into()),
        }
        let is_ready = |fd: &PollFd<'_>| !fd.revents().is_empty();
        let processes = watched[1..]
            .iter()
            .zip(meant)
            .filter(|(fd, _)| is_ready(fd))
            .map(|(_, what)| what);
        Ok(ReadyEvents {
            processes: processes.collect(),
            is_asked: watched[0]
                .revents()
                .intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR),
        })
    }

    fn handle_frame(&mut self, frame: ProtocolFrame<SupervisorRequest>) {
        match frame {
            ProtocolFrame::Bytes { id, stream: 0, bytes } => self.take_input(id, &bytes),
            ProtocolFrame::Bytes { id, bytes, .. } => self.take_content(id, &bytes),
            ProtocolFrame::Message(ask) => self.handle_request(ask),
        }
    }

    fn handle_request(&mut self, ask: SupervisorRequest) {
        match ask {
            SupervisorRequest::Open(_) => {}
            SupervisorRequest::Lay { layer, lower } => self.mount_layer(layer, lower),
            SupervisorRequest::Start {
                request,
                process,
                layer,
                spawn,
                lift,
            } => {
                // A layer that is unmounted after its command is never paused.
                let may_pause = lift.is_none();
                self.start_command(request, process, &layer, *spawn, may_pause);
                if let Some(lift) = lift {
                    self.lift_after_all(lift, &layer);
                }
            }
            SupervisorRequest::CloseInput { process } => self.close_input(process),
            SupervisorRequest::Credit { process, bytes } => {
                if let Some(running) = self.running.get_mut(&process) {
                    running.credit = running.credit.saturating_add(bytes);
                }
            }
            SupervisorRequest::Signal { process, number } => self.signal_command(process, number),
            SupervisorRequest::Resize { process, size } => self.resize_terminal(process, size),
            SupervisorRequest::AnswerMark { process } => self.answer_mark(process),
            SupervisorRequest::Place {
                request,
                layer,
                path,
                item,
            } => self.place_item(request, &layer, &path, &item),
            SupervisorRequest::Refresh { request, layer } => self.refresh_layer(request, &layer),
            SupervisorRequest::Pause { request, layer } => self.pause_layer(request, &layer),
            SupervisorRequest::Resume { request, layer } => self.resume_layer(request, &layer),
            SupervisorRequest::Lift { request, layer } => self.lift_layer(request, &layer),
            SupervisorRequest::MakeSocket { request, family } => self.make_socket(request, family),
        }
    }
}

/// The events that one wait found.
#[derive(Debug, Default)]
struct ReadyEvents {
    processes: Vec<(u64, ReadyPart)>,
    is_asked: bool,
}

/// The part of a command that is ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReadyPart {
    Output(usize),
    Input,
    Message,
    InitEnded,
}

fn to_timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(duration.subsec_nanos()),
    }
}
