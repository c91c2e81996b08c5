//! The outermost process: makes the namespaces with the rights of the user that opened the sandbox, and cleans up after
//! its end.

#![cfg(target_os = "linux")]

use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;

use garret_core::Network;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{OpenTreeFlags, open_tree};
use rustix::process::{DumpableBehavior, Pid, PidfdFlags};

use super::control_groups::ControlGroups;
use super::host_parts::{HostParts, open_host_parts};
use super::protocol::{
    FailedStep, FrameDecoder, ProtocolFrame, StepFailure, SupervisorAnswer, SupervisorRequest, read_frame,
    write_message,
};
use super::serve::ServerChannels;
use super::sys::{ForkSide, NewNamespaces};
use super::{confine, serve, sys};
use crate::namespace::plan::{CommandUser, INSIDE, SandboxPlan};

/// The directories that can be opened only with the keeper's rights.
#[derive(Debug)]
pub(super) struct KeeperDirectories {
    pub(super) bench: OwnedFd,
    pub(super) layers: OwnedFd,
    pub(super) host_parts: HostParts,
}

type Result<T> = std::result::Result<T, StepFailure>;

pub(super) fn main() -> ExitCode {
    let Ok((mut channel, sockets)) = take_channels() else {
        return ExitCode::FAILURE;
    };
    let mut decoder = FrameDecoder::default();
    let Ok(Some(ProtocolFrame::Message(SupervisorRequest::Open(plan)))) = read_frame(&mut decoder, &mut channel) else {
        return ExitCode::FAILURE;
    };
    match keep_sandbox(&plan, &channel, sockets, decoder) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            let _ = write_message(&SupervisorAnswer::Opened(Err(failure)), &mut channel);
            ExitCode::FAILURE
        }
    }
}

/// Takes the channel for frames, which arrives as the standard input, and the one for sockets, which arrives as the
/// standard output, off these descriptors, so that no executed program can inherit them.
fn take_channels() -> std::io::Result<(UnixStream, UnixStream)> {
    let channel = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
    let sockets = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3)?;
    let nothing = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    for standard in 0..3 {
        sys::duplicate_to(&nothing, standard)?;
    }
    sys::close_all_but(&[channel.as_fd(), sockets.as_fd(), nothing.as_fd()])?;
    Ok((UnixStream::from(channel), UnixStream::from(sockets)))
}

fn keep_sandbox(plan: &SandboxPlan, channel: &UnixStream, sockets: UnixStream, decoder: FrameDecoder) -> Result<()> {
    let _lock = lock_sandbox(&plan.lock)?;
    // Done here, because as root this process may still raise the limit.
    confine::forbid_cores();
    let mut groups = ControlGroups::make_planned(plan);
    let grabbed = if plan.user.is_dedicated {
        Some(open_directories(plan)?)
    } else {
        None
    };
    let (link, other_end) = UnixStream::pair().in_step("making a pair of sockets")?;
    let forked = groups.fork_into_groups(namespaces_to_make(plan.network));
    match forked.in_step("making namespaces")? {
        (ForkSide::Child, born) => {
            drop(link);
            groups.enter_groups(born);
            let channels = ServerChannels {
                frames: channel,
                sockets,
                decoder,
                link: other_end,
            };
            serve::main(plan, channels, grabbed, groups)
        }
        (ForkSide::Parent(inner), _) => {
            drop((other_end, grabbed, sockets));
            let introduced = map_user(inner, &plan.user, &link);
            if introduced.is_err() {
                // The process inside waits for its user map and would wait for ever.
                let _ = sys::send_signal(inner, libc::SIGKILL);
            }
            groups.remove_leftovers();
            wait_for_end(inner, channel, &link, &groups);
            groups.remove_groups();
            introduced
        }
    }
}

/// Takes the lock that shows that the sandbox lives; the keeper holds it until every process of the sandbox has ended.
fn lock_sandbox(path: &Path) -> Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let locked = rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)
        .and_then(|file| rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared).map(|()| file));
    locked.in_step("locking the sandbox")
}

/// Returns the namespaces of the sandbox. Each command makes a cgroup namespace of its own, after it has joined its group.
fn namespaces_to_make(network: Network) -> NewNamespaces {
    let always = [
        NewNamespaces::USER,
        NewNamespaces::MOUNT,
        NewNamespaces::PID,
        NewNamespaces::IPC,
        NewNamespaces::UTS,
    ];
    let all = always
        .into_iter()
        .fold(NewNamespaces::NOTHING, NewNamespaces::union_with);
    match network {
        Network::None | Network::Named => all.union_with(NewNamespaces::NETWORK),
        Network::Full => all,
    }
}

/// Opens the directories that the user of the commands could not reach, and maps the owner of the bench to that user.
fn open_directories(plan: &SandboxPlan) -> Result<KeeperDirectories> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let bench = open_tree(CWD, &plan.bench, flags).in_step("opening the directory of the files")?;
    let layers = open_tree(CWD, &plan.layers, flags).in_step("opening the layers")?;
    if let Some(owner) = plan.user.bench_owner {
        let owners = make_owner_map(owner, &plan.user)?;
        sys::map_owners(bench.as_fd(), owners.as_fd()).in_step("mapping the owner of the files")?;
    }
    let host_parts = open_host_parts(plan)?;
    rustix::thread::set_thread_groups(&[]).in_step("dropping groups")?;
    Ok(KeeperDirectories {
        bench,
        layers,
        host_parts,
    })
}

/// Makes a user namespace that maps an owner of files to the user of the commands; it lives as long as the descriptor.
pub(super) fn make_owner_map((uid, gid): (u32, u32), user: &CommandUser) -> Result<OwnedFd> {
    // A new user namespace needs a process in it; the child keeps it alive until it is open as a descriptor.
    match sys::fork_into(NewNamespaces::USER).in_step("mapping the owner of the files")? {
        ForkSide::Child => loop {
            rustix::event::pause();
        },
        ForkSide::Parent(child) => {
            let made = write_maps(child, (uid, user.uid), (gid, user.gid)).and_then(|()| {
                let path = format!("/proc/{child}/ns/user");
                Ok(rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?)
            });
            let _ = sys::send_signal(child, libc::SIGKILL);
            let _ = sys::wait_for(child, true);
            made.in_step("mapping the owner of the files")
        }
    }
}

fn write_maps(pid: i32, uid: (u32, u32), gid: (u32, u32)) -> std::io::Result<()> {
    // The kernel takes a group map from an unprivileged process only after `setgroups` is denied.
    write_proc(pid, "setgroups", "deny")?;
    write_proc(pid, "gid_map", &format!("{} {} 1", gid.0, gid.1))?;
    write_proc(pid, "uid_map", &format!("{} {} 1", uid.0, uid.1))
}

fn write_proc(pid: i32, name: &str, text: &str) -> std::io::Result<()> {
    let file = rustix::fs::open(
        format!("/proc/{pid}/{name}"),
        OFlags::WRONLY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    rustix::io::write(&file, text.as_bytes())?;
    Ok(())
}

/// Writes the user map of the process inside, and tells that process to continue.
fn map_user(inner: i32, user: &CommandUser, mut link: &UnixStream) -> Result<()> {
    write_maps(inner, (INSIDE, user.uid), (INSIDE, user.gid)).in_step("mapping the user of the commands")?;
    // Only now: the files in `/proc` of a process that is not dumpable belong to root, and the map could not be
    // written.
    let _ = rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable);
    link.write_all(b"m").in_step("starting")
}

/// Waits for the end of the process inside, and kills it one second after Garret has closed the channel.
fn wait_for_end(inner: i32, channel: &UnixStream, link: &UnixStream, groups: &ControlGroups) {
    let pidfd = Pid::from_raw(inner).and_then(|pid| rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok());
    if let Some(pidfd) = pidfd {
        let mut watched = [
            PollFd::new(&pidfd, PollFlags::IN),
            PollFd::new(link, PollFlags::empty()),
            PollFd::new(channel, PollFlags::empty()),
        ];
        while poll(&mut watched, None) == Err(Errno::INTR) {}
        let second = Timespec { tv_sec: 1, tv_nsec: 0 };
        while poll(&mut watched[..2], Some(&second)) == Err(Errno::INTR) {}
        let _ = sys::send_signal(inner, libc::SIGKILL);
        while poll(&mut watched[..2], None) == Err(Errno::INTR) {}
        // The process inside closes `link` before the kernel ends the rest of its namespace. That waits for all of
        // them, and a frozen process of version 1 ends only after it is thawed.
        groups.thaw_all();
    }
    let _ = sys::wait_for(inner, true);
}
