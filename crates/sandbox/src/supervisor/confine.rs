//! The last steps before a program is executed: the process gives up every right that the program must not have.

#![cfg(target_os = "linux")]

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

use garret_core::{ANSWER_DESCRIPTOR, MARK_DESCRIPTOR};
use garret_handles::{open_child, open_through_links};
use landlock::{
    ABI, Access, AccessFs, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr, RulesetCreated,
    RulesetCreatedAttr, RulesetError, Scope,
};
use rustix::fs::{CWD, FileType, Mode, OFlags};
use rustix::process::{DumpableBehavior, Resource, Rlimit, setrlimit};
use rustix::thread::{CapabilitySet, CapabilitySets};
use serde::{Deserialize, Serialize};

use super::descriptor_passing::DescriptorReceiver;
use super::protocol::{ExecTarget, FailedStep, FrameDecoder, ProtocolFrame, SpawnRequest, StepFailure, read_frame};
use super::system_call_filter::SystemCallFilter;
use super::{command_terminal, execute, sys};

/// The standard streams of the program.
#[derive(Debug)]
pub(super) struct StandardStreams {
    pub(super) input: OwnedFd,
    pub(super) output: OwnedFd,
    pub(super) error: OwnedFd,
}

/// The program to execute, and the confinement it gets.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ExecOrder {
    pub(super) spawn: SpawnRequest,
    /// The path of the workspace at which the command starts.
    pub(super) start: String,
    pub(super) has_landlock: bool,
    /// Whether a control group limits memory and processes, so that the limits of a single process are not needed.
    pub(super) has_group: bool,
    /// The number of processes of the sandbox itself that the kernel counts with those of the command.
    pub(super) own_processes: u64,
}

/// The limit of the size of a core file at which the kernel starts no core-handling program either. If the host pipes
/// cores to a program, that program runs as root outside every namespace, at a limit of 0 too; the kernel makes an
/// exception for 1. The filter of system calls keeps commands from changing the limit.
const NO_CORE: u64 = 1;

/// Sets the limit of the size of a core file, above the inherited one if this process may raise it.
pub(crate) fn forbid_cores() {
    let limit = Rlimit {
        current: Some(NO_CORE),
        maximum: Some(NO_CORE),
    };
    let _ = setrlimit(Resource::Core, limit);
}

/// Drops every capability except `kept` for good, for this process and all that it starts.
pub(super) fn drop_rights_but(kept: CapabilitySet) -> Result<(), StepFailure> {
    let sets = CapabilitySets {
        effective: kept,
        permitted: kept,
        inheritable: CapabilitySet::empty(),
    };
    rustix::thread::set_capabilities(None, sets)
        .and_then(|()| rustix::thread::set_no_new_privs(true))
        .in_step("dropping rights")
}

/// Removes every capability that a program could gain when it is executed, for this process and all that it starts.
pub(super) fn drop_gainable_capabilities() {
    for capability in CapabilitySet::all().iter() {
        // Fails for a capability that this kernel does not know, which is not in the set anyway.
        let _ = rustix::thread::remove_capability_from_bounding_set(capability);
    }
    let _ = rustix::thread::clear_ambient_capability_set();
}

/// Gives up every right that is not needed to wait, waits for an order, and executes the program; returns only if that
/// fails.
pub(super) fn wait_and_execute(
    standard: &StandardStreams,
    filter: &SystemCallFilter,
    writable: &[String],
    orders: &UnixStream,
) -> StepFailure {
    if let Err(failure) = prepare_process(standard, filter) {
        return failure;
    }
    // Best effort: an older kernel enforces the part of the rules that it knows. The namespaces are the boundary.
    let fence = create_landlock_rules();
    let mut decoder = FrameDecoder::default();
    let mut receiving = DescriptorReceiver::new(orders);
    let Ok(Some(ProtocolFrame::Message(order))) = read_frame::<ExecOrder>(&mut decoder, &mut receiving) else {
        // The init has ended, so no program is wanted any more.
        sys::exit_process(0)
    };
    let connected = connect_terminal(&order.spawn, standard, receiving.descriptors.pop());
    match connected.and_then(|()| apply_order(&order, writable, fence)) {
        Err(failure) => failure,
        Ok(()) if filter.install_last().is_err() => {
            StepFailure::new("filtering system calls", io::Error::from_raw_os_error(libc::EPERM))
        }
        Ok(()) => match &order.spawn.program {
            ExecTarget::Arguments(arguments) => execute::execute_by_search(arguments, &order.spawn),
            ExecTarget::Plain { words, shell } => execute::execute_plain(words, shell, &order.spawn),
            ExecTarget::Probe => report_guards(),
        },
    }
}

/// Takes the steps that do not depend on the order.
fn prepare_process(standard: &StandardStreams, filter: &SystemCallFilter) -> Result<(), StepFailure> {
    let _ = rustix::process::setsid();
    for (at, fd) in [&standard.input, &standard.output, &standard.error]
        .into_iter()
        .enumerate()
    {
        sys::duplicate_to(fd.as_fd(), at as i32).in_step("connecting")?;
    }
    sys::close_on_exec_from(3).in_step("closing descriptors")?;
    choose_first_when_memory_ends();
    rustix::process::umask(Mode::from_raw_mode(0o022));
    sys::reset_signals();
    // Only now, after the group was joined: in a new cgroup namespace, a group beside its root cannot be entered.
    let _ = sys::enter_group_namespace();
    drop_rights_but(CapabilitySet::empty())?;
    // Last: the filter refuses calls that the steps above need, such as `unshare`.
    let refused = |_| StepFailure::new("filtering system calls", io::Error::from_raw_os_error(libc::EPERM));
    filter.install().map_err(refused)
}

/// Makes the kernel choose this process before the supervisor when memory runs out.
fn choose_first_when_memory_ends() {
    // The files in `/proc` of a process that is not dumpable belong to root. No program runs in this namespace yet that
    // could use the gap.
    let _ = rustix::process::set_dumpable_behavior(DumpableBehavior::Dumpable);
    if let Ok(file) = rustix::fs::open(
        "/proc/self/oom_score_adj",
        OFlags::WRONLY | OFlags::CLOEXEC,
        Mode::empty(),
    ) {
        let _ = rustix::io::write(&file, b"1000");
    }
    let _ = rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable);
}

/// Connects the program to its terminal, if it has one.
fn connect_terminal(
    spawn: &SpawnRequest,
    standard: &StandardStreams,
    terminal: Option<OwnedFd>,
) -> Result<(), StepFailure> {
    let (Some(wanted), Some(terminal)) = (spawn.terminal, terminal) else {
        return Ok(());
    };
    if wanted.has_mark_pipe {
        sys::duplicate_to(&standard.error, MARK_DESCRIPTOR)
            .and_then(|()| sys::duplicate_to(&standard.input, ANSWER_DESCRIPTOR))
            .in_step("connecting")?;
    }
    command_terminal::take_terminal(&terminal).in_step("connecting the terminal")
}

/// Takes the steps that depend on the order.
fn apply_order(
    order: &ExecOrder,
    writable: &[String],
    fence: Result<RulesetCreated, RulesetError>,
) -> Result<(), StepFailure> {
    enter_directory(&order.start, &order.spawn.cwd)?;
    set_limits(order)?;
    if order.has_landlock {
        let fenced = fence.and_then(|fence| apply_landlock_rules(fence, writable));
        fenced.map_err(|_| StepFailure::new("restricting files", io::Error::from_raw_os_error(libc::EPERM)))?;
    }
    Ok(())
}

fn enter_directory(start: &str, cwd: &str) -> Result<(), StepFailure> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(start, flags, Mode::empty())
        // A symbolic link is followed only if it leads to a place in the workspace.
        .and_then(|workspace| open_through_links(&workspace, cwd.as_bytes(), flags))
        .and_then(rustix::process::fchdir)
        .in_step("entering the directory")
}

fn set_limits(order: &ExecOrder) -> Result<(), StepFailure> {
    let limits = &order.spawn.limits;
    let alone = |limit: Option<u64>| if order.has_group { None } else { limit };
    let processes = limits.processes.map(|count| count + order.own_processes);
    // At least two seconds, so that the limit on the sum over all processes, which is finer, ends the command first.
    let cpu = limits.cpu_ms.map(|ms| ms.div_ceil(1000) + 1);
    let largest_file = limits.largest_file().map(|(bytes, _)| bytes);
    let wanted = [
        (Resource::Cpu, cpu),
        (Resource::Fsize, largest_file),
        (Resource::Nofile, limits.open_files),
        (Resource::Nproc, processes),
        (Resource::Data, alone(limits.memory)),
        (Resource::Msgqueue, Some(1024 * 1024)),
    ];
    for (resource, value) in wanted {
        if let Some(value) = value {
            lower_limit(resource, value, value).in_step("limiting resources")?;
        }
    }
    Ok(())
}

/// Lowers a limit; one that is lower already stays.
pub(crate) fn lower_limit(resource: Resource, soft: u64, hard: u64) -> rustix::io::Result<()> {
    let most = rustix::process::getrlimit(resource).maximum.unwrap_or(u64::MAX);
    let limit = Rlimit {
        current: Some(soft.min(most)),
        maximum: Some(hard.min(most)),
    };
    setrlimit(resource, limit)
}

/// The version of Landlock whose rules are used.
const FENCE: ABI = ABI::V6;
/// The names of the home directory of commands, in `/home`.
const HOMES: [&[u8]; 2] = [b"agent", b"garret-agent"];

/// Makes the Landlock rules, a second fence around the files beside the mounts; without the rule for the workspace,
/// which depends on the layer.
fn create_landlock_rules() -> Result<RulesetCreated, RulesetError> {
    let abi = FENCE;
    let all = AccessFs::from_all(abi);
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(all)?
        .scope(Scope::from_all(abi))?
        .create()?;
    let devices = AccessFs::from_read(abi) | AccessFs::WriteFile | AccessFs::Truncate | AccessFs::IoctlDev;
    for (path, access) in [
        ("/", AccessFs::from_read(abi)),
        ("/tmp", all),
        ("/dev/shm", all),
        ("/dev", devices),
        ("/proc", devices),
    ] {
        if let Ok(directory) = PathFd::new(path) {
            ruleset = ruleset.add_rule(PathBeneath::new(directory, access))?;
        }
    }
    Ok(ruleset)
}

/// Adds the rules for the workspace, the home and the mounts that commands write, and applies the rules to this process.
fn apply_landlock_rules(mut fence: RulesetCreated, writable: &[String]) -> Result<(), RulesetError> {
    for path in writable {
        if let Ok(place) = PathFd::new(path) {
            // Rights that only a directory has are left out for a file.
            let is_file = rustix::fs::fstat(&place)
                .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) != FileType::Directory);
            let access = if is_file {
                AccessFs::from_file(FENCE)
            } else {
                AccessFs::from_all(FENCE)
            };
            fence = fence.add_rule(PathBeneath::new(place, access))?;
        }
    }
    fence.restrict_self().map(drop)
}

/// Tries operations that a command must not be able to do, and writes which guards held.
fn report_guards() -> StepFailure {
    let processes = count_processes();
    let found = [
        (
            "files",
            sys::refuses_new_files(Path::new("/")) && sys::refuses_new_files(Path::new("/usr")) && !shows_homes(),
        ),
        ("processes", processes.is_none_or(|count| count <= 2)),
        ("network", is_alone_on_the_network()),
        ("system_calls", sys::is_confined()),
        ("layers", !sys::refuses_new_files(Path::new("."))),
    ];
    for (name, holds) in found {
        let line = format!("{name} {holds}\n");
        let _ = rustix::io::write(rustix::stdio::stdout(), line.as_bytes());
    }
    sys::exit_process(0)
}

/// Returns whether the home directory of a user of the machine is visible.
fn shows_homes() -> bool {
    list_names("/home").is_some_and(|names| names.iter().any(|name| !HOMES.contains(&&**name)))
}

fn count_processes() -> Option<usize> {
    let names = list_names("/proc")?;
    Some(
        names
            .iter()
            .filter(|name| name.first().is_some_and(u8::is_ascii_digit))
            .count(),
    )
}

fn list_names(path: &str) -> Option<Vec<Vec<u8>>> {
    garret_handles::list_names(open_child(CWD, path).ok()?).ok()
}

/// Returns whether no network interface of the host is visible.
fn is_alone_on_the_network() -> bool {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let Ok(file) = rustix::fs::open("/proc/net/dev", flags, Mode::empty()) else {
        return true;
    };
    let mut text = vec![0; 16 * 1024];
    let length = rustix::io::read(&file, &mut text).unwrap_or(0);
    let text = String::from_utf8_lossy(&text[..length]).into_owned();
    let names = text.lines().skip(2).filter_map(|line| line.split(':').next());
    // Tunnels that the kernel puts into every namespace are down and lead nowhere.
    !names
        .map(str::trim)
        .any(|name| name.starts_with("eth") || name.starts_with("en") || name.starts_with("wl"))
}
