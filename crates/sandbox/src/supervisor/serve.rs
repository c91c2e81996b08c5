//! The process that stays inside the sandbox: it mounts layers, starts commands and carries bytes.
//!
//! It has one thread and one loop. Steps that take time run in the inits; the output of a command is read only as far
//! as Garret has room for it.

#![cfg(target_os = "linux")]

mod attend;
mod carry;
mod layered;
mod overrun;
mod running;
mod spare;
mod start;

use std::collections::BTreeMap;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::DumpableBehavior;

use self::layered::Layer;
use self::running::Running;
use self::spare::Spare;
use super::groups::{Groups, Version};
use super::keeper::Grabbed;
use super::place::Arriving;
use super::protocol::{Answer, Ask, Decoder, Failure, Frame, Opened, Pausing, encode_message, write_message};
use super::system_calls::Filter;
use super::{confine, layers, root, sys};
use crate::namespace::plan::{INSIDE, SandboxPlan};

/// The control groups of the sandbox, and the reason if they do not hold.
#[derive(Debug)]
pub(super) struct Grouped {
    pub(super) groups: Groups,
    pub(super) group_failure: Option<String>,
}

/// Runs the server; never returns.
pub(super) fn main(
    plan: &SandboxPlan,
    channel: &UnixStream,
    decoder: Decoder,
    link: UnixStream,
    grabbed: Option<Grabbed>,
    grouped: Grouped,
) -> ! {
    let Ok(mut channel) = channel.try_clone() else {
        sys::exit(1)
    };
    match become_inside(plan, &link, grabbed) {
        Ok((has_proc, filter)) => {
            let has_group = grouped.group_failure.is_none() && grouped.groups.have_memory();
            let pausing = pausing(&grouped.groups, has_proc);
            let server = Server {
                plan,
                has_group,
                channel,
                decoder,
                out: Vec::new(),
                carried: Vec::new(),
                groups: grouped.groups,
                filter,
                laid: BTreeMap::new(),
                running: BTreeMap::new(),
                leaving: Vec::new(),
                arriving: BTreeMap::new(),
                spare: None,
                wants_spare: true,
                laid_so_far: 0,
                has_started_any: false,
            };
            let _ = server.serve(Opened {
                has_proc,
                overlay_failure: layers::try_overlay(&plan.overlays),
                group_failure: grouped.group_failure,
                pausing,
            });
        }
        Err(failure) => {
            let _ = write_message(&Answer::Failed { request: 0, failure }, &mut channel);
        }
    }
    // This is the first process of its namespace, so the kernel now ends every process of the sandbox.
    sys::exit(0)
}

/// Returns the means by which background commands are paused.
fn pausing(groups: &Groups, has_proc: bool) -> Pausing {
    match groups.freezer() {
        Some(Version::Two) => Pausing::FreezerTwo,
        Some(Version::One) => Pausing::FreezerOne,
        None if has_proc => Pausing::Trace,
        None => Pausing::Nothing,
    }
}

fn become_inside(plan: &SandboxPlan, link: &UnixStream, grabbed: Option<Grabbed>) -> Result<(bool, Filter), Failure> {
    let mut byte = [0];
    rustix::io::read(link, &mut byte).map_err(|error| Failure::new("starting", error))?;
    if byte[0] != b'm' {
        return Err(Failure::new(
            "starting",
            std::io::Error::from_raw_os_error(libc::ECANCELED),
        ));
    }
    if plan.user.is_dedicated {
        become_user().map_err(|error| Failure::new("becoming the user of the commands", error))?;
    }
    let has_proc = root::make(plan, grabbed)?;
    // Removes the capabilities from the bounding set; each command drops the ones it holds itself.
    confine::forget_rights();
    sys::join_free_memory_at_once();
    // After the change of identity, which would reset both.
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
        .and_then(|()| rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable))
        .map_err(|error| Failure::new("closing itself off", error))?;
    // Translated once here, and inherited by every init.
    let filter = Filter::new().map_err(|_| {
        Failure::new(
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

struct Server<'a> {
    plan: &'a SandboxPlan,
    /// Whether memory is limited by a control group.
    has_group: bool,
    channel: UnixStream,
    decoder: Decoder,
    out: Vec<u8>,
    /// The buffer for output that is carried.
    carried: Vec<u8>,
    groups: Groups,
    filter: Filter,
    laid: BTreeMap<String, Layer>,
    running: BTreeMap<u64, Running>,
    /// Inits whose command has ended and that the kernel has not ended yet.
    leaving: Vec<i32>,
    arriving: BTreeMap<u64, Arriving>,
    spare: Option<Spare>,
    /// Whether to make the next init ahead: at first, after a command was started, and after one has ended.
    wants_spare: bool,
    laid_so_far: u64,
    has_started_any: bool,
}

type Served<T = ()> = std::io::Result<T>;

impl Server<'_> {
    fn serve(mut self, opened: Opened) -> Served {
        rustix::io::ioctl_fionbio(&self.channel, true)?;
        self.answer(&Answer::Opened(opened));
        self.flush()?;
        loop {
            if std::mem::take(&mut self.wants_spare) && self.spare.is_none() {
                self.spare = self.make_init(None).ok();
            }
            self.turn()?;
            self.flush()?;
        }
    }

    fn answer(&mut self, answer: &Answer) {
        encode_message(answer, &mut self.out);
    }

    fn settle(&mut self, request: u64, result: Result<(), Failure>) {
        self.answer(&match result {
            Ok(()) => Answer::Done { request },
            Err(failure) => Answer::Failed { request, failure },
        });
    }

    /// Writes as much as the channel takes, and never waits.
    fn flush(&mut self) -> Served {
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
    fn turn(&mut self) -> Served {
        let Ready { processes, is_asked } = self.wait()?;
        for (process, what) in processes {
            match what {
                What::Output(at) => self.pump_output(process, at),
                What::Input => self.pump_input(process),
                What::Said => self.listen(process)?,
                What::Dead => self.bury(process)?,
            }
        }
        self.look();
        self.look_at_pauses();
        self.leaving
            .retain(|pid| matches!(sys::wait_for(*pid, false), Ok(None)));
        if is_asked {
            match self.decoder.fill(&mut self.channel) {
                Ok(0) => return Err(std::io::ErrorKind::UnexpectedEof.into()),
                Err(error) if error.kind() != std::io::ErrorKind::WouldBlock => return Err(error),
                _ => {}
            }
            while let Some(frame) = self.decoder.next()? {
                self.take(frame)?;
            }
        }
        Ok(())
    }

    fn wait(&self) -> Served<Ready> {
        let writing = if self.out.is_empty() {
            PollFlags::empty()
        } else {
            PollFlags::OUT
        };
        let mut watched = vec![PollFd::new(&self.channel, PollFlags::IN | writing)];
        let mut meant = Vec::new();
        for (process, running) in &self.running {
            for (what, fd) in running.watched() {
                let flags = if what == What::Input {
                    PollFlags::OUT
                } else {
                    PollFlags::IN
                };
                watched.push(PollFd::from_borrowed_fd(fd, flags));
                meant.push((*process, what));
            }
        }
        let timeout = self.next_look().map(timespec);
        match poll(&mut watched, timeout.as_ref()) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(Ready::default()),
            Err(error) => return Err(error.into()),
        }
        let is_ready = |fd: &PollFd<'_>| !fd.revents().is_empty();
        let processes = watched[1..]
            .iter()
            .zip(meant)
            .filter(|(fd, _)| is_ready(fd))
            .map(|(_, what)| what);
        Ok(Ready {
            processes: processes.collect(),
            is_asked: watched[0]
                .revents()
                .intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR),
        })
    }

    fn take(&mut self, frame: Frame<Ask>) -> Served {
        match frame {
            Frame::Bytes { id, stream: 0, bytes } => self.take_input(id, &bytes),
            Frame::Bytes { id, bytes, .. } => self.take_content(id, &bytes),
            Frame::Message(ask) => self.obey(ask)?,
        }
        Ok(())
    }

    fn obey(&mut self, ask: Ask) -> Served {
        match ask {
            Ask::Open(_) => {}
            Ask::Lay { layer, ground } => self.lay(layer, ground),
            Ask::Start {
                request,
                process,
                layer,
                spawn,
                lift,
            } => {
                // A layer that is unmounted after its command is never paused.
                let may_pause = lift.is_none();
                self.start(request, process, &layer, *spawn, may_pause);
                if let Some(lift) = lift {
                    self.lift_after_all(lift, &layer);
                }
            }
            Ask::CloseInput { process } => self.close_input(process),
            Ask::Credit { process, bytes } => {
                if let Some(running) = self.running.get_mut(&process) {
                    running.credit = running.credit.saturating_add(bytes);
                }
            }
            Ask::Signal { process, number } => self.signal(process, number),
            Ask::Place {
                request,
                layer,
                path,
                item,
            } => self.place(request, &layer, &path, &item),
            Ask::Refresh { request, layer } => self.refresh(request, &layer),
            Ask::Pause { request, layer } => self.pause(request, &layer),
            Ask::Resume { request, layer } => self.resume(request, &layer),
            Ask::Lift { request, layer } => self.lift(request, &layer)?,
        }
        Ok(())
    }
}

/// The events that one wait found.
#[derive(Debug, Default)]
struct Ready {
    processes: Vec<(u64, What)>,
    is_asked: bool,
}

/// The part of a command that is ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Output(usize),
    Input,
    Said,
    Dead,
}

fn timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(duration.subsec_nanos()),
    }
}
