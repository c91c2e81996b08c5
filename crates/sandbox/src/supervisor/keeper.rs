//! The outermost process: makes the namespaces with the rights of whoever opened the sandbox, and cleans up when all is over.

#![cfg(target_os = "linux")]

use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{OpenTreeFlags, open_tree};
use rustix::process::{DumpableBehavior, Pid, PidfdFlags};

use super::groups::Groups;
use super::protocol::{Answer, Ask, Decoder, Failure, Frame, read_frame, write_message};
use super::sys::{Forked, Fresh, MountAttributes};
use super::{confine, serve, sys};
use crate::namespace::plan::{INSIDE, SandboxPlan, Space, User};

/// Directories that only the keeper's rights reach.
#[derive(Debug)]
pub(super) struct Grabbed {
    pub(super) bench: OwnedFd,
    pub(super) layers: OwnedFd,
}

type Result<T> = std::result::Result<T, Failure>;

pub(super) fn main() -> ExitCode {
    let Ok(mut channel) = take_channel() else {
        return ExitCode::FAILURE;
    };
    let mut decoder = Decoder::default();
    let Ok(Some(Frame::Message(Ask::Open(plan)))) = read_frame(&mut decoder, &mut channel) else {
        return ExitCode::FAILURE;
    };
    match keep(&plan, &channel, decoder) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            let _ = write_message(&Answer::Failed { request: 0, failure }, &mut channel);
            ExitCode::FAILURE
        }
    }
}

/// The channel arrives as the standard input; from here on no program that is executed can inherit it.
fn take_channel() -> std::io::Result<UnixStream> {
    let channel = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
    let nothing = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    for standard in 0..3 {
        sys::place_at(&nothing, standard)?;
    }
    sys::close_all_but(&[channel.as_fd(), nothing.as_fd()])?;
    Ok(UnixStream::from(channel))
}

fn keep(plan: &SandboxPlan, channel: &UnixStream, decoder: Decoder) -> Result<()> {
    let _lock = lock(&plan.lock)?;
    // Here, where root may still raise a limit.
    confine::forbid_cores();
    let mut groups = Groups::make(plan);
    let grabbed = if plan.user.is_dedicated {
        Some(grab(plan)?)
    } else {
        None
    };
    let (link, other_end) = UnixStream::pair().map_err(|error| Failure::new("making a pair of sockets", error))?;
    let forked = groups.fork(fresh(&plan.namespaces));
    match forked.map_err(|error| Failure::new("making namespaces", error))? {
        (Forked::Child, born) => {
            drop(link);
            let group_failure = groups.enter(born).err();
            let limits = serve::Grouped { groups, group_failure };
            serve::main(plan, channel, decoder, other_end, grabbed, limits)
        }
        (Forked::Parent(inner), _) => {
            drop((other_end, grabbed));
            let introduced = introduce(inner, &plan.user, &link);
            if introduced.is_err() {
                let _ = sys::kill(inner, libc::SIGKILL);
            }
            groups.tidy();
            wait_for_end(inner, channel, &link, &groups);
            groups.remove();
            introduced
        }
    }
}

/// Says that the sandbox lives, until this process has seen the last of it.
fn lock(path: &Path) -> Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let locked = rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)
        .and_then(|file| rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared).map(|()| file));
    locked.map_err(|error| Failure::new("locking the sandbox", error))
}

fn fresh(spaces: &[Space]) -> Fresh {
    spaces.iter().fold(Fresh::NOTHING, |all, space| {
        all.and(match space {
            Space::User => Fresh::USER,
            Space::Mount => Fresh::MOUNT,
            Space::Pid => Fresh::PID,
            Space::Network => Fresh::NETWORK,
            Space::Ipc => Fresh::IPC,
            Space::Uts => Fresh::UTS,
            // Each command takes one of its own, once it is in its group.
            Space::Cgroup => Fresh::NOTHING,
        })
    })
}

/// Opens what the user of the commands could not reach, and shows the bench as that user's own.
fn grab(plan: &SandboxPlan) -> Result<Grabbed> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let bench = open_tree(CWD, &plan.bench, flags)
        .map_err(|error| Failure::new("opening the directory of the files", error))?;
    let layers = open_tree(CWD, &plan.layers, flags).map_err(|error| Failure::new("opening the layers", error))?;
    if let Some(owner) = plan.user.bench_owner {
        let owners = owners(owner, &plan.user)?;
        let attributes = MountAttributes {
            owners: Some(owners.as_fd()),
            ..MountAttributes::default()
        };
        sys::set_mount(bench.as_fd(), attributes)
            .map_err(|error| Failure::new("mapping the owner of the files", error))?;
    }
    rustix::thread::set_thread_groups(&[]).map_err(|error| Failure::new("dropping groups", error))?;
    Ok(Grabbed { bench, layers })
}

/// A user namespace that maps the owner of the bench to the user of the commands; it lives as long as the descriptor.
fn owners((uid, gid): (u32, u32), user: &User) -> Result<OwnedFd> {
    let failed = |error: std::io::Error| Failure::new("mapping the owner of the files", error);
    match sys::fork_into(Fresh::USER).map_err(failed)? {
        Forked::Child => loop {
            rustix::event::pause();
        },
        Forked::Parent(child) => {
            let made = write_maps(child, (uid, user.uid), (gid, user.gid)).and_then(|()| {
                let path = format!("/proc/{child}/ns/user");
                Ok(rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?)
            });
            let _ = sys::kill(child, libc::SIGKILL);
            let _ = sys::wait_for(child, true);
            made.map_err(failed)
        }
    }
}

fn write_maps(pid: i32, uid: (u32, u32), gid: (u32, u32)) -> std::io::Result<()> {
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

/// Tells the kernel who the process inside is; then it may go on.
fn introduce(inner: i32, user: &User, mut link: &UnixStream) -> Result<()> {
    write_maps(inner, (INSIDE, user.uid), (INSIDE, user.gid))
        .map_err(|error| Failure::new("mapping the user of the commands", error))?;
    // Only now: the files of a process that nobody may look into belong to root.
    let _ = rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable);
    link.write_all(b"m").map_err(|error| Failure::new("starting", error))
}

/// Waits for the end of the process inside; it has a second for that once Garret has gone. It closes its end of `link` before the kernel ends
/// the others of its namespace, which waits for all of them, those that are frozen too.
fn wait_for_end(inner: i32, channel: &UnixStream, link: &UnixStream, groups: &Groups) {
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
        let _ = sys::kill(inner, libc::SIGKILL);
        while poll(&mut watched[..2], None) == Err(Errno::INTR) {}
        groups.thaw_all();
    }
    let _ = sys::wait_for(inner, true);
}
