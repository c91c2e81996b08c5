//! Finds the features of this machine that a plan depends on, once for each sandbox.

#![cfg(target_os = "linux")]
#![allow(
    clippy::disallowed_methods,
    reason = "this file looks at the system directories and control groups of the host"
)]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use garret_core::path::quote;
use garret_core::{Error, ErrorKind, Result, SandboxMount, SandboxRequest};
use landlock::{AccessFs, CompatLevel, Compatible, Ruleset, RulesetAttr};
use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fstat, openat2};
use rustix::io::Errno;

use super::PauseMode;
use super::plan::{HierarchyCounter, HostPathKind, MachineFeatures, MountSource, ParentGroup, wanted_paths};

/// Returns the features of the machine.
pub(super) fn examine_machine(request: &SandboxRequest, pauses: PauseMode) -> Result<MachineFeatures> {
    let owner = fs::metadata(&request.bench).map_err(|_| {
        Error::new(ErrorKind::Unavailable, "the directory for commands cannot be opened")
            .hint("check that the directory exists")
    })?;
    let (groups, freezer) = find_parent_groups(pauses).unwrap_or_default();
    Ok(MachineFeatures {
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
        bench_owner: (owner.uid(), owner.gid()),
        groups,
        freezer,
        has_landlock: has_landlock(),
        present: find_present_paths(),
        sources: request.mounts.iter().map(examine_source).collect::<Result<_>>()?,
    })
}

/// Returns what the source of a mount is. A link in its path is refused: the path was checked without links, and a link
/// that was put there since then could lead anywhere.
fn examine_source(mount: &SandboxMount) -> Result<MountSource> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let ways = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let opened = openat2(CWD, &mount.source, flags, Mode::empty(), ways);
    let stat = opened.and_then(|source| fstat(&source)).map_err(|error| match error {
        Errno::LOOP => exchanged_source_error(&mount.target_path().to_string_lossy()),
        error => missing_source_error(mount, &error.into()),
    })?;
    Ok(MountSource {
        path: mount.source.clone(),
        is_file: FileType::from_raw_mode(stat.st_mode) != FileType::Directory,
        owner: (stat.st_uid, stat.st_gid),
    })
}

/// Makes the error for a source that has a link in its path, or has gone since it was checked.
pub(super) fn exchanged_source_error(target: &str) -> Error {
    let target = quote(target);
    let message = format!("{target} cannot be shown to commands: the path of its source has changed, or has a link");
    Error::new(ErrorKind::Denied, message).hint("run it again when nothing renames the directories of the source")
}

/// Makes the error for a source that cannot be reached. The mount has the name that commands would see.
fn missing_source_error(mount: &SandboxMount, error: &std::io::Error) -> Error {
    let target = quote(&mount.target_path().to_string_lossy());
    let (kind, reason, remedy) = match error.kind() {
        std::io::ErrorKind::PermissionDenied => (
            ErrorKind::Denied,
            "Garret may not read it",
            "give the user of Garret the right to enter its directory",
        ),
        _ => (ErrorKind::NotFound, "its source does not exist", "create it"),
    };
    Error::new(kind, format!("{target} cannot be shown to commands: {reason}")).hint(format!(
        "{remedy}, or remove it from `mounts` or `toolchains` of the shell capability"
    ))
}

fn find_present_paths() -> BTreeMap<String, HostPathKind> {
    let kind = |path: &str| {
        let metadata = fs::symlink_metadata(path).ok()?;
        if metadata.is_symlink() {
            return fs::read_link(path)
                .ok()?
                .to_str()
                .map(|target| HostPathKind::Link(target.to_owned()));
        }
        Some(if metadata.is_dir() {
            HostPathKind::Directory
        } else {
            HostPathKind::File
        })
    };
    wanted_paths()
        .into_iter()
        .filter_map(|path| kind(&path).map(|kind| (path, kind)))
        .collect()
}

fn has_landlock() -> bool {
    let ruleset = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    ruleset
        .handle_access(AccessFs::Execute)
        .and_then(Ruleset::create)
        .is_ok()
}

/// Returns the control groups below which Garret may make its own, and the hierarchy that freezes commands.
fn find_parent_groups(pauses: PauseMode) -> Option<(Vec<ParentGroup>, Option<HierarchyCounter>)> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let group_of = |counts, kind, controller| {
        writable_group(&groups, &mounts, kind, controller).map(|path| ParentGroup { counts, path })
    };
    let limits_of_two = version_two(&groups, &mounts);
    let freezer_one = || group_of(HierarchyCounter::FreezerOne, "cgroup", "freezer");
    let freezer = match pauses {
        PauseMode::Traced => None,
        PauseMode::FrozenByVersionOne => freezer_one(),
        // Version 2 before version 1, because there a frozen process can be ended.
        PauseMode::Best => limits_of_two
            .clone()
            .or_else(|| group_of(HierarchyCounter::FreezerTwo, "cgroup2", ""))
            .or_else(freezer_one),
    };
    let counts = freezer.as_ref().map(|freezer| freezer.counts);
    let mut parents = match limits_of_two {
        Some(parent) => vec![parent],
        None => [
            group_of(HierarchyCounter::Memory, "cgroup", "memory"),
            group_of(HierarchyCounter::Processes, "cgroup", "pids"),
            group_of(HierarchyCounter::Time, "cgroup", "cpuacct"),
        ]
        .into_iter()
        .flatten()
        .collect(),
    };
    parents.extend(freezer.filter(|freezer| freezer.counts != HierarchyCounter::All));
    let counts_only_time = parents.iter().all(|parent| parent.counts == HierarchyCounter::Time);
    Some((if counts_only_time { Vec::new() } else { parents }, counts))
}

/// Returns the directory of this process's group for a controller, if Garret may write it.
fn writable_group(groups: &str, mounts: &str, kind: &str, controller: &str) -> Option<PathBuf> {
    let path = directory_of(groups, mounts, kind, controller)?;
    is_writable(&path).then_some(path)
}

/// Returns the nearest group above this process that enables the controllers of memory and processes below it, and that
/// Garret may write.
fn version_two(groups: &str, mounts: &str) -> Option<ParentGroup> {
    let own = directory_of(groups, mounts, "cgroup2", "")?;
    let passes_on = |path: &&Path| {
        let passed = fs::read_to_string(path.join("cgroup.subtree_control")).unwrap_or_default();
        let has = |name: &str| passed.split_whitespace().any(|one| one == name);
        has("memory") && has("pids") && is_writable(path)
    };
    let path = own
        .ancestors()
        .take_while(|path| path.starts_with("/sys"))
        .find(passes_on)?
        .to_owned();
    Some(ParentGroup {
        counts: HierarchyCounter::All,
        path,
    })
}

fn is_writable(path: &Path) -> bool {
    rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_ok()
}

/// Returns the directory of this process's group for a controller; an empty name stands for version 2.
fn directory_of(groups: &str, mounts: &str, kind: &str, controller: &str) -> Option<PathBuf> {
    let own = groups.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (names, path) = (fields.next()?, fields.next()?);
        names.split(',').any(|name| name == controller).then_some(path)
    })?;
    mounts.lines().find_map(|line| mounted_at(line, kind, controller, own))
}

fn mounted_at(line: &str, kind: &str, controller: &str, own: &str) -> Option<PathBuf> {
    let (before, after) = line.split_once(" - ")?;
    let mut after = after.split(' ');
    let options = (after.next()? == kind).then(|| after.nth(1))??;
    if !controller.is_empty() && !options.split(',').any(|option| option == controller) {
        return None;
    }
    let mut before = before.split(' ').skip(3);
    let (root, point) = (before.next()?, before.next()?);
    // In a container, only a part of the hierarchy may be mounted; the path of the group is then relative to that part.
    let below = if root == "/" { own } else { own.strip_prefix(root)? };
    Some(Path::new(point).join(below.trim_start_matches('/')))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "30 23 0:26 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n\
        31 23 0:27 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n\
        32 23 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";

    #[test]
    fn the_group_of_a_controller_is_found_where_its_hierarchy_is_mounted() {
        let groups = "8:pids:/\n4:memory:/service/a\n0::/user\n";
        let found = |kind, controller| directory_of(groups, MOUNTS, kind, controller);
        assert_eq!(
            found("cgroup", "memory"),
            Some("/sys/fs/cgroup/memory/service/a".into())
        );
        assert_eq!(found("cgroup", "pids"), Some("/sys/fs/cgroup/pids".into()));
        assert_eq!(found("cgroup2", ""), Some("/sys/fs/cgroup/unified/user".into()));
        assert_eq!(found("cgroup", "cpu"), None);
    }

    #[test]
    fn a_hierarchy_that_is_mounted_in_part_leads_to_the_part() {
        let mounts = "30 23 0:26 /docker/x /sys/fs/cgroup rw - cgroup2 cgroup rw\n";
        assert_eq!(
            directory_of("0::/docker/x/y\n", mounts, "cgroup2", ""),
            Some("/sys/fs/cgroup/y".into())
        );
        assert_eq!(directory_of("0::/elsewhere\n", mounts, "cgroup2", ""), None);
    }
}
