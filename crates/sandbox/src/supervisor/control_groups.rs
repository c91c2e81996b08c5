//! The control groups of a sandbox, of either version.
//!
//! A sandbox has one group with the limits on all of its processes together. Below it is `main`, in which the
//! supervisor and its commands run, and one group for each command that may use less memory than the sandbox, whose
//! time on processors is limited, or that may be frozen. No process is ever moved by another: such a move waits for all
//! processors, which takes longer than a command. A process that moves its only thread itself (version 1) waits for
//! none, and neither does one that is forked directly into its group (version 2).
//!
//! A lock on its group shows that a sandbox lives. The next sandbox removes the groups of one that was killed.

#![cfg(target_os = "linux")]

use std::io;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use garret_handles::{for_each_name, open_child};
use rustix::fs::{Access, AtFlags, FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use super::protocol::{PauseMethod, SpawnLimits};
use super::sys::{self, ForkSide, NewNamespaces};
use crate::namespace::plan::{ControlGroupPlan, HierarchyCounter, ParentGroup, SandboxPlan};

/// The prefix of the names of Garret's groups.
const PREFIX: &str = "garret-";
/// The number of tries to make a group that another sandbox may remove, as a leftover, before it is locked.
const TRIES: usize = 8;

/// Returns whether a sandbox without this hierarchy has another way to do the same.
fn is_optional(counts: HierarchyCounter) -> bool {
    matches!(
        counts,
        HierarchyCounter::Time | HierarchyCounter::FreezerTwo | HierarchyCounter::FreezerOne
    )
}

/// Returns the name of the file to which a process writes a zero to move itself into a group.
fn join_file(counts: HierarchyCounter) -> &'static str {
    if counts.is_version_two() {
        "cgroup.procs"
    } else {
        "tasks"
    }
}

#[derive(Debug)]
struct GroupHierarchy {
    counts: HierarchyCounter,
    parent: OwnedFd,
    group: OwnedFd,
    main: OwnedFd,
    /// The file by which processes move themselves, opened with the rights of the user that made the group.
    door: OwnedFd,
}

/// The control groups of a sandbox; empty if it has none.
#[derive(Debug)]
pub(super) struct ControlGroups {
    name: String,
    hierarchies: Vec<GroupHierarchy>,
    /// The hierarchy that freezes commands.
    freezer: Option<HierarchyCounter>,
    /// Whether a group that the sandbox needs could not be made or entered.
    has_failed: bool,
}

/// Whether a process was forked directly into its control group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ForkPlace {
    Inside,
    Outside,
}

impl ControlGroups {
    /// Makes the groups as planned. [`ControlGroups::are_in_force`] reports a failure; the caller decides whether it
    /// matters.
    pub(super) fn make_planned(plan: &SandboxPlan) -> Self {
        let mut groups = Self {
            name: String::new(),
            hierarchies: Vec::new(),
            freezer: None,
            has_failed: false,
        };
        if let Some(group) = &plan.group {
            groups.name.clone_from(&group.name);
            groups.freezer = group.freezer;
            for place in &group.parents {
                match GroupHierarchy::make_hierarchy(place, group, plan) {
                    Ok(hierarchy) => groups.hierarchies.push(hierarchy),
                    Err(_) if is_optional(place.counts) => {}
                    Err(_) => groups.has_failed = true,
                }
            }
        }
        groups
    }

    /// Forks into new namespaces, and directly into the groups if the kernel can do that.
    pub(super) fn fork_into_groups(&self, fresh: NewNamespaces) -> io::Result<(ForkSide, ForkPlace)> {
        let hierarchy = self.hierarchies.iter().find(|one| one.counts.is_version_two());
        fork_into_group(fresh, hierarchy.map(|hierarchy| &hierarchy.main))
    }

    /// Moves this process, which has a single thread, into the groups, and so all that it starts.
    pub(super) fn enter_groups(&mut self, born: ForkPlace) {
        if self.has_failed {
            return;
        }
        self.hierarchies.retain(|hierarchy| {
            let is_entered = hierarchy.enter_main(born).is_ok();
            self.has_failed |= !is_entered && !is_optional(hierarchy.counts);
            is_entered
        });
    }

    /// Returns whether every group that the sandbox needs was made and entered.
    pub(super) fn are_in_force(&self) -> bool {
        !self.has_failed
    }

    /// Returns the freezer of these groups, if they have one.
    pub(super) fn freezer(&self) -> Option<PauseMethod> {
        let hierarchy = self.hierarchies.iter().find(|one| Some(one.counts) == self.freezer)?;
        Some(if hierarchy.counts.is_version_two() {
            PauseMethod::FreezerTwo
        } else {
            PauseMethod::FreezerOne
        })
    }

    /// Returns whether the groups limit memory.
    pub(super) fn have_memory(&self) -> bool {
        self.are_in_force()
            && self
                .hierarchies
                .iter()
                .any(|one| one.counts.counts_resource(HierarchyCounter::Memory))
    }

    /// Returns the number of processes that the kernel ended for want of memory: of one command if its own group counts
    /// them, otherwise of all commands.
    pub(super) fn kills_of_command(&self, own: Option<&CommandGroup>) -> u64 {
        let counting = |one: &&GroupHierarchy| one.counts.counts_resource(HierarchyCounter::Memory);
        own.and_then(CommandGroup::memory_kills).unwrap_or_else(|| {
            let hierarchy = self.hierarchies.iter().find(counting);
            hierarchy.map_or(0, |hierarchy| memory_kills(&hierarchy.main, hierarchy.counts))
        })
    }

    /// Makes a group for one command if it needs one: because it may use less memory than the sandbox (`most`), because
    /// its time on processors is limited, or because it may be paused.
    pub(super) fn make_command_group(
        &self,
        process: u64,
        limits: &SpawnLimits,
        most: Option<u64>,
        may_pause: bool,
    ) -> Option<CommandGroup> {
        let memory = limits.memory.filter(|memory| most.is_none_or(|most| *memory < most));
        let mut parts = Vec::new();
        for hierarchy in &self.hierarchies {
            let has_memory = memory.is_some() && hierarchy.counts.counts_resource(HierarchyCounter::Memory);
            let has_time = limits.cpu_ms.is_some() && hierarchy.counts.counts_resource(HierarchyCounter::Time);
            let is_freezer = may_pause && Some(hierarchy.counts) == self.freezer;
            if has_memory || has_time || is_freezer {
                let memory = memory.filter(|_| has_memory);
                let made = CommandGroupPart::make_part(hierarchy, format!("command-{process}"), memory);
                parts.extend(made.ok().map(|mut part| {
                    part.is_freezer = is_freezer;
                    part
                }));
            }
        }
        (!parts.is_empty()).then_some(CommandGroup { parts })
    }

    /// Thaws all frozen commands of version 1: a frozen process does not end there.
    pub(super) fn thaw_all(&self) {
        let freezers = self
            .hierarchies
            .iter()
            .filter(|one| one.counts == HierarchyCounter::FreezerOne);
        for hierarchy in freezers {
            for name in groups_below(&hierarchy.group) {
                thaw_version_one(&hierarchy.group, &name);
            }
        }
    }

    /// Removes the groups. No process may run in them any more.
    pub(super) fn remove_groups(&self) {
        for hierarchy in &self.hierarchies {
            remove_group(&hierarchy.parent, &hierarchy.group, self.name.as_bytes());
        }
    }

    /// Removes the groups of sandboxes that were killed together with their keepers.
    pub(super) fn remove_leftovers(&self) {
        for hierarchy in &self.hierarchies {
            let names = groups_below(&hierarchy.parent);
            let others = names
                .iter()
                .filter(|name| name.starts_with(PREFIX.as_bytes()) && name[..] != *self.name.as_bytes());
            for name in others {
                let Ok(group) = open_child(&hierarchy.parent, &name[..]) else {
                    continue;
                };
                // A living sandbox holds a shared lock on its group.
                if rustix::fs::flock(&group, FlockOperation::NonBlockingLockExclusive).is_ok() {
                    remove_group(&hierarchy.parent, &group, name);
                }
            }
        }
    }
}

/// The groups of one command.
#[derive(Debug)]
pub(super) struct CommandGroup {
    parts: Vec<CommandGroupPart>,
}

/// The group of one command in a hierarchy.
#[derive(Debug)]
struct CommandGroupPart {
    counts: HierarchyCounter,
    /// Whether the command is frozen by this group.
    is_freezer: bool,
    /// Whether the group limits memory.
    has_memory: bool,
    group: OwnedFd,
    parent: OwnedFd,
    name: String,
}

impl CommandGroup {
    /// Returns the descriptors that the init of the command must keep open.
    pub(super) fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        self.parts
            .iter()
            .flat_map(|part| [part.group.as_fd(), part.parent.as_fd()])
            .collect()
    }

    /// Forks a process that is in the groups, or can [join](Self::join_groups) them.
    pub(super) fn fork_into_groups(&self) -> io::Result<(ForkSide, ForkPlace)> {
        let part = self.parts.iter().find(|part| part.counts.is_version_two());
        fork_into_group(NewNamespaces::NOTHING, part.map(|part| &part.group))
    }

    /// Moves this process, which has a single thread, into the groups.
    pub(super) fn join_groups(&self, born: ForkPlace) -> Result<(), Errno> {
        let others = self.parts.iter().filter(|part| !was_forked_into(part.counts, born));
        others
            .into_iter()
            .try_for_each(|part| write_file(&part.group, join_file(part.counts), "0"))
    }

    /// Returns whether the command can be frozen.
    pub(super) fn can_freeze(&self) -> bool {
        self.freezer_part().is_some()
    }

    fn freezer_part(&self) -> Option<&CommandGroupPart> {
        self.parts.iter().find(|part| part.is_freezer)
    }

    /// Begins to freeze the command.
    pub(super) fn freeze(&self) -> Result<(), Errno> {
        self.write_freezer("1", "FROZEN")
    }

    /// Returns whether every process of the command is frozen.
    pub(super) fn is_frozen(&self) -> bool {
        let Some(part) = self.freezer_part() else { return false };
        if part.counts.is_version_two() {
            read_file(&part.group, "cgroup.events").is_ok_and(|text| field_value(&text, "frozen") == 1)
        } else {
            read_file(&part.group, "freezer.state").is_ok_and(|text| text.trim() == "FROZEN")
        }
    }

    /// Lets the command continue.
    pub(super) fn thaw(&self) -> Result<(), Errno> {
        self.write_freezer("0", "THAWED")
    }

    fn write_freezer(&self, state_two: &str, state_one: &str) -> Result<(), Errno> {
        let part = self.freezer_part().ok_or(Errno::NOENT)?;
        if part.counts.is_version_two() {
            write_file(&part.group, "cgroup.freeze", state_two)
        } else {
            write_file(&part.group, "freezer.state", state_one)
        }
    }

    /// Ends the frozen processes of the command, under version 1; version 2 ends them without help.
    pub(super) fn end_frozen(&self) {
        // Under version 1 a frozen process does not take even SIGKILL. It takes it first of all when it is thawed, so
        // the signal is sent to all of them before that.
        let Some(part) = self.freezer_part().filter(|part| !part.counts.is_version_two()) else {
            return;
        };
        for pid in read_file(&part.group, "cgroup.procs")
            .unwrap_or_default()
            .split_whitespace()
        {
            if let Ok(pid @ 2..) = pid.parse() {
                let _ = sys::send_signal(pid, libc::SIGKILL);
            }
        }
        let _ = self.thaw();
    }

    /// Returns the number of processes of the command that the kernel ended for want of memory; `None` if they are
    /// counted with all others.
    fn memory_kills(&self) -> Option<u64> {
        let counts_kills = |part: &&CommandGroupPart| part.has_memory || part.counts == HierarchyCounter::All;
        let part = self.parts.iter().find(counts_kills)?;
        Some(memory_kills(&part.group, part.counts))
    }

    /// Returns the time on processors of all processes of the command, ended ones included; `None` if no group counts
    /// it.
    pub(super) fn cpu_ms(&self) -> Option<u64> {
        let part = self
            .parts
            .iter()
            .find(|part| part.counts.counts_resource(HierarchyCounter::Time))?;
        match part.counts {
            HierarchyCounter::All => Some(field_value(&read_file(&part.group, "cpu.stat").ok()?, "usage_usec") / 1000),
            _ => {
                let nanoseconds: u64 = read_file(&part.group, "cpuacct.usage").ok()?.trim().parse().ok()?;
                Some(nanoseconds / 1_000_000)
            }
        }
    }
}

impl CommandGroupPart {
    fn make_part(hierarchy: &GroupHierarchy, name: String, memory: Option<u64>) -> Result<Self, Errno> {
        rustix::fs::mkdirat(&hierarchy.group, &name, Mode::from_raw_mode(0o755))?;
        let part = Self {
            counts: hierarchy.counts,
            is_freezer: false,
            has_memory: memory.is_some(),
            group: open_child(&hierarchy.group, name.as_str())?,
            parent: hierarchy.group.try_clone().map_err(|_| Errno::MFILE)?,
            name,
        };
        if let Some(memory) = memory {
            limit_memory(&part.group, part.counts, memory)?;
        }
        Ok(part)
    }
}

impl Drop for CommandGroupPart {
    fn drop(&mut self) {
        let _ = rustix::fs::unlinkat(&self.parent, self.name.as_str(), AtFlags::REMOVEDIR);
    }
}

impl GroupHierarchy {
    fn make_hierarchy(place: &ParentGroup, group: &ControlGroupPlan, plan: &SandboxPlan) -> Result<Self, Errno> {
        let parent = open_child(rustix::fs::CWD, &place.path)?;
        let made = make_locked_group(&parent, &group.name)?;
        let result = Self::set_up_group(place.counts, &parent, made, group, plan);
        if result.is_err() {
            let _ = rustix::fs::unlinkat(&parent, group.name.as_str(), AtFlags::REMOVEDIR);
        }
        result
    }

    fn set_up_group(
        counts: HierarchyCounter,
        parent: &OwnedFd,
        made: OwnedFd,
        group: &ControlGroupPlan,
        plan: &SandboxPlan,
    ) -> Result<Self, Errno> {
        if counts == HierarchyCounter::All {
            write_file(&made, "cgroup.subtree_control", "+memory +pids")?;
        }
        if let (Some(memory), true) = (group.memory, counts.counts_resource(HierarchyCounter::Memory)) {
            limit_memory(&made, counts, memory)?;
        }
        if let (Some(processes), true) = (group.processes, counts.counts_resource(HierarchyCounter::Processes)) {
            // The supervisor, the init of a command, and a spare init with its waiting process are counted too.
            write_file(&made, "pids.max", &(processes + 4).to_string())?;
        }
        if counts == HierarchyCounter::FreezerTwo {
            // A kernel before 5.2 has no freezer here.
            rustix::fs::accessat(&made, "cgroup.freeze", Access::WRITE_OK, AtFlags::empty())?;
        }
        let main = make_group_below(&made, "main")?;
        if plan.user.is_dedicated {
            give_to(&[&made, &main], plan.user.uid, plan.user.gid)?;
        }
        Ok(Self {
            counts,
            parent: parent.try_clone().map_err(|_| Errno::MFILE)?,
            group: made,
            door: rustix::fs::openat(
                &main,
                join_file(counts),
                OFlags::WRONLY | OFlags::CLOEXEC,
                Mode::empty(),
            )?,
            main,
        })
    }

    /// Moves this process into the hierarchy's group, unless it was forked into it.
    fn enter_main(&self, born: ForkPlace) -> Result<(), Errno> {
        if was_forked_into(self.counts, born) {
            return Ok(());
        }
        rustix::io::write(&self.door, b"0").map(drop)
    }
}

/// Forks into new namespaces, and directly into this group of version 2, if there is one and the kernel can do that.
fn fork_into_group(fresh: NewNamespaces, group: Option<&OwnedFd>) -> io::Result<(ForkSide, ForkPlace)> {
    if let Some(group) = group
        && let Ok(forked) = sys::fork_into_group(fresh, group.as_fd())
    {
        return Ok((forked, ForkPlace::Inside));
    }
    Ok((sys::fork_into(fresh)?, ForkPlace::Outside))
}

/// Returns whether a forked process is in this hierarchy already: the kernel forks into groups of version 2 only.
fn was_forked_into(counts: HierarchyCounter, born: ForkPlace) -> bool {
    born == ForkPlace::Inside && counts.is_version_two()
}

/// Makes a group and locks it.
fn make_locked_group(parent: &OwnedFd, name: &str) -> Result<OwnedFd, Errno> {
    // Between the making and the lock, another sandbox may take the group for a leftover and remove it; so this looks
    // again, and retries.
    for round in 0..TRIES {
        let made = match make_group_below(parent, name) {
            Err(Errno::EXIST | Errno::NOENT) if round > 0 => continue,
            made => made?,
        };
        let is_locked = rustix::fs::flock(&made, FlockOperation::NonBlockingLockShared).is_ok();
        if is_locked && open_child(parent, name).is_ok() {
            return Ok(made);
        }
    }
    Err(Errno::BUSY)
}

/// Removes a group in which no process runs, and the groups below it.
fn remove_group(parent: &OwnedFd, group: &OwnedFd, name: &[u8]) {
    for below in groups_below(group) {
        thaw_version_one(group, &below);
        let _ = rustix::fs::unlinkat(group, &below, AtFlags::REMOVEDIR);
    }
    let _ = rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR);
}

/// Returns the names of the groups directly below a group.
fn groups_below(group: &OwnedFd) -> Vec<Vec<u8>> {
    let mut groups = Vec::new();
    let _ = for_each_name(group, |name, kind| {
        groups.extend((kind == FileType::Directory).then(|| name.to_vec()));
        ControlFlow::Continue(())
    });
    groups
}

/// Thaws the group `name`, if it belongs to the freezer of version 1.
fn thaw_version_one(parent: &OwnedFd, name: &[u8]) {
    if let Ok(group) = open_child(parent, name) {
        let _ = write_file(&group, "freezer.state", "THAWED");
    }
}

/// Sets the limit on memory, swap included if the kernel counts it.
fn limit_memory(group: &OwnedFd, counts: HierarchyCounter, memory: u64) -> Result<(), Errno> {
    let memory = memory.to_string();
    if counts == HierarchyCounter::All {
        write_file(group, "memory.max", &memory)?;
        let _ = write_file(group, "memory.swap.max", "0");
        return Ok(());
    }
    write_file(group, "memory.limit_in_bytes", &memory)?;
    let _ = write_file(group, "memory.memsw.limit_in_bytes", &memory);
    Ok(())
}

fn memory_kills(group: &OwnedFd, counts: HierarchyCounter) -> u64 {
    let name = if counts == HierarchyCounter::All {
        "memory.events"
    } else {
        "memory.oom_control"
    };
    read_file(group, name).map_or(0, |text| field_value(&text, "oom_kill"))
}

/// Lets the user of the commands, which the server runs as, make groups below these and move its own processes there,
/// and nothing else.
fn give_to(groups: &[&OwnedFd], uid: u32, gid: u32) -> Result<(), Errno> {
    let owner = Some(rustix::fs::Uid::from_raw(uid));
    let group_owner = Some(rustix::fs::Gid::from_raw(gid));
    for group in groups {
        rustix::fs::fchown(group, owner, group_owner)?;
        rustix::fs::chownat(group, "cgroup.procs", owner, group_owner, AtFlags::empty())?;
    }
    Ok(())
}

fn make_group_below(parent: &OwnedFd, name: &str) -> Result<OwnedFd, Errno> {
    rustix::fs::mkdirat(parent, name, Mode::from_raw_mode(0o755))?;
    open_child(parent, name)
}

fn write_file(directory: &OwnedFd, name: &str, text: &str) -> Result<(), Errno> {
    let file = rustix::fs::openat(directory, name, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::io::write(&file, text.as_bytes())?;
    Ok(())
}

fn read_file(directory: &OwnedFd, name: &str) -> Result<String, Errno> {
    let file = rustix::fs::openat(directory, name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let (mut text, mut piece) = (Vec::new(), [0; 4096]);
    while let length @ 1.. = rustix::io::read(&file, &mut piece)? {
        text.extend_from_slice(&piece[..length]);
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Returns the number after `name` in a text of lines `name number`.
fn field_value(text: &str, name: &str) -> u64 {
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
        assert_eq!(field_value("low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\n", "oom_kill"), 2);
        assert_eq!(
            field_value("oom_kill_disable 0\nunder_oom 0\noom_kill 7\n", "oom_kill"),
            7
        );
        assert_eq!(field_value("", "oom_kill"), 0);
    }
}
