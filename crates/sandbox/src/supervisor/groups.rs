//! The control groups of a sandbox, of either version.
//!
//! A sandbox has one group with the limits on everything together; below it is `main`, where the supervisor and its commands run, and
//! one for each command that has less memory than the sandbox. Nothing moves between groups while a command starts: a move waits for all
//! processors, and costs more than the command.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use crate::namespace::plan::{Group, GroupPlace, SandboxPlan};

/// What a hierarchy counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Counts {
    Memory,
    Processes,
    Both,
}

#[derive(Debug)]
struct Hierarchy {
    counts: Counts,
    parent: OwnedFd,
    group: OwnedFd,
    main: OwnedFd,
}

/// The control groups of a sandbox; empty where there are none.
#[derive(Debug)]
pub(super) struct Groups {
    name: String,
    hierarchies: Vec<Hierarchy>,
    failure: Option<String>,
}

impl Groups {
    /// Makes them as planned. What fails is told by [`Groups::admit`]: whether it matters is decided above.
    pub(super) fn make(plan: &SandboxPlan) -> Self {
        let mut groups = Self {
            name: String::new(),
            hierarchies: Vec::new(),
            failure: None,
        };
        if let Some(group) = &plan.group {
            groups.name.clone_from(&group.name);
            for (counts, path) in places(&group.place) {
                match Hierarchy::make(counts, path, group, plan) {
                    Ok(hierarchy) => groups.hierarchies.push(hierarchy),
                    Err(error) => groups.failure = Some(format!("a control group could not be made: {error}")),
                }
            }
        }
        groups
    }

    /// Puts the process inside into them; everything it starts is in them as well.
    pub(super) fn admit(&self, pid: i32) -> Result<(), String> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        for hierarchy in &self.hierarchies {
            write(&hierarchy.main, "cgroup.procs", &pid.to_string())
                .map_err(|error| format!("a control group does not take processes: {error}"))?;
        }
        Ok(())
    }

    /// How often the kernel ended a process in them for want of memory.
    pub(super) fn memory_kills(&self) -> u64 {
        let Some(hierarchy) = self.hierarchies.iter().find(|one| one.counts != Counts::Processes) else {
            return 0;
        };
        let name = if hierarchy.counts == Counts::Both {
            "memory.events"
        } else {
            "memory.oom_control"
        };
        read(&hierarchy.main, name).map_or(0, |text| field(&text, "oom_kill"))
    }

    /// Makes a group for one command that may hold less than the sandbox; a process joins it by writing 0 to what is returned.
    pub(super) fn narrow(&self, process: u64, memory: u64) -> Option<Narrow> {
        let hierarchy = self.hierarchies.iter().find(|one| one.counts != Counts::Processes)?;
        let name = format!("command-{process}");
        rustix::fs::mkdirat(&hierarchy.group, &name, Mode::from_raw_mode(0o755)).ok()?;
        let narrow = Narrow {
            group: directory(&hierarchy.group, &name).ok()?,
            parent: hierarchy.group.try_clone().ok()?,
            name,
            is_version_two: hierarchy.counts == Counts::Both,
        };
        limit_memory(&narrow.group, narrow.is_version_two, memory).ok()?;
        Some(narrow)
    }

    /// Removes them; nothing runs in them any more.
    pub(super) fn remove(&self) {
        for hierarchy in &self.hierarchies {
            let _ = rustix::fs::unlinkat(&hierarchy.group, "main", AtFlags::REMOVEDIR);
            let _ = rustix::fs::unlinkat(&hierarchy.parent, self.name.as_str(), AtFlags::REMOVEDIR);
        }
    }
}

/// The group of one command.
#[derive(Debug)]
pub(super) struct Narrow {
    group: OwnedFd,
    parent: OwnedFd,
    name: String,
    is_version_two: bool,
}

impl Narrow {
    /// The descriptors that it needs.
    pub(super) fn descriptors(&self) -> [BorrowedFd<'_>; 2] {
        [self.group.as_fd(), self.parent.as_fd()]
    }

    /// Puts this process into it.
    pub(super) fn join(&self) -> Result<(), Errno> {
        write(&self.group, "cgroup.procs", "0")
    }

    /// How often the kernel ended a process in it for want of memory.
    pub(super) fn memory_kills(&self) -> u64 {
        let name = if self.is_version_two {
            "memory.events"
        } else {
            "memory.oom_control"
        };
        read(&self.group, name).map_or(0, |text| field(&text, "oom_kill"))
    }
}

impl Drop for Narrow {
    fn drop(&mut self) {
        let _ = rustix::fs::unlinkat(&self.parent, self.name.as_str(), AtFlags::REMOVEDIR);
    }
}

impl Hierarchy {
    fn make(counts: Counts, path: &Path, group: &Group, plan: &SandboxPlan) -> Result<Self, Errno> {
        let parent = rustix::fs::open(path, directory_flags(), Mode::empty())?;
        let made = make_below(&parent, &group.name)?;
        let result = Self::fill(counts, &parent, made, group, plan);
        if result.is_err() {
            let _ = rustix::fs::unlinkat(&parent, group.name.as_str(), AtFlags::REMOVEDIR);
        }
        result
    }

    fn fill(counts: Counts, parent: &OwnedFd, made: OwnedFd, group: &Group, plan: &SandboxPlan) -> Result<Self, Errno> {
        if counts == Counts::Both {
            write(&made, "cgroup.subtree_control", "+memory +pids")?;
        }
        if let (Some(memory), true) = (group.memory, counts != Counts::Processes) {
            limit_memory(&made, counts == Counts::Both, memory)?;
        }
        if let (Some(processes), true) = (group.processes, counts != Counts::Memory) {
            // The supervisor, the init of a command, and one that waits with its program are counted too.
            write(&made, "pids.max", &(processes + 4).to_string())?;
        }
        let main = make_below(&made, "main")?;
        if plan.user.is_dedicated {
            give_to(&[&made, &main], plan.user.uid, plan.user.gid)?;
        }
        Ok(Self {
            counts,
            parent: parent.try_clone().map_err(|_| Errno::MFILE)?,
            group: made,
            main,
        })
    }
}

fn places(place: &GroupPlace) -> Vec<(Counts, &Path)> {
    match place {
        GroupPlace::Two { path } => vec![(Counts::Both, path)],
        GroupPlace::One { memory, processes } => {
            let memory = memory.as_deref().map(|path| (Counts::Memory, path));
            let processes = processes.as_deref().map(|path| (Counts::Processes, path));
            memory.into_iter().chain(processes).collect()
        }
    }
}

/// Sets the limit on memory, swap included where the kernel counts it.
fn limit_memory(group: &OwnedFd, is_version_two: bool, memory: u64) -> Result<(), Errno> {
    let memory = memory.to_string();
    if is_version_two {
        write(group, "memory.max", &memory)?;
        let _ = write(group, "memory.swap.max", "0");
        return Ok(());
    }
    write(group, "memory.limit_in_bytes", &memory)?;
    let _ = write(group, "memory.memsw.limit_in_bytes", &memory);
    Ok(())
}

/// Lets the user of the commands' supervisor make groups below these and move its own processes there, and nothing else.
fn give_to(groups: &[&OwnedFd], uid: u32, gid: u32) -> Result<(), Errno> {
    let owner = Some(rustix::fs::Uid::from_raw(uid));
    let group_owner = Some(rustix::fs::Gid::from_raw(gid));
    for group in groups {
        rustix::fs::fchown(group, owner, group_owner)?;
        rustix::fs::chownat(group, "cgroup.procs", owner, group_owner, AtFlags::empty())?;
    }
    Ok(())
}

fn directory_flags() -> OFlags {
    OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW
}

fn make_below(parent: &OwnedFd, name: &str) -> Result<OwnedFd, Errno> {
    rustix::fs::mkdirat(parent, name, Mode::from_raw_mode(0o755))?;
    directory(parent, name)
}

fn directory(parent: &OwnedFd, name: &str) -> Result<OwnedFd, Errno> {
    rustix::fs::openat(parent, name, directory_flags(), Mode::empty())
}

fn write(directory: &OwnedFd, name: &str, text: &str) -> Result<(), Errno> {
    let file = rustix::fs::openat(directory, name, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::io::write(&file, text.as_bytes())?;
    Ok(())
}

fn read(directory: impl AsFd, name: impl AsRef<OsStr>) -> Result<String, Errno> {
    let file = rustix::fs::openat(
        directory,
        name.as_ref(),
        OFlags::RDONLY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    let mut bytes = vec![0; 4096];
    let length = rustix::io::read(&file, &mut bytes)?;
    bytes.truncate(length);
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The number after `name` in a file of lines `name number`.
fn field(text: &str, name: &str) -> u64 {
    text.lines()
        .filter_map(|line| line.split_once(' '))
        .find(|(key, _)| *key == name)
        .and_then(|(_, value)| value.trim().parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_of_kills_is_read_from_either_version() {
        assert_eq!(field("low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\n", "oom_kill"), 2);
        assert_eq!(field("oom_kill_disable 0\nunder_oom 0\noom_kill 7\n", "oom_kill"), 7);
        assert_eq!(field("", "oom_kill"), 0);
    }
}
