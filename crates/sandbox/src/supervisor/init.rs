//! The first process of a command's own process namespace.
//!
//! It is made ahead of time and waits. When the order to run a program comes, it attaches the layer, gives up every
//! right, starts the program and collects orphaned processes. When the program ends, the init ends too, and the kernel
//! then ends all processes that are left.

#![cfg(target_os = "linux")]

use std::io::Write;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use garret_core::path::MOUNT_POINT;
use garret_core::{ExitCause, ResourceUsage};
use garret_handles::{open_across_mounts, open_child};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;
use rustix::mount::{MountFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, mount, move_mount, open_tree, unmount};
use rustix::thread::CapabilitySet;
use serde::{Deserialize, Serialize};

use super::command_terminal::{self, TerminalPair};
use super::confine::{self, ExecOrder, StandardStreams};
use super::control_groups::{CommandGroup, ForkPlace};
use super::descriptor_passing::{self, DescriptorReceiver};
use super::ipc_memory;
use super::protocol::{
    FailedStep, FrameDecoder, ProtocolFrame, StepFailure, encode_message, read_frame, write_message,
};
use super::sandbox_root::{PRIVATE, mount_proc};
use super::sys::{self, ChildStatus, ForkSide, MountExtent};
use super::system_call_filter::SystemCallFilter;
use super::thread_tracer::{StopOutcome, ThreadTracer};

/// A message of the server to an init.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum MessageToInit {
    /// Run this program; sent once. The layer is passed along, as the descriptor of a mount that is not attached yet.
    Run(Box<RunOrder>),
    /// Signal the program.
    Signal(i32),
    /// Stop every process within this time, on this request.
    Pause { request: u64, within: Duration },
    /// Let every process continue.
    Resume,
    /// End every process, and report the resources used.
    End,
}

/// The program to run, and how its layer is mounted.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct RunOrder {
    pub(super) order: ExecOrder,
    pub(super) read_only: Vec<String>,
    /// More paths at which the layer is mounted.
    pub(super) host_paths: Vec<String>,
    /// The home in memory that hides the kept one from this command.
    pub(super) empty_home: Option<EmptyHome>,
    /// Whether the init may later be told to stop every process.
    pub(super) may_pause: bool,
}

/// A home in memory that ends with its command.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct EmptyHome {
    pub(super) path: String,
    pub(super) bytes: u64,
}

/// A message of an init to the server.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum MessageFromInit {
    /// The program runs. The terminal that it runs on, if it has one, is passed along, as the descriptor of the side of
    /// the one who types.
    Started,
    /// The program could not be started.
    NotStarted(StepFailure),
    /// Every process is stopped, on this request.
    Paused(u64),
    /// The program ended, and every other process of the command with it.
    Ended { ended: ExitCause, usage: ResourceUsage },
}

/// The descriptors and settings that an init is made with.
#[derive(Debug)]
pub(super) struct InitDescriptors {
    pub(super) socket: UnixStream,
    pub(super) standard: StandardStreams,
    /// Whether the server counts the memory held by System V IPC.
    pub(super) counts_ipc: bool,
}

/// Runs an init; never returns.
pub(super) fn main(
    ends: InitDescriptors,
    filter: &SystemCallFilter,
    writable: &[String],
    narrow: Option<&CommandGroup>,
) -> ! {
    let _ = run_init(ends, filter, writable, narrow);
    sys::exit_process(0)
}

fn run_init(
    ends: InitDescriptors,
    filter: &SystemCallFilter,
    writable: &[String],
    narrow: Option<&CommandGroup>,
) -> std::io::Result<()> {
    let InitDescriptors {
        mut socket,
        standard,
        counts_ipc,
    } = ends;
    let mut keep = vec![
        socket.as_fd(),
        standard.input.as_fd(),
        standard.output.as_fd(),
        standard.error.as_fd(),
    ];
    keep.extend(narrow.iter().flat_map(|narrow| narrow.descriptors()));
    sys::close_all_but(&keep)?;
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    // `/proc` lists every mount, covered ones too, and some of these with their paths on the host.
    unmount(PRIVATE, UnmountFlags::DETACH)?;
    let has_proc = mount_proc(Path::new("/proc")).is_ok();
    // Without terminals, only a command that needs one fails.
    let _ = command_terminal::mount_terminals();
    let children = sys::watch_children()?;
    let mut program = WaitingProgram::fork_waiting(&standard, filter, writable, narrow)?;
    // The init must not hold these ends open: the server reads the end of the output from them.
    drop(standard);
    announce_ready(&socket, has_proc, counts_ipc)?;
    let mut decoder = FrameDecoder::default();
    let mut receiving = DescriptorReceiver::new(&socket);
    let Some(ProtocolFrame::Message(MessageToInit::Run(run))) = read_frame(&mut decoder, &mut receiving)? else {
        return Ok(());
    };
    let Some(layer) = receiving.descriptors.pop() else {
        return Ok(());
    };
    match begin_program(&layer, *run, &mut program) {
        Ok(terminal) => {
            announce_start(&socket, terminal)?;
            watch_program(program.pid, &mut socket, &mut decoder, &children)
        }
        Err(failure) => write_message(&MessageFromInit::NotStarted(failure), &mut socket),
    }
}

/// Tells the server that the init is ready, and passes it the `/proc` that will show the processes of the command.
fn announce_ready(socket: &UnixStream, has_proc: bool, counts_ipc: bool) -> std::io::Result<()> {
    let mut views = Vec::new();
    if has_proc {
        views.push(open_child(CWD, "/proc")?);
    }
    if has_proc && counts_ipc {
        views.extend(ipc_memory::open_lists()?);
    }
    let views: Vec<_> = views.iter().map(AsFd::as_fd).collect();
    descriptor_passing::send_with_descriptors(socket, b"r", &views)
}

/// Tells the server that the program runs, and passes it the terminal.
fn announce_start(socket: &UnixStream, terminal: Option<OwnedFd>) -> std::io::Result<()> {
    let mut message = Vec::new();
    encode_message(&MessageFromInit::Started, &mut message);
    let passed: Vec<_> = terminal.iter().map(AsFd::as_fd).collect();
    descriptor_passing::send_with_descriptors(socket, &message, &passed)
}

/// Attaches the layer, gives up all rights and lets the program begin. Returns the side of its terminal, if it has one,
/// on which input is typed.
fn begin_program(layer: &OwnedFd, run: RunOrder, program: &mut WaitingProgram) -> Result<Option<OwnedFd>, StepFailure> {
    move_mount(layer, "", CWD, MOUNT_POINT, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH).in_step("showing the layer")?;
    protect_paths(&run.read_only)?;
    for path in &run.host_paths {
        // After the protection of paths, which the clone carries along.
        show_layer_at(path).in_step("showing the layer at its own path")?;
    }
    if let Some(home) = &run.empty_home {
        hide_home(home).in_step("making an empty home")?;
    }
    let kept = if run.may_pause {
        // A process that is not dumpable can be traced only with this capability.
        CapabilitySet::SYS_PTRACE
    } else {
        CapabilitySet::empty()
    };
    confine::drop_rights_but(kept)?;
    let terminal = run.order.spawn.terminal.map(|wanted| TerminalPair::open(wanted.size));
    let terminal = terminal.transpose().in_step("making a terminal")?;
    program.send_order(&run.order, terminal.as_ref().map(|pair| pair.program_side.as_fd()))?;
    Ok(terminal.map(|pair| pair.typing_side))
}

/// Mounts the layer, with the mounts on it, at another path.
fn show_layer_at(path: &str) -> rustix::io::Result<()> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
    let tree = open_tree(CWD, MOUNT_POINT, flags)?;
    let place = open_place(path)?;
    let empty = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    move_mount(&tree, "", &place, "", empty)
}

fn hide_home(home: &EmptyHome) -> rustix::io::Result<()> {
    let place = open_place(&home.path)?;
    let options = format!(
        "mode=0755,size={},nr_inodes={}",
        home.bytes,
        (home.bytes / 8192).max(1024)
    );
    let options = std::ffi::CString::new(options).map_err(|_| Errno::INVAL)?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    // By its descriptor: the path could lead elsewhere by now.
    mount(
        "garret",
        format!("/proc/self/fd/{}", place.as_raw_fd()),
        "tmpfs",
        flags,
        options.as_c_str(),
    )
}

/// Opens a place for a mount. A link on the way is refused.
fn open_place(path: &str) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    openat2(
        CWD,
        path,
        flags,
        Mode::empty(),
        ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS,
    )
}

/// Makes paths read-only for the command.
fn protect_paths(paths: &[String]) -> Result<(), StepFailure> {
    for path in paths {
        match protect_path(path) {
            // A path that does not exist cannot be protected here; a write there is refused when the effects are
            // committed.
            Ok(()) | Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
            Err(error) => return Err(StepFailure::new("protecting a path", error)),
        }
    }
    Ok(())
}

fn protect_path(path: &str) -> rustix::io::Result<()> {
    let workspace = open_child(CWD, MOUNT_POINT)?;
    let protect = |tree: &OwnedFd| {
        sys::protect_mount(tree.as_fd(), MountExtent::Alone)
            .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::INVAL))
    };
    // The mount of the whole layer is private to this command already: its own attributes can be set.
    if path.is_empty() {
        return protect(&workspace);
    }
    let target = open_across_mounts(&workspace, path.as_bytes(), OFlags::PATH | OFlags::NOFOLLOW)?;
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_EMPTY_PATH;
    let tree = open_tree(&target, "", flags)?;
    protect(&tree)?;
    let empty = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    move_mount(&tree, "", &target, "", empty)
}

/// The process that becomes the program: it has given up every right already, and waits for the order that names the
/// program.
#[derive(Debug)]
struct WaitingProgram {
    pid: i32,
    socket: UnixStream,
}

impl WaitingProgram {
    fn fork_waiting(
        standard: &StandardStreams,
        filter: &SystemCallFilter,
        writable: &[String],
        narrow: Option<&CommandGroup>,
    ) -> std::io::Result<Self> {
        let (socket, mut other) = UnixStream::pair()?;
        let forked = match narrow {
            Some(narrow) => narrow.fork_into_groups()?,
            None => (sys::fork_into(sys::NewNamespaces::NOTHING)?, ForkPlace::Inside),
        };
        match forked {
            (ForkSide::Child, born) => {
                drop(socket);
                let joined = narrow
                    .map_or(Ok(()), |narrow| narrow.join_groups(born))
                    .in_step("joining the group");
                let failure = joined
                    .err()
                    .unwrap_or_else(|| confine::wait_and_execute(standard, filter, writable, &other));
                let _ = write_message(&failure, &mut other);
                sys::exit_process(127)
            }
            (ForkSide::Parent(pid), _) => Ok(Self { pid, socket }),
        }
    }

    /// Sends the order, and waits until the program is executed or has failed to be.
    fn send_order(&mut self, order: &ExecOrder, terminal: Option<BorrowedFd<'_>>) -> Result<(), StepFailure> {
        let mut message = Vec::new();
        encode_message(order, &mut message);
        // If the process has ended already, its reason is there to be read below.
        let _ = descriptor_passing::send_with_descriptors(&self.socket, &message, terminal.as_slice());
        let mut decoder = FrameDecoder::default();
        // A successful `execve` closes the other end of the socket, so the end of the stream means success.
        match read_frame(&mut decoder, &mut self.socket) {
            Ok(Some(ProtocolFrame::Message(failure))) => Err(failure),
            _ => Ok(()),
        }
    }
}

/// Collects ended processes and carries out the messages of the server, until the program ends.
fn watch_program(
    program: i32,
    socket: &mut UnixStream,
    decoder: &mut FrameDecoder,
    children: &OwnedFd,
) -> std::io::Result<()> {
    let mut tracer = ThreadTracer::default();
    loop {
        // Signals that came together are one entry here; so after each wake, every child that has ended is collected.
        let mut drained = [0; 128];
        let _ = rustix::io::read(children, &mut drained);
        if let Some(status) = tracer.collect_children(program) {
            return report_end(status, socket);
        }
        let mut watched = [
            PollFd::new(&*socket, PollFlags::IN),
            PollFd::new(children, PollFlags::IN),
        ];
        match poll(&mut watched, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        if watched[0].revents().is_empty() {
            continue;
        }
        if decoder.read_more(socket)? == 0 {
            return Ok(());
        }
        while let Some(ProtocolFrame::Message(tell)) = decoder.next_frame()? {
            if let Some(status) = handle_message(&tell, program, &mut tracer, socket)? {
                return report_end(status, socket);
            }
        }
    }
}

/// Ends and collects every other process of this process namespace.
fn end_the_rest() {
    while sys::send_signal(-1, libc::SIGKILL).is_ok() {
        // A process whose parent was killed becomes a child of this one, so that all of them can be collected here.
        while let Ok(Some(_)) = sys::wait_any(true) {}
    }
}

/// Ends all other processes, and then reports the end of the command.
fn report_end(status: ChildStatus, socket: &mut UnixStream) -> std::io::Result<()> {
    end_the_rest();
    // Reported before the init itself ends: the kernel takes longer for that, and nobody needs to wait for it.
    let ended = MessageFromInit::Ended {
        ended: match status {
            ChildStatus::Exited(code) => ExitCause::Exited(code),
            ChildStatus::Signalled(signal) | ChildStatus::Stopped(signal) => ExitCause::Signalled(signal),
        },
        usage: sys::used_by_children(),
    };
    write_message(&ended, socket)?;
    socket.flush()
}

/// Carries out one message of the server; returns how the program ended, if it did.
fn handle_message(
    tell: &MessageToInit,
    program: i32,
    tracer: &mut ThreadTracer,
    socket: &mut UnixStream,
) -> std::io::Result<Option<ChildStatus>> {
    match tell {
        MessageToInit::Run(_) => {}
        MessageToInit::End => return Ok(Some(ChildStatus::Signalled(libc::SIGKILL))),
        MessageToInit::Signal(number) => {
            let _ = sys::send_signal(program, *number);
        }
        MessageToInit::Resume => tracer.release_all(),
        MessageToInit::Pause { request, within } => match tracer.stop_all(program, *within) {
            StopOutcome::AllStopped => write_message(&MessageFromInit::Paused(*request), socket)?,
            StopOutcome::Ended(status) => return Ok(Some(status)),
            // No answer: the server ends a command that is not stopped in time.
            StopOutcome::Failed => {}
        },
    }
    Ok(None)
}
