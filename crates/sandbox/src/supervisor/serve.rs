//! The process that stays inside: it lays layers, starts commands and carries bytes.
//!
//! One thread and one loop. What takes time happens in the inits; what a command writes is read only as far as Garret has room for it.

use std::collections::{BTreeMap, VecDeque};
use std::io::Write;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{DumpableBehavior, Pid, PidfdFlags};

use super::confine::{Order, Standard};
use super::groups::{Groups, Narrow};
use super::init::{self, Ends, Run, Said, Tell};
use super::keeper::{Grabbed, read_admission};
use super::layers::Laid;
use super::place::{self, Draft};
use super::protocol::{
    Answer, Ask, CREDIT, DATA, Decoder, EndedExit, Ending, Failure, Frame, Item, Opened, Spawn, SpawnLimits,
    encode_bytes, encode_message, write_message,
};
use super::sys::{self, Forked, Fresh};
use super::system_calls::Filters;
use super::{layers, root, sample};
use crate::namespace::plan::{INSIDE, SandboxPlan};

/// How long after its start a command is first looked at, and how often then.
const FIRST_LOOK: Duration = Duration::from_millis(20);
const LOOK: Duration = Duration::from_millis(50);

/// Is the server; never returns.
pub(super) fn main(
    plan: &SandboxPlan,
    channel: &UnixStream,
    decoder: Decoder,
    link: UnixStream,
    grabbed: Option<Grabbed>,
    groups: Groups,
) -> ! {
    let Ok(mut channel) = channel.try_clone() else {
        sys::exit(1)
    };
    match become_inside(plan, &link, grabbed) {
        Ok((has_proc, filters)) => {
            let server = Server {
                plan,
                channel,
                decoder,
                out: Vec::new(),
                link: Some(link),
                has_proc,
                groups,
                filters,
                laid: BTreeMap::new(),
                running: BTreeMap::new(),
                leaving: Vec::new(),
                drafts: BTreeMap::new(),
                spare: None,
                laid_so_far: 0,
            };
            let _ = server.serve();
        }
        Err(failure) => {
            let _ = write_message(&Answer::Failed { request: 0, failure }, &mut channel);
        }
    }
    // Ends every process of the sandbox: this is the first of its namespace.
    sys::exit(0)
}

fn become_inside(plan: &SandboxPlan, link: &UnixStream, grabbed: Option<Grabbed>) -> Result<(bool, Filters), Failure> {
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
    // After the identity has changed, which would undo both.
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
        .and_then(|()| rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable))
        .map_err(|error| Failure::new("closing itself off", error))?;
    let filters = Filters::new().map_err(|_| {
        Failure::new(
            "translating the filter",
            std::io::Error::from_raw_os_error(libc::ENOSYS),
        )
    })?;
    Ok((has_proc, filters))
}

fn become_user() -> rustix::io::Result<()> {
    let group = rustix::fs::Gid::from_raw(INSIDE);
    let user = rustix::fs::Uid::from_raw(INSIDE);
    rustix::thread::set_thread_res_gid(group, group, group)?;
    rustix::thread::set_thread_res_uid(user, user, user)
}

struct Server<'a> {
    plan: &'a SandboxPlan,
    channel: UnixStream,
    decoder: Decoder,
    out: Vec<u8>,
    link: Option<UnixStream>,
    has_proc: bool,
    groups: Groups,
    filters: Filters,
    laid: BTreeMap<String, Layer>,
    running: BTreeMap<u64, Running>,
    /// Inits whose command is over and whose own end takes the kernel a while.
    leaving: Vec<i32>,
    drafts: BTreeMap<u64, Draft>,
    spare: Option<Spare>,
    laid_so_far: u64,
}

/// A layer, and who waits for something to come true on it.
struct Layer {
    laid: Result<Laid, Failure>,
    lifting: Option<u64>,
    pausing: Option<u64>,
}

/// An init that waits for a command.
struct Spare {
    pid: i32,
    pidfd: OwnedFd,
    socket: UnixStream,
    input: OwnedFd,
    output: OwnedFd,
    error: OwnedFd,
    narrow: Option<Narrow>,
}

/// A command.
struct Running {
    layer: String,
    pid: i32,
    pidfd: Option<OwnedFd>,
    socket: UnixStream,
    decoder: Decoder,
    starting: Option<u64>,
    is_paused: bool,
    input: Option<OwnedFd>,
    waiting_input: VecDeque<u8>,
    is_input_closing: bool,
    outputs: [Option<OwnedFd>; 2],
    credit: u64,
    processes: Option<OwnedFd>,
    narrow: Option<Narrow>,
    spawn: Spawn,
    started: Instant,
    next_look: Instant,
    memory_kills: u64,
    memory_files: u64,
    exit: Option<EndedExit>,
    limit: Option<Ending>,
}

type Served<T = ()> = std::io::Result<T>;

#[allow(
    clippy::disallowed_methods,
    reason = "time limits are measured where the commands run"
)]
fn now() -> Instant {
    Instant::now()
}

impl Server<'_> {
    fn serve(mut self) -> Served {
        rustix::io::ioctl_fionbio(&self.channel, true)?;
        let opened = Opened {
            has_proc: self.has_proc,
            overlay_failure: layers::try_overlay(self.plan.trial.as_deref()),
        };
        self.answer(&Answer::Opened(opened));
        self.flush()?;
        loop {
            if self.is_idle() {
                self.spare = self.make_init(None).ok();
            }
            self.turn()?;
            self.flush()?;
        }
    }

    /// Whether there is time to make an init ahead.
    fn is_idle(&self) -> bool {
        self.spare.is_none() && self.running.is_empty() && self.laid.is_empty()
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

    /// Writes as much as the channel takes. It never waits for that: whoever is at the other end may be waiting to be read.
    fn flush(&mut self) -> Served {
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

    /// Waits for something to happen, and deals with it.
    fn turn(&mut self) -> Served {
        let Ready {
            processes,
            is_asked,
            is_admitted,
        } = self.wait()?;
        if is_admitted {
            self.await_admission();
        }
        for (process, what) in processes {
            match what {
                What::Output(at) => self.pump_output(process, at),
                What::Input => self.pump_input(process),
                What::Said => self.listen(process)?,
                What::Dead => self.bury(process)?,
            }
        }
        self.look();
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
        watched.extend(self.link.as_ref().map(|link| PollFd::new(link, PollFlags::IN)));
        let others = watched.len();
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
        let processes = watched[others..]
            .iter()
            .zip(meant)
            .filter(|(fd, _)| is_ready(fd))
            .map(|(_, what)| what);
        Ok(Ready {
            processes: processes.collect(),
            is_asked: watched[0]
                .revents()
                .intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR),
            is_admitted: others > 1 && is_ready(&watched[1]),
        })
    }

    fn next_look(&self) -> Option<Duration> {
        let living = self.running.values().filter(|running| running.pidfd.is_some());
        let next = living.map(Running::wakes).min()?;
        Some(next.saturating_duration_since(now()))
    }

    fn take(&mut self, frame: Frame<Ask>) -> Served {
        match frame {
            Frame::Bytes { id, stream: 0, bytes } => self.take_input(id, &bytes),
            Frame::Bytes { id, bytes, .. } => self.take_draft(id, &bytes),
            Frame::Message(ask) => self.obey(ask)?,
        }
        Ok(())
    }

    fn obey(&mut self, ask: Ask) -> Served {
        match ask {
            Ask::Open(_) => {}
            Ask::Lay { layer, is_copy } => self.lay(layer, is_copy),
            Ask::Start {
                request,
                process,
                layer,
                spawn,
            } => self.start(request, process, layer, *spawn)?,
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
            Ask::Pause { request, layer } => self.pause(request, &layer),
            Ask::Resume { request, layer } => self.resume(request, &layer),
            Ask::Lift { request, layer } => self.lift(request, &layer)?,
        }
        Ok(())
    }

    fn lay(&mut self, layer: String, is_copy: bool) {
        self.laid_so_far += 1;
        let laid = if is_copy {
            Laid::show(self.laid_so_far, &layer)
        } else {
            Laid::lay(self.laid_so_far, &layer, &self.plan.hidden)
        };
        self.laid.insert(
            layer,
            Layer {
                laid,
                lifting: None,
                pausing: None,
            },
        );
    }

    /// The layer's mount point, or why it has none.
    fn mounted(&self, layer: &str) -> Result<String, Failure> {
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

    fn start(&mut self, request: u64, process: u64, layer: String, spawn: Spawn) -> Served {
        match self.try_start(process, &layer, &spawn) {
            Ok(mut running) => {
                running.starting = Some(request);
                self.running.insert(process, running);
            }
            Err(failure) => self.settle(request, Err(failure)),
        }
        Ok(())
    }

    fn try_start(&mut self, process: u64, layer: &str, spawn: &Spawn) -> Result<Running, Failure> {
        let mounted = self.mounted(layer)?;
        self.await_admission();
        let narrow = self.narrow(process, spawn);
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
                has_group: self.plan.group.is_some(),
                // The server, the init of each command, and an init that waits with its program.
                own_processes: (self.running.len() + self.leaving.len()) as u64 + 4,
            },
            layer: mounted,
            read_only: self.plan.read_only.clone(),
        };
        let mut socket = spare.socket;
        write_message(&Tell::Run(Box::new(run)), &mut socket)
            .map_err(|error| Failure::new("telling the init", error))?;
        let memory_kills = spare
            .narrow
            .as_ref()
            .map_or_else(|| self.groups.memory_kills(), Narrow::memory_kills);
        let started = now();
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
            processes,
            narrow: spare.narrow,
            spawn: spawn.clone(),
            started,
            next_look: started + FIRST_LOOK,
            memory_kills,
            memory_files: memory_files(),
            exit: None,
            limit: None,
        })
    }

    /// The limits on everything together must be in place before the first command.
    fn await_admission(&mut self) {
        if let Some(link) = self.link.take() {
            let failure = read_admission(link);
            self.answer(&Answer::Admitted { failure });
            // An init that was made before is outside.
            if let Some(spare) = self.spare.take() {
                end(spare.pid);
            }
        }
    }

    /// A group of its own where the command may hold less than the sandbox.
    fn narrow(&self, process: u64, spawn: &Spawn) -> Option<Narrow> {
        let group = self.plan.group.as_ref()?;
        let memory = spawn.limits.memory?;
        (group.memory.is_none_or(|most| memory < most)).then(|| self.groups.narrow(process, memory))?
    }

    fn make_init(&self, narrow: Option<Narrow>) -> Served<Spare> {
        let (socket, other) = UnixStream::pair()?;
        let (input, input_end) = pipe_with(PipeFlags::CLOEXEC).map(|(read, write)| (write, read))?;
        let (output, output_end) = pipe_with(PipeFlags::CLOEXEC)?;
        let (error, error_end) = pipe_with(PipeFlags::CLOEXEC)?;
        for end in [&input, &output, &error] {
            rustix::io::ioctl_fionbio(end, true)?;
        }
        match sys::fork_into(Fresh::PID.and(Fresh::MOUNT))? {
            Forked::Child => {
                let standard = Standard {
                    input: input_end,
                    output: output_end,
                    error: error_end,
                };
                let ends = Ends {
                    socket: other,
                    standard,
                };
                drop((socket, input, output, error));
                init::main(ends, &self.filters, narrow.as_ref())
            }
            Forked::Parent(pid) => Ok(Spare {
                pid,
                pidfd: pidfd(pid)?,
                socket,
                input,
                output,
                error,
                narrow,
            }),
        }
    }

    fn take_input(&mut self, process: u64, bytes: &[u8]) {
        if let Some(running) = self.running.get_mut(&process) {
            if running.input.is_some() {
                running.waiting_input.extend(bytes);
            }
            self.pump_input(process);
        }
    }

    fn close_input(&mut self, process: u64) {
        if let Some(running) = self.running.get_mut(&process) {
            running.is_input_closing = true;
            self.pump_input(process);
        }
    }

    /// Gives a command what waits for it, as far as it takes it.
    fn pump_input(&mut self, process: u64) {
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
                    // Nobody reads it any more. Room is made all the same, so that whoever writes does not wait for ever.
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
            self.answer(&Answer::Room { process, bytes: given });
        }
    }

    /// Carries output, as far as there is room for it.
    fn pump_output(&mut self, process: u64, at: usize) {
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
        let mut bytes = vec![0; room];
        match rustix::io::read(output, &mut bytes) {
            Ok(0) => running.outputs[at] = None,
            Ok(length) => {
                running.credit -= length as u64;
                encode_bytes(process, at as u8 + 1, &bytes[..length], &mut self.out);
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => running.outputs[at] = None,
        }
        self.end_output(process);
    }

    fn end_output(&mut self, process: u64) {
        let is_over = |running: &Running| running.outputs.iter().all(Option::is_none);
        if self.running.get(&process).is_some_and(is_over) {
            self.answer(&Answer::OutputEnded { process });
            self.forget(process);
        }
    }

    /// Forgets a command that is dead and has told everything.
    fn forget(&mut self, process: u64) {
        let is_done = |running: &Running| running.pidfd.is_none() && running.outputs.iter().all(Option::is_none);
        if self.running.get(&process).is_some_and(is_done) {
            self.running.remove(&process);
        }
    }

    /// Hears what an init says.
    fn listen(&mut self, process: u64) -> Served {
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
            Said::Paused => {
                running.is_paused = true;
                let layer = running.layer.clone();
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

    /// Deals with the end of an init, and so of everything that its command started.
    fn bury(&mut self, process: u64) -> Served {
        self.listen(process)?;
        if let Some(running) = self.running.get(&process)
            && running.pidfd.is_some()
        {
            let _ = sys::wait_for(running.pid, true);
            self.conclude(process);
        }
        Ok(())
    }

    /// Tells how a command ended, of which no process is left.
    fn conclude(&mut self, process: u64) {
        let Some(running) = self.running.get_mut(&process) else {
            return;
        };
        running.pidfd = None;
        running.input = None;
        let kills = running
            .narrow
            .as_ref()
            .map_or_else(|| self.groups.memory_kills(), Narrow::memory_kills);
        let exit = running.exit_now(kills);
        let layer = running.layer.clone();
        if let Some(request) = running.starting.take() {
            let failure = Failure::new("starting", std::io::Error::from_raw_os_error(libc::ECHILD));
            running.outputs = [None, None];
            self.settle(request, Err(failure));
        }
        self.answer(&Answer::Ended { process, exit });
        self.forget(process);
        self.check_paused(&layer);
        self.check_lifted(&layer);
    }

    fn signal(&mut self, process: u64, number: i32) {
        let Some(running) = self.running.get_mut(&process) else {
            return;
        };
        if number == libc::SIGKILL {
            running.kill();
        } else {
            let _ = write_message(&Tell::Signal(number), &mut running.socket);
        }
    }

    fn on_layer(&mut self, layer: &str) -> impl Iterator<Item = &mut Running> {
        self.running
            .values_mut()
            .filter(move |running| running.layer == layer && running.pidfd.is_some())
    }

    fn pause(&mut self, request: u64, layer: &str) {
        for running in self.on_layer(layer) {
            running.is_paused = false;
            let _ = write_message(&Tell::Pause, &mut running.socket);
        }
        match self.laid.get_mut(layer) {
            Some(laid) => laid.pausing = Some(request),
            None => self.settle(request, Ok(())),
        }
        self.check_paused(layer);
    }

    fn check_paused(&mut self, layer: &str) {
        if !self.on_layer(layer).all(|running| running.is_paused) {
            return;
        }
        if let Some(request) = self.laid.get_mut(layer).and_then(|laid| laid.pausing.take()) {
            self.settle(request, Ok(()));
        }
    }

    fn resume(&mut self, request: u64, layer: &str) {
        for running in self.on_layer(layer) {
            running.is_paused = false;
            let _ = write_message(&Tell::Resume, &mut running.socket);
        }
        self.settle(request, Ok(()));
    }

    fn lift(&mut self, request: u64, layer: &str) -> Served {
        for running in self.on_layer(layer) {
            running.kill();
        }
        match self.laid.get_mut(layer) {
            Some(laid) => laid.lifting = Some(request),
            None => self.settle(request, Ok(())),
        }
        self.check_lifted(layer);
        Ok(())
    }

    fn check_lifted(&mut self, layer: &str) {
        let is_lifting = self.laid.get(layer).is_some_and(|laid| laid.lifting.is_some());
        if !is_lifting || self.on_layer(layer).next().is_some() {
            return;
        }
        if let Some(Layer {
            laid,
            lifting: Some(request),
            ..
        }) = self.laid.remove(layer)
        {
            let lifted = laid.map_or(Ok(()), Laid::lift);
            self.settle(request, lifted);
        }
    }

    fn place(&mut self, request: u64, layer: &str, path: &[u8], item: &Item) {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let placed = self.mounted(layer).and_then(|mounted| {
            let base = rustix::fs::open(mounted, flags, Mode::empty())
                .map_err(|error| Failure::new("opening the layer", error))?;
            place::place(&base, path, item)
        });
        match placed {
            Ok(Some(draft)) => {
                self.drafts.insert(request, draft);
            }
            Ok(None) => self.settle(request, Ok(())),
            Err(failure) => self.settle(request, Err(failure)),
        }
    }

    fn take_draft(&mut self, request: u64, bytes: &[u8]) {
        let Some(draft) = self.drafts.get_mut(&request) else {
            return;
        };
        let added = draft.add(bytes);
        if !matches!(added, Ok(false)) {
            self.drafts.remove(&request);
            self.settle(request, added.map(drop));
        }
    }

    /// Looks whether a command is over a limit, and ends it if so.
    fn look(&mut self) {
        let now = now();
        let has_group = self.plan.group.is_some();
        for running in self.running.values_mut().filter(|running| running.pidfd.is_some()) {
            if running.wakes() <= now && running.limit.is_none() {
                running.limit = running.look(now, has_group);
                if running.limit.is_some() {
                    running.kill();
                }
            }
        }
    }
}

/// What is ready.
#[derive(Debug, Default)]
struct Ready {
    processes: Vec<(u64, What)>,
    is_asked: bool,
    is_admitted: bool,
}

/// What is ready on a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Output(usize),
    Input,
    Said,
    Dead,
}

impl Running {
    fn watched(&self) -> Vec<(What, std::os::fd::BorrowedFd<'_>)> {
        use std::os::fd::AsFd;
        let mut watched = Vec::with_capacity(5);
        if self.credit > 0 {
            for (at, output) in self.outputs.iter().enumerate() {
                watched.extend(output.as_ref().map(|output| (What::Output(at), output.as_fd())));
            }
        }
        if let (Some(input), false) = (&self.input, self.waiting_input.is_empty()) {
            watched.push((What::Input, input.as_fd()));
        }
        // In this order: what was said and written before the end is heard before it.
        if let Some(pidfd) = &self.pidfd {
            watched.push((What::Said, self.socket.as_fd()));
            watched.push((What::Dead, pidfd.as_fd()));
        }
        watched
    }

    fn deadline(&self) -> Option<Instant> {
        Some(self.started + Duration::from_millis(self.spawn.limits.wall_ms?))
    }

    /// When it must be looked at next.
    fn wakes(&self) -> Instant {
        self.deadline()
            .map_or(self.next_look, |deadline| deadline.min(self.next_look))
    }

    fn look(&mut self, now: Instant, has_group: bool) -> Option<Ending> {
        self.next_look = now + LOOK;
        if self.deadline().is_some_and(|deadline| deadline <= now) {
            return Some(Ending::Wall);
        }
        let limits = &self.spawn.limits;
        let is_over = |used: u64, limit: Option<u64>| limit.is_some_and(|limit| used > limit);
        let sample = sample::take(self.processes.as_ref()?, !has_group && limits.memory.is_some());
        let written = sample.written + memory_files().saturating_sub(self.memory_files);
        if is_over(sample.cpu_ms, limits.cpu_ms) {
            return Some(Ending::Cpu);
        }
        if is_over(written, limits.written) {
            return Some(Ending::Written);
        }
        is_over(sample.memory, limits.memory).then_some(Ending::Memory)
    }

    /// Ends the init, and by the kernel everything that the command started.
    fn kill(&self) {
        end(self.pid);
    }

    /// How it ended, with the limit that did it.
    fn exit_now(&self, memory_kills: u64) -> EndedExit {
        let mut exit = self.exit.clone().unwrap_or(EndedExit {
            code: None,
            signal: Some(libc::SIGKILL),
            limit: None,
            duration_us: 0,
            user_us: 0,
            system_us: 0,
            max_memory: 0,
        });
        exit.duration_us = u64::try_from(self.started.elapsed_now().as_micros()).unwrap_or(u64::MAX);
        let has_memory_kill = memory_kills > self.memory_kills;
        exit.limit = self
            .limit
            .or_else(|| ended_by(&exit, &self.spawn.limits, has_memory_kill));
        exit
    }
}

/// The limit that a way of ending tells of. A shell gives 128 and the number where a signal ended what it ran.
fn ended_by(exit: &EndedExit, limits: &SpawnLimits, has_memory_kill: bool) -> Option<Ending> {
    let number = exit.signal.or(exit.code.map(|code| code - 128))?;
    match number {
        libc::SIGXFSZ => limits.largest_file().map(|(_, limit)| limit),
        libc::SIGXCPU => Some(Ending::Cpu),
        _ if has_memory_kill && exit.code != Some(0) => Some(Ending::Memory),
        _ => None,
    }
}

trait Elapsed {
    fn elapsed_now(&self) -> Duration;
}

impl Elapsed for Instant {
    fn elapsed_now(&self) -> Duration {
        now().saturating_duration_since(*self)
    }
}

/// Kills an init. It cannot be a stranger of the same number: nobody collected it yet.
fn end(pid: i32) {
    let _ = sys::kill(pid, libc::SIGKILL);
}

fn pidfd(pid: i32) -> Served<OwnedFd> {
    let pid = Pid::from_raw(pid).ok_or(std::io::ErrorKind::InvalidInput)?;
    Ok(rustix::process::pidfd_open(pid, PidfdFlags::empty())?)
}

fn timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(duration.subsec_nanos()),
    }
}

/// Bytes that the files in memory hold.
fn memory_files() -> u64 {
    let used = |path: &str| {
        let stat = rustix::fs::statfs(path).ok()?;
        Some((stat.f_blocks - stat.f_bfree) * stat.f_bsize as u64)
    };
    used("/tmp").unwrap_or(0) + used("/dev/shm").unwrap_or(0)
}

/// Waits until an init is ready; its view of the processes to come.
fn receive(socket: &UnixStream) -> Served<Option<OwnedFd>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let received = rustix::net::recvmsg(
        socket,
        &mut [std::io::IoSliceMut::new(&mut byte)],
        &mut ancillary,
        RecvFlags::CMSG_CLOEXEC,
    )?;
    if received.bytes == 0 {
        return Err(std::io::ErrorKind::UnexpectedEof.into());
    }
    let mut found = None;
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(mut fds) = message {
            found = fds.next();
        }
    }
    Ok(found)
}
