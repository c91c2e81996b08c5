//! The steps that make the root of a sandbox: what commands see of the system, and the files and devices that are made
//! for them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use garret_core::path::MOUNT_POINT;
use garret_core::{GitAuthor, Limits, Network, SandboxMount, SandboxRequest};

use super::{HostPathKind, INSIDE, MachineFeatures, PlannedHome, RootStep};

/// The most bytes that `/tmp` and `/dev/shm` hold if no other limit is lower.
pub(super) const MEMORY_FILES: u64 = 2 * 1024 * 1024 * 1024;
/// The directories in memory. A mount or the workspace may lie in one of them, below a cover that commands cannot write.
const MEMORY_DIRECTORIES: [&str; 1] = ["/tmp"];
/// The configuration of Git for the system.
pub(super) const GIT_CONFIG: &str = "/etc/gitconfig";
/// System directories and links at the root, in the order in which they are made.
pub(super) const SYSTEM: [&str; 6] = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64"];
/// The directories of settings that programs need and that say nothing about the machine's users.
pub(super) const SETTINGS: [&str; 12] = [
    "/etc/alternatives",
    "/etc/ssl/certs",
    "/etc/pki/tls/certs",
    "/etc/pki/ca-trust/extracted",
    "/etc/ca-certificates/extracted",
    "/etc/ld.so.conf.d",
    "/etc/fonts",
    "/etc/terminfo",
    "/etc/perl",
    "/etc/python3",
    "/etc/python3.11",
    "/etc/ImageMagick-6",
];
/// The files of settings that programs need and that say nothing about the machine's users.
pub(super) const SETTING_FILES: [&str; 15] = [
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/localtime",
    "/etc/timezone",
    "/etc/protocols",
    "/etc/services",
    "/etc/host.conf",
    "/etc/gai.conf",
    "/etc/mime.types",
    "/etc/magic",
    "/etc/inputrc",
    "/etc/bash.bashrc",
    "/etc/os-release",
    "/etc/debian_version",
    "/etc/ssl/openssl.cnf",
];
/// The harmless devices. `tty` is the terminal that a command runs on, if it has one: it leads to no terminal of the host,
/// because every command begins a session of its own.
const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];

pub(super) fn root_steps(request: &SandboxRequest, machine: &MachineFeatures, home: &PlannedHome) -> Vec<RootStep> {
    let mut steps = Vec::new();
    for path in [
        "/etc",
        "/dev",
        "/proc",
        "/tmp",
        "/run",
        "/var",
        "/home",
        MOUNT_POINT,
        "/.garret",
    ] {
        steps.push(directory_step(path));
    }
    steps.extend(SYSTEM.iter().filter_map(|path| shown_step(path, machine)));
    steps.extend(settings_steps(request, machine, &home.path));
    steps.push(link_step("/var/tmp", "/tmp"));
    steps.extend(device_steps());
    steps.extend(memory_files(&request.limits));
    steps.push(home_step(home));
    let covers = covers(request).into_iter().chain(shown_bench(request, machine));
    steps.extend(covers.map(|path| RootStep::Cover { path }));
    steps.extend(
        request
            .host_paths
            .iter()
            .filter_map(|path| Some(directory_step(path.to_str()?))),
    );
    steps
}

fn home_step(home: &PlannedHome) -> RootStep {
    match home.source {
        Some(_) => directory_step(&home.path),
        None => RootStep::Memory {
            path: home.path.clone(),
            bytes: home.memory_bytes,
        },
    }
}

/// Returns the directories of writable file systems that hold places of mounts. Commands cannot write in a cover, and
/// nobody can move a directory on which something is mounted; so they cannot lead a later mount elsewhere.
fn covers(request: &SandboxRequest) -> BTreeSet<String> {
    let targets = request.mounts.iter().map(SandboxMount::target_path);
    let cover_of = |target: &Path| {
        let memory = MEMORY_DIRECTORIES
            .into_iter()
            .find(|memory| target.starts_with(memory))?;
        let first = target.strip_prefix(memory).ok()?.components().next()?;
        Some(format!("{memory}/{}", first.as_os_str().to_str()?))
    };
    targets
        .chain(request.host_paths.iter().map(PathBuf::as_path))
        .filter_map(cover_of)
        .collect()
}

/// Returns the bench if it lies in a directory of the system that every command sees: there, the rules of the workspace
/// do not hold. A directory of programs of the system is not hidden.
fn shown_bench(request: &SandboxRequest, machine: &MachineFeatures) -> Option<String> {
    let bench = request.bench.as_path();
    let is_shown = |path: &&str| {
        let is_directory = machine.present.get(*path) == Some(&HostPathKind::Directory);
        is_directory && bench.starts_with(path)
    };
    // Mostly, `/bin` leads to `/usr/bin`.
    let is_system = |path: &&str| bench == Path::new(path) || bench == Path::new(&format!("/usr{path}"));
    let is_hidden = SYSTEM.iter().chain(&SETTINGS).any(is_shown) && !SYSTEM.iter().any(is_system);
    bench.to_str().filter(|_| is_hidden).map(str::to_owned)
}

/// Makes the steps for the file systems in memory, `/tmp` and `/dev/shm`.
pub(super) fn memory_files(limits: &Limits) -> [RootStep; 2] {
    // These files count as memory and stay after a command has ended. Even full, they and a home in memory leave a
    // quarter of the memory to the next command and to the supervisor; otherwise the supervisor would be the only
    // process left for the kernel to end.
    [("/tmp", 2), ("/dev/shm", 8)].map(|(path, divisor)| RootStep::Memory {
        path: path.to_owned(),
        bytes: memory_bytes(limits, divisor),
    })
}

/// Returns the most bytes of a file system in memory that may take the memory limit divided by `divisor`.
pub(super) fn memory_bytes(limits: &Limits, divisor: u64) -> u64 {
    let most = limits.written.unwrap_or(MEMORY_FILES).min(MEMORY_FILES);
    most.min(limits.memory.unwrap_or(u64::MAX) / divisor)
}

fn directory_step(path: &str) -> RootStep {
    RootStep::Directory {
        path: path.to_owned(),
        mode: 0o755,
    }
}

pub(super) fn link_step(path: &str, target: &str) -> RootStep {
    RootStep::Link {
        path: path.to_owned(),
        target: target.to_owned(),
    }
}

/// Makes the step that shows a path of the host: a directory is mounted, a link is made again.
fn shown_step(path: &str, machine: &MachineFeatures) -> Option<RootStep> {
    match machine.present.get(path)? {
        HostPathKind::Directory => Some(RootStep::Show { path: path.to_owned() }),
        HostPathKind::Link(target) => Some(link_step(path, target)),
        HostPathKind::File => None,
    }
}

fn settings_steps(request: &SandboxRequest, machine: &MachineFeatures, home: &str) -> Vec<RootStep> {
    let mut steps: Vec<RootStep> = SETTINGS.iter().filter_map(|path| shown_step(path, machine)).collect();
    steps.extend(SETTING_FILES.iter().filter_map(|path| copied_step(path, machine)));
    steps.extend(neutral_file_steps(home));
    steps.extend(request.git_author.as_ref().map(git_config_step));
    if request.network == Network::Full && machine.present.contains_key("/etc/resolv.conf") {
        steps.push(RootStep::Copy {
            path: "/etc/resolv.conf".to_owned(),
        });
    }
    steps
}

fn copied_step(path: &str, machine: &MachineFeatures) -> Option<RootStep> {
    match machine.present.get(path)? {
        HostPathKind::File => Some(RootStep::Copy { path: path.to_owned() }),
        HostPathKind::Link(target) => Some(link_step(path, target)),
        HostPathKind::Directory => None,
    }
}

/// Makes the files that would reveal the machine's users and names, with neutral content.
fn neutral_file_steps(home: &str) -> Vec<RootStep> {
    let passwd = format!("agent:x:{INSIDE}:{INSIDE}:agent:{home}:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n");
    let group = format!("agent:x:{INSIDE}:\nnogroup:x:65534:\n");
    [
        ("/etc/passwd", passwd),
        ("/etc/group", group),
        ("/etc/hosts", "127.0.0.1 localhost garret\n::1 localhost\n".to_owned()),
        ("/etc/hostname", "garret\n".to_owned()),
        (
            "/etc/nsswitch.conf",
            "passwd: files\ngroup: files\nhosts: files dns\n".to_owned(),
        ),
    ]
    .map(|(path, text)| RootStep::Text {
        path: path.to_owned(),
        text,
    })
    .into()
}

/// Makes the configuration of Git for the system, which a repository and the home override.
pub(super) fn git_config_step(author: &GitAuthor) -> RootStep {
    let quoted = |text: &str| {
        let plain: String = text.chars().filter(|one| !one.is_control()).collect();
        format!("\"{}\"", plain.replace('\\', "\\\\").replace('"', "\\\""))
    };
    RootStep::Text {
        path: GIT_CONFIG.to_owned(),
        text: format!(
            "[user]\n\tname = {}\n\temail = {}\n",
            quoted(&author.name),
            quoted(&author.email)
        ),
    }
}

fn device_steps() -> Vec<RootStep> {
    let mut steps: Vec<RootStep> = DEVICES
        .iter()
        .map(|name| RootStep::Device {
            name: (*name).to_owned(),
        })
        .collect();
    for (path, target) in [
        ("/dev/fd", "/proc/self/fd"),
        ("/dev/stdin", "/proc/self/fd/0"),
        ("/dev/stdout", "/proc/self/fd/1"),
        ("/dev/stderr", "/proc/self/fd/2"),
        ("/dev/ptmx", "pts/ptmx"),
    ] {
        steps.push(link_step(path, target));
    }
    steps.push(directory_step("/dev/shm"));
    // The init of each command mounts terminals of its own there.
    steps.push(directory_step("/dev/pts"));
    steps
}
