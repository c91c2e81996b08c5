//! The first process of a command's own process namespace.
//!
//! It is made ahead of time and waits. Told what to run, it takes the layer, gives up every right, starts the program and collects whatever
//! is orphaned. When the program ends it ends, and with it, by the kernel, everything that is left.

#![cfg(target_os = "linux")]

use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{MoveMountFlags, OpenTreeFlags, UnmountFlags, move_mount, open_tree, unmount};
use serde::{Deserialize, Serialize};

use super::confine::{self, Order, Standard};
use super::groups::{Born, Narrow};
use super::layers::open_below;
use super::passing::{self, Receiving};
use super::protocol::{Decoder, Failure, Frame, read_frame, write_message};
use super::root::{PRIVATE, mount_proc};
use super::sys::{self, Forked, MountAttributes, Status};
use super::system_calls::Filter;

/// What the server tells an init.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Tell {
    /// Run this; once. The layer comes along, as the descriptor of a mount that is nowhere yet.
    Run(Box<Run>),
    /// Signal the program.
    Signal(i32),
    /// Stop everything.
    Pause,
    /// Let everything go on.
    Resume,
    /// End everything, and say what it used.
    End,
}

/// What to run, and on what.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Run {
    pub(super) order: Order,
    pub(super) read_only: Vec<String>,
}

/// What an init tells the server.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Said {
    /// The program runs.
    Started,
    /// It could not be started.
    NotStarted(Failure),
    /// Everything stands still.
    Paused,
    /// The program ended; everything else is about to.
    Ended {
        code: Option<i32>,
        signal: Option<i32>,
        user_us: u64,
        system_us: u64,
        max_memory: u64,
    },
}

/// What an init is made with.
#[derive(Debug)]
pub(super) struct Ends {
    pub(super) socket: UnixStream,
    pub(super) standard: Standard,
}

/// Is an init; never returns.
pub(super) fn main(ends: Ends, filter: &Filter, narrow: Option<&Narrow>) -> ! {
    let _ = run(ends, filter, narrow);
    sys::exit(0)
}

fn run(ends: Ends, filter: &Filter, narrow: Option<&Narrow>) -> std::io::Result<()> {
    let Ends { mut socket, standard } = ends;
    let mut keep = vec![
        socket.as_fd(),
        standard.input.as_fd(),
        standard.output.as_fd(),
        standard.error.as_fd(),
    ];
    keep.extend(narrow.iter().flat_map(|narrow| narrow.descriptors()));
    sys::close_all_but(&keep)?;
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    // What is mounted shows in `/proc`, covered or not, and some of this with its path on the host.
    unmount(PRIVATE, UnmountFlags::DETACH)?;
    let has_proc = mount_proc(Path::new("/proc")).is_ok();
    let _ = sys::leave_group_view();
    let children = sys::children_ended()?;
    let mut program = Program::make(&standard, filter, narrow)?;
    drop(standard);
    announce(&socket, has_proc)?;
    let mut decoder = Decoder::default();
    let mut receiving = Receiving::new(&socket);
    let Some(Frame::Message(Tell::Run(run))) = read_frame(&mut decoder, &mut receiving)? else {
        return Ok(());
    };
    let Some(layer) = receiving.descriptor else {
        return Ok(());
    };
    match begin(&layer, *run, &mut program) {
        Ok(()) => {
            write_message(&Said::Started, &mut socket)?;
            watch(program.pid, &mut socket, &mut decoder, &children, has_proc)
        }
        Err(failure) => write_message(&Said::NotStarted(failure), &mut socket),
    }
}

/// Says that it is ready, and gives the server a view of the processes to come.
fn announce(socket: &UnixStream, has_proc: bool) -> std::io::Result<()> {
    let processes = has_proc.then(|| directory("/proc")).transpose()?;
    passing::send(socket, b"r", processes.as_ref().map(AsFd::as_fd))
}

fn directory(path: &str) -> rustix::io::Result<OwnedFd> {
    rustix::fs::open(
        path,
        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )
}

/// Takes the layer, gives up all rights and lets the program begin.
fn begin(layer: &OwnedFd, run: Run, program: &mut Program) -> Result<(), Failure> {
    move_mount(layer, "", CWD, "/workspace", MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
        .map_err(|error| Failure::new("showing the layer", error))?;
    protect(&run.read_only)?;
    confine::drop_rights()?;
    program.begin(&run.order)
}

/// Makes paths read-only for the command. One that is not there cannot be; a write there is refused when the effect is committed.
fn protect(paths: &[String]) -> Result<(), Failure> {
    for path in paths {
        match protect_one(path) {
            Ok(()) | Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
            Err(error) => return Err(Failure::new("protecting a path", error)),
        }
    }
    Ok(())
}

fn protect_one(path: &str) -> rustix::io::Result<()> {
    let workspace = directory("/workspace")?;
    let attributes = MountAttributes {
        is_read_only: true,
        is_without_devices: true,
        ..MountAttributes::default()
    };
    let protect = |tree: &OwnedFd| {
        sys::set_mount(tree.as_fd(), attributes).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::INVAL))
    };
    // The mount of the whole layer is this command's own already.
    if path.is_empty() {
        return protect(&workspace);
    }
    let target = open_below(&workspace, path.as_bytes(), OFlags::PATH | OFlags::NOFOLLOW)?;
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_EMPTY_PATH;
    let tree = open_tree(&target, "", flags)?;
    protect(&tree)?;
    let empty = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    move_mount(&tree, "", &target, "", empty)
}

/// The process that becomes the program: it has given up everything already, and waits to be told what to be.
#[derive(Debug)]
struct Program {
    pid: i32,
    socket: UnixStream,
}

impl Program {
    fn make(standard: &Standard, filter: &Filter, narrow: Option<&Narrow>) -> std::io::Result<Self> {
        let (socket, mut other) = UnixStream::pair()?;
        let forked = match narrow {
            Some(narrow) => narrow.fork()?,
            None => (sys::fork_into(sys::Fresh::NOTHING)?, Born::Inside),
        };
        match forked {
            (Forked::Child, born) => {
                drop(socket);
                let joined = narrow
                    .map_or(Ok(()), |narrow| narrow.join(born))
                    .map_err(|error| Failure::new("joining the group", error));
                let failure = joined
                    .err()
                    .unwrap_or_else(|| confine::wait_and_execute(standard, filter, &mut other));
                let _ = write_message(&failure, &mut other);
                sys::exit(127)
            }
            (Forked::Parent(pid), _) => Ok(Self { pid, socket }),
        }
    }

    /// Tells it what to be, and waits until it is, or could not.
    fn begin(&mut self, order: &Order) -> Result<(), Failure> {
        // Where it is gone already it has said why.
        let _ = write_message(order, &mut self.socket);
        let mut decoder = Decoder::default();
        match read_frame(&mut decoder, &mut self.socket) {
            Ok(Some(Frame::Message(failure))) => Err(failure),
            _ => Ok(()),
        }
    }
}

/// Collects what ended and does what it is told, until the program ends.
fn watch(
    program: i32,
    socket: &mut UnixStream,
    decoder: &mut Decoder,
    children: &OwnedFd,
    has_proc: bool,
) -> std::io::Result<()> {
    loop {
        if let Some(status) = collect(program, children)? {
            return tell_end(status, socket);
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
        if decoder.fill(socket)? == 0 {
            return Ok(());
        }
        while let Some(Frame::Message(tell)) = decoder.next()? {
            if matches!(tell, Tell::End) {
                return tell_end(Status::Signalled(libc::SIGKILL), socket);
            }
            obey(&tell, program, socket, has_proc)?;
        }
    }
}

/// Collects every child that ended; how the program did, if it was among them.
fn collect(program: i32, children: &OwnedFd) -> std::io::Result<Option<Status>> {
    let mut drained = [0; 128];
    let _ = rustix::io::read(children, &mut drained);
    while let Ok(Some(waited)) = sys::wait_any(false) {
        if waited.pid == program {
            return Ok(Some(waited.status));
        }
    }
    Ok(None)
}

/// Ends whatever else is in this process namespace, and collects it: whoever is orphaned on the way becomes a child of this process.
fn end_the_rest() {
    while sys::kill(-1, libc::SIGKILL).is_ok() {
        while let Ok(Some(_)) = sys::wait_any(true) {}
    }
}

/// Ends everything that is left, and says so once nothing is: its own end takes the kernel longer, and nobody needs to wait for that.
fn tell_end(status: Status, socket: &mut UnixStream) -> std::io::Result<()> {
    end_the_rest();
    let used = sys::used_by_children();
    let (code, signal) = match status {
        Status::Exited(code) => (Some(code), None),
        Status::Signalled(signal) => (None, Some(signal)),
    };
    let ended = Said::Ended {
        code,
        signal,
        user_us: used.user_us,
        system_us: used.system_us,
        max_memory: used.max_memory,
    };
    write_message(&ended, socket)?;
    socket.flush()
}

fn obey(tell: &Tell, program: i32, socket: &mut UnixStream, has_proc: bool) -> std::io::Result<()> {
    match tell {
        Tell::Run(_) | Tell::End => Ok(()),
        Tell::Signal(number) => {
            let _ = sys::kill(program, *number);
            Ok(())
        }
        Tell::Resume => {
            let _ = sys::kill(-1, libc::SIGCONT);
            Ok(())
        }
        Tell::Pause => {
            // To all at once: one that forks just now does so after it went on.
            let _ = sys::kill(-1, libc::SIGSTOP);
            wait_until_still(has_proc);
            write_message(&Said::Paused, socket)
        }
    }
}

/// A process stops when it leaves the kernel, which it may still be writing in: waits, for five seconds at most.
fn wait_until_still(has_proc: bool) {
    for round in 0..1000_u32 {
        if has_proc && is_still().unwrap_or(false) {
            return;
        }
        if !has_proc && round > 20 {
            return;
        }
        std::thread::sleep(Duration::from_millis(if round < 10 { 1 } else { 5 }));
    }
}

/// Whether every thread of every process but this one is stopped or dead.
fn is_still() -> rustix::io::Result<bool> {
    for pid in numbers(&directory("/proc")?)?.into_iter().filter(|pid| *pid != 1) {
        let Ok(tasks) = directory(&format!("/proc/{pid}/task")) else {
            continue;
        };
        for task in numbers(&tasks)? {
            if !is_stopped(&format!("/proc/{pid}/task/{task}/stat")) {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

fn is_stopped(path: &str) -> bool {
    let Ok(file) = rustix::fs::openat(CWD, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()) else {
        return true;
    };
    let mut bytes = [0; 512];
    let length = rustix::io::read(&file, &mut bytes).unwrap_or(0);
    // The state stands after the name, which may hold anything, parentheses too.
    let state = bytes[..length]
        .iter()
        .rposition(|byte| *byte == b')')
        .and_then(|at| bytes.get(at + 2));
    matches!(state, None | Some(b'T' | b't' | b'Z' | b'X'))
}

/// The entries of a directory of `/proc` that are numbers.
pub(super) fn numbers(directory: &OwnedFd) -> rustix::io::Result<Vec<u32>> {
    let entries = rustix::fs::Dir::read_from(directory)?.flatten();
    Ok(entries
        .filter_map(|entry| entry.file_name().to_str().ok()?.parse().ok())
        .collect())
}
