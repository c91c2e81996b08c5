//! The calls to the kernel that no dependency of Garret offers in safe form; with `host/minder.rs`, all unsafe code of
//! Garret.
//!
//! The supervisor and every process it forks has a single thread, so that a child never inherits memory in an
//! intermediate state.

#![cfg(target_os = "linux")]
#![allow(unsafe_code, reason = "the smallest module that calls the kernel directly")]

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use garret_core::ResourceUsage;

/// Makes the allocator merge freed memory with its free neighbours at once. Otherwise it merges much at a time, later:
/// in pages that a process shares with its parent until one of them writes, so that each such page is copied.
pub(crate) fn join_free_memory_at_once() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it sets a number of the allocator, and there is a single thread.
    unsafe {
        libc::mallopt(libc::M_MXFAST, 0);
    }
}

/// The new namespaces for a process, as flags of `clone`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NewNamespaces(pub(crate) i32);

impl NewNamespaces {
    pub(crate) const NOTHING: Self = Self(0);
    pub(crate) const USER: Self = Self(libc::CLONE_NEWUSER);
    pub(crate) const MOUNT: Self = Self(libc::CLONE_NEWNS);
    pub(crate) const PID: Self = Self(libc::CLONE_NEWPID);
    pub(crate) const NETWORK: Self = Self(libc::CLONE_NEWNET);
    pub(crate) const IPC: Self = Self(libc::CLONE_NEWIPC);
    pub(crate) const UTS: Self = Self(libc::CLONE_NEWUTS);

    pub(crate) const fn union_with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// The side of a fork that runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ForkSide {
    Child,
    Parent(i32),
}

/// Forks into new namespaces. The child must end with [`exit_process`] and never return to its caller's caller.
pub(crate) fn fork_into(fresh: NewNamespaces) -> io::Result<ForkSide> {
    let flags = i64::from(fresh.0 | libc::SIGCHLD);
    // SAFETY: without CLONE_VM and without a stack of its own the call is a fork: the child runs on a copy of this
    // memory. There is a single thread, so no lock is held by a thread that the child lacks.
    let answer = unsafe { libc::syscall(libc::SYS_clone, flags, 0_i64, 0_i64, 0_i64, 0_i64) };
    fork_side(answer)
}

/// Forks into new namespaces and into a control group of version 2. The child must end with [`exit_process`] and never return
/// to its caller's caller.
pub(crate) fn fork_into_group(fresh: NewNamespaces, group: BorrowedFd<'_>) -> io::Result<ForkSide> {
    /// The arguments of `clone3`, as of version 5.7 of the kernel.
    #[repr(C)]
    #[derive(Default)]
    struct Request {
        flags: u64,
        pidfd: u64,
        child_tid: u64,
        parent_tid: u64,
        exit_signal: u64,
        stack: u64,
        stack_size: u64,
        tls: u64,
        set_tid: u64,
        set_tid_size: u64,
        cgroup: u64,
    }
    const INTO_GROUP: u64 = 0x2_0000_0000;
    let request = Request {
        flags: u64::from(fresh.0.unsigned_abs()) | INTO_GROUP,
        exit_signal: libc::SIGCHLD as u64,
        cgroup: group.as_raw_fd() as u64,
        ..Request::default()
    };
    // SAFETY: as in `fork_into`; the request lives through the call, which is told its size.
    let answer = unsafe { libc::syscall(libc::SYS_clone3, &raw const request, size_of::<Request>()) };
    fork_side(answer)
}

fn fork_side(answer: i64) -> io::Result<ForkSide> {
    match answer {
        0 => Ok(ForkSide::Child),
        pid if pid > 0 => Ok(ForkSide::Parent(i32::try_from(pid).expect("a pid is an int"))),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Makes the control group of this process the root of all groups that it sees.
pub(crate) fn enter_group_namespace() -> io::Result<()> {
    // SAFETY: the flag leaves memory and descriptors shared as they are.
    check_result(unsafe { libc::unshare(libc::CLONE_NEWCGROUP) })
}

/// Ends this process at once, without running the exit handlers that its parent registered.
pub(crate) fn exit_process(code: i32) -> ! {
    // SAFETY: the call does not return and touches no memory.
    unsafe { libc::_exit(code) }
}

/// A process that was waited for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WaitedChild {
    pub(crate) pid: i32,
    pub(crate) status: ChildStatus,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChildStatus {
    Exited(i32),
    Signalled(i32),
    /// It is traced by this process and stopped; the number is the signal that it was about to take, 0 for none.
    Stopped(i32),
}

/// Collects one child that ended, if there is one; with `block`, waits for one.
pub(crate) fn wait_any(block: bool) -> io::Result<Option<WaitedChild>> {
    wait_for(-1, block)
}

/// Collects this child if it ended; with `block`, waits for its end.
pub(crate) fn wait_for(pid: i32, block: bool) -> io::Result<Option<WaitedChild>> {
    let mut status = 0;
    let flags = libc::__WALL | if block { 0 } else { libc::WNOHANG };
    loop {
        // SAFETY: `status` is a live int that the kernel writes.
        match unsafe { libc::waitpid(pid, &raw mut status, flags) } {
            0 => return Ok(None),
            -1 => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
            pid => {
                let status = status_of(status);
                return Ok(Some(WaitedChild { pid, status }));
            }
        }
    }
}

fn status_of(status: i32) -> ChildStatus {
    if libc::WIFSIGNALED(status) {
        return ChildStatus::Signalled(libc::WTERMSIG(status));
    }
    if libc::WIFSTOPPED(status) {
        // The bits above the signal hold the trace event that stopped the thread; they are 0 if a signal did.
        let is_by_signal = status >> 16 == 0;
        return ChildStatus::Stopped(if is_by_signal { libc::WSTOPSIG(status) } else { 0 });
    }
    ChildStatus::Exited(libc::WEXITSTATUS(status))
}

/// Begins to trace a thread, which continues to run; every thread and process that it starts from now on is traced too,
/// and stopped. All of them are killed when the tracer ends.
pub(crate) fn seize_thread(thread: i32) -> io::Result<()> {
    let options =
        libc::PTRACE_O_TRACECLONE | libc::PTRACE_O_TRACEFORK | libc::PTRACE_O_TRACEVFORK | libc::PTRACE_O_EXITKILL;
    ptrace_request(i64::from(libc::PTRACE_SEIZE), thread, i64::from(options))
}

/// Stops a traced thread as soon as it is about to return from the kernel.
pub(crate) fn interrupt_thread(thread: i32) -> io::Result<()> {
    ptrace_request(i64::from(libc::PTRACE_INTERRUPT), thread, 0)
}

/// Detaches from a traced thread that is stopped, and delivers the signal that it was about to take; 0 for none.
pub(crate) fn detach_thread(thread: i32, signal: i32) -> io::Result<()> {
    ptrace_request(i64::from(libc::PTRACE_DETACH), thread, i64::from(signal))
}

fn ptrace_request(request: i64, thread: i32, data: i64) -> io::Result<()> {
    // SAFETY: none of the three requests reads or writes memory of this process.
    let answer = unsafe { libc::syscall(libc::SYS_ptrace, request, i64::from(thread), 0_i64, data) };
    check_result(i32::try_from(answer).unwrap_or(-1))
}

/// Returns the resources used by all children that were waited for, including the children they waited for.
pub(crate) fn used_by_children() -> ResourceUsage {
    // SAFETY: a zeroed rusage is a valid one, and the kernel writes into a live one.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage);
        usage
    };
    resource_usage(&usage)
}

#[allow(clippy::unnecessary_cast, reason = "the fields have other types on other machines")]
pub(crate) fn resource_usage(usage: &libc::rusage) -> ResourceUsage {
    let milliseconds = |time: libc::timeval| time.tv_sec as u64 * 1_000 + time.tv_usec as u64 / 1_000;
    ResourceUsage {
        user_ms: milliseconds(usage.ru_utime),
        system_ms: milliseconds(usage.ru_stime),
        max_memory: usage.ru_maxrss as u64 * 1024,
    }
}

/// Sends a signal; `-1` is every process that this one can see but itself.
pub(crate) fn send_signal(pid: i32, signal: i32) -> io::Result<()> {
    // SAFETY: the call takes plain numbers.
    check_result(unsafe { libc::kill(pid, signal) })
}

/// Returns a descriptor that is readable whenever a child has ended, and blocks all signals. Allocates nothing, so that it
/// can be called after a fork.
pub(crate) fn watch_children() -> io::Result<OwnedFd> {
    // SAFETY: the set is initialised by sigfillset and sigemptyset before it is read; the descriptor is new and owned by
    // nobody else.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut set);
        check_result(libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()))?;
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGCHLD);
        own_descriptor(libc::signalfd(
            -1,
            &raw const set,
            libc::SFD_CLOEXEC | libc::SFD_NONBLOCK,
        ))
    }
}

/// Resets the signals to the state that a program expects: none blocked, none ignored. A shell that starts Garret in
/// the background ignores SIGINT and SIGQUIT for it, and a program inherits ignored signals. Allocates nothing, so that
/// it can be called after a fork.
pub(crate) fn reset_signals() {
    // SAFETY: the set is initialised by sigemptyset; the default action is no function of this program.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const set, std::ptr::null_mut());
        for number in 1..=libc::SIGRTMAX() {
            // Fails for SIGKILL, SIGSTOP and the signals of the C library, which cannot be ignored.
            libc::signal(number, libc::SIG_DFL);
        }
    }
}

/// Marks every descriptor from `first` on to be closed when a program is executed.
pub(crate) fn close_on_exec_from(first: u32) -> io::Result<()> {
    close_range(first, u32::MAX, libc::CLOSE_RANGE_CLOEXEC)
}

/// Closes every descriptor from 3 on except these.
pub(crate) fn close_all_but(keep: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut kept: Vec<u32> = keep.iter().map(|fd| fd.as_raw_fd() as u32).collect();
    kept.sort_unstable();
    let mut first = 3;
    for fd in kept {
        if fd > first {
            close_range(first, fd - 1, 0)?;
        }
        first = first.max(fd + 1);
    }
    close_range(first, u32::MAX, 0)
}

fn close_range(first: u32, last: u32, flags: u32) -> io::Result<()> {
    // SAFETY: callers close only descriptors whose owners never run again in this process, or only mark them.
    let answer = unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) };
    check_result(i32::try_from(answer).unwrap_or(-1))
}

/// The mounts that a change holds for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MountExtent {
    Alone,
    WithMountsBelow,
}

/// Makes a mount read-only and its devices useless.
pub(crate) fn protect_mount(mount: BorrowedFd<'_>, extent: MountExtent) -> io::Result<()> {
    set_mount(mount, extent, libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NODEV, 0)
}

/// Makes the devices and set-user-id bits of a mount useless; files in it can be written.
pub(crate) fn restrict_mount(mount: BorrowedFd<'_>, extent: MountExtent) -> io::Result<()> {
    set_mount(mount, extent, libc::MOUNT_ATTR_NODEV, 0)
}

/// Shows the owners of a mount as this user namespace maps them.
pub(crate) fn map_owners(mount: BorrowedFd<'_>, owners: BorrowedFd<'_>) -> io::Result<()> {
    set_mount(
        mount,
        MountExtent::Alone,
        libc::MOUNT_ATTR_IDMAP,
        owners.as_raw_fd() as u64,
    )
}

/// Sets attributes of a mount; set-user-id bits lose their effect on it in any case.
fn set_mount(mount: BorrowedFd<'_>, extent: MountExtent, attributes: u64, userns_fd: u64) -> io::Result<()> {
    let flags = match extent {
        MountExtent::Alone => 0,
        MountExtent::WithMountsBelow => libc::AT_RECURSIVE,
    };
    let request = libc::mount_attr {
        attr_set: libc::MOUNT_ATTR_NOSUID | attributes,
        attr_clr: 0,
        propagation: 0,
        userns_fd,
    };
    // SAFETY: the path is a literal C string and `request` lives through the call, which is told its size.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH | flags,
            &raw const request,
            size_of::<libc::mount_attr>(),
        )
    };
    check_result(i32::try_from(answer).unwrap_or(-1))
}

/// Brings the loopback interface of this network namespace up.
pub(crate) fn raise_loopback() -> io::Result<()> {
    // SAFETY: a zeroed ifreq is a valid one; the name is shorter than the field; the request lives through both calls.
    unsafe {
        let socket = own_descriptor(libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0))?;
        let mut request: libc::ifreq = std::mem::zeroed();
        for (slot, byte) in request.ifr_name.iter_mut().zip(b"lo") {
            *slot = *byte as libc::c_char;
        }
        check_result(libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFFLAGS, &raw mut request))?;
        request.ifr_ifru.ifru_flags |= (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
        check_result(libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw mut request))
    }
}

/// Executes another program in this process. Returns only if that fails.
pub(crate) fn execute_program(program: &CStr, arguments: &[CString], environment: &[CString]) -> io::Error {
    let arguments = null_terminated(arguments);
    let environment = null_terminated(environment);
    // SAFETY: both lists end with a null pointer and point at strings that outlive the call.
    unsafe { libc::execve(program.as_ptr(), arguments.as_ptr(), environment.as_ptr()) };
    io::Error::last_os_error()
}

fn null_terminated(strings: &[CString]) -> Vec<*const libc::c_char> {
    let mut pointers: Vec<_> = strings.iter().map(|string| string.as_ptr()).collect();
    pointers.push(std::ptr::null());
    pointers
}

/// Returns whether the kernel refuses this process a new user namespace, a mount and a raw socket, as it should; for
/// the probe.
pub(crate) fn is_confined() -> bool {
    // SAFETY: the calls take literals and null pointers that the kernel accepts; a call that succeeds changes only this
    // process, which ends right after.
    unsafe {
        libc::unshare(libc::CLONE_NEWUSER) != 0
            && libc::mount(
                c"none".as_ptr(),
                c"/tmp".as_ptr(),
                c"tmpfs".as_ptr(),
                0,
                std::ptr::null(),
            ) != 0
            && libc::socket(libc::AF_INET, libc::SOCK_RAW, 1) < 0
    }
}

/// Returns whether no file can be made in `directory`.
pub(crate) fn refuses_new_files(directory: &std::path::Path) -> bool {
    rustix::fs::open(
        directory.join(".garret-probe"),
        rustix::fs::OFlags::CREATE | rustix::fs::OFlags::WRONLY | rustix::fs::OFlags::CLOEXEC,
        rustix::fs::Mode::RUSR,
    )
    .is_err()
}

/// Makes a descriptor one of the three standard streams, or one of those for marks.
pub(crate) fn duplicate_to(fd: impl AsFd, standard: RawFd) -> io::Result<()> {
    // SAFETY: 0, 1 and 2 are owned by nobody in this program, and it never has so many open that another one is reached.
    check_result(unsafe { libc::dup2(fd.as_fd().as_raw_fd(), standard) })
}

pub(crate) fn check_result(answer: i32) -> io::Result<()> {
    if answer < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// # Safety
///
/// `fd` must be new and owned by nobody else, or negative.
unsafe fn own_descriptor(fd: RawFd) -> io::Result<OwnedFd> {
    check_result(fd)?;
    // SAFETY: the caller promises it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
