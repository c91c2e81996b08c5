//! The plan of a sandbox, as data: a pure function of the request and of the features of the machine.
//!
//! The supervisor carries a plan out step by step and decides nothing. So the files that a command can see, and the
//! means that hold its limits, can be read and tested here without a kernel.

mod root_steps;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use garret_core::path::MOUNT_POINT;
use garret_core::{MountAccess, Network, SandboxMount, SandboxRequest, WsPath, base_environment};
use serde::{Deserialize, Serialize};

use root_steps::{GIT_CONFIG, SETTING_FILES, SETTINGS, SYSTEM, memory_bytes, root_steps};

/// The user id of commands inside a sandbox.
pub const INSIDE: u32 = 1000;
/// The home directory of commands, and the one that is used if a mount or the workspace lies in the first.
const HOMES: [&str; 2] = ["/home/agent", "/home/garret-agent"];
/// The directories of the home in which package managers install programs. They come last in the search path, so that
/// a command cannot replace a program of the system for the commands after it.
const HOME_SEARCH: [&str; 3] = [".local/bin", ".cargo/bin", "go/bin"];

/// The plan of a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxPlan {
    /// The part of the network that commands reach.
    pub network: Network,
    /// The user that runs commands.
    pub user: CommandUser,
    /// The steps that make its root, in order.
    pub root: Vec<RootStep>,
    /// The parts of the host that commands see besides the system, in the order in which they are mounted.
    pub mounts: Vec<PlannedMount>,
    /// The home directory of commands.
    pub home: PlannedHome,
    /// The paths at which commands see the workspace, besides `/workspace`.
    pub host_paths: Vec<String>,
    /// The directory that the layers lie over.
    pub bench: PathBuf,
    /// The directory that holds the layers.
    pub layers: PathBuf,
    /// Whether layers are overlays.
    pub overlays: OverlayUse,
    /// The file whose lock shows that the sandbox lives.
    pub lock: PathBuf,
    /// Paths that a command may not change; an empty one is the root.
    pub read_only: Vec<String>,
    /// The control group with the limits on all processes together, if there is one.
    pub group: Option<ControlGroupPlan>,
    /// The time within which paused processes must be stopped before they are ended.
    pub still_within: Duration,
    /// Whether Landlock is used in addition.
    pub has_landlock: bool,
    /// The shell that runs command lines.
    pub shell: String,
    /// The variables that a command needs.
    pub environment: BTreeMap<String, String>,
}

/// Whether layers are overlays.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum OverlayUse {
    /// No: layers are copies.
    Unwanted,
    /// If an overlay can be mounted on a trial: the directory of this name, among those of the layers.
    Tried(String),
    /// Yes: it is known that overlays can be mounted here.
    Known,
}

/// A part of the host that commands see besides the system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedMount {
    /// Its path on the host, without symbolic links.
    pub source: PathBuf,
    /// Its path in the sandbox.
    pub target: String,
    /// Whether it is a file.
    pub is_file: bool,
    /// The access of commands.
    pub access: PlannedAccess,
    /// Its owner on the host, if the owner must be mapped to the user of the commands.
    pub mapped_owner: Option<(u32, u32)>,
}

/// The access of commands to a mount.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum PlannedAccess {
    /// They read it.
    Read,
    /// They read and write it.
    Write,
    /// They write to an overlay, in the directory of this name among those of the layers.
    Overlay(String),
}

/// The home directory of commands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedHome {
    /// Its path in the sandbox.
    pub path: String,
    /// The directory of the host that is mounted there; without one, the home is in memory.
    pub source: Option<PathBuf>,
    /// The most bytes of a home in memory.
    pub memory_bytes: u64,
    /// The most bytes of a home on the host; `None` without a limit.
    pub limit: Option<u64>,
}

/// The user that runs commands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandUser {
    /// The user on the host.
    pub uid: u32,
    /// The group on the host.
    pub gid: u32,
    /// Whether that is another user than Garret's: Garret is root then, and the server becomes this user.
    pub is_dedicated: bool,
    /// The owner of the bench, if the bench must be mapped to the user of the commands.
    pub bench_owner: Option<(u32, u32)>,
}

/// One step in making the root.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum RootStep {
    /// A new directory.
    Directory {
        /// Its path in the sandbox.
        path: String,
        /// Its permission bits.
        mode: u32,
    },
    /// A directory of the host with all below it, read-only.
    Show {
        /// Its path, the same on the host and in the sandbox.
        path: String,
    },
    /// A copy of a file of the host.
    Copy {
        /// Its path, the same on the host and in the sandbox.
        path: String,
    },
    /// A file with a text of the plan.
    Text {
        /// Its path in the sandbox.
        path: String,
        /// Its content.
        text: String,
    },
    /// A symbolic link.
    Link {
        /// Its path in the sandbox.
        path: String,
        /// Its target.
        target: String,
    },
    /// A harmless device.
    Device {
        /// Its name below `/dev`.
        name: String,
    },
    /// An empty directory that commands cannot write. It holds the places of mounts in a writable directory, or hides the
    /// bench in one that is shown.
    Cover {
        /// Its path in the sandbox.
        path: String,
    },
    /// A writable file system in memory.
    Memory {
        /// Its path in the sandbox.
        path: String,
        /// The most bytes that it holds.
        bytes: u64,
    },
}

/// The control group with the limits on all processes together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ControlGroupPlan {
    /// The groups below which it is made, one in each hierarchy.
    pub parents: Vec<ParentGroup>,
    /// The hierarchy that freezes commands, if one can.
    pub freezer: Option<HierarchyCounter>,
    /// The name of the group.
    pub name: String,
    /// The limit of memory, in bytes.
    pub memory: Option<u64>,
    /// The limit of the number of processes and threads.
    pub processes: Option<u64>,
}

/// A control group that Garret may write, in one hierarchy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParentGroup {
    /// The resource that its hierarchy counts.
    pub counts: HierarchyCounter,
    /// Its directory.
    pub path: PathBuf,
}

/// The resource that a hierarchy of control groups counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum HierarchyCounter {
    /// Memory; version 1.
    Memory,
    /// Processes and threads; version 1.
    Processes,
    /// Time on processors; version 1.
    Time,
    /// All of the above: version 2.
    All,
    /// None: version 2 without controllers, which can freeze.
    FreezerTwo,
    /// None: the freezer of version 1.
    FreezerOne,
}

impl HierarchyCounter {
    pub(crate) fn counts_resource(self, one: Self) -> bool {
        self == one || self == Self::All
    }

    pub(crate) fn is_version_two(self) -> bool {
        matches!(self, Self::All | Self::FreezerTwo)
    }
}

/// The features of the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineFeatures {
    /// The user Garret runs as.
    pub uid: u32,
    /// The group of that user.
    pub gid: u32,
    /// The owner of the bench.
    pub bench_owner: (u32, u32),
    /// The control groups that Garret may write, one in each hierarchy; empty if it may write none.
    pub groups: Vec<ParentGroup>,
    /// The hierarchy that freezes commands, if one can.
    pub freezer: Option<HierarchyCounter>,
    /// Whether the kernel has Landlock.
    pub has_landlock: bool,
    /// The wanted system paths that exist, with their kinds.
    pub present: BTreeMap<String, HostPathKind>,
    /// The sources of the requested mounts, in the order of the request.
    pub sources: Vec<MountSource>,
}

/// The source of a mount, as it is on the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountSource {
    /// Its path, without symbolic links.
    pub path: PathBuf,
    /// Whether it is a file.
    pub is_file: bool,
    /// Its owner.
    pub owner: (u32, u32),
}

/// The kind of an existing path of the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostPathKind {
    /// A directory.
    Directory,
    /// A file.
    File,
    /// A symbolic link to this target.
    Link(String),
}

/// The options that go into a plan.
#[derive(Debug, Clone)]
pub struct PlanOptions<'a> {
    /// The host user that runs commands if Garret is root.
    pub uid: u32,
    /// The group of that user.
    pub gid: u32,
    /// The shell; `None` for the best one of the machine.
    pub shell: Option<&'a str>,
    /// The name of this sandbox, unique on the machine.
    pub name: &'a str,
    /// The time within which paused processes must be stopped before they are ended.
    pub still_within: Duration,
    /// Whether layers are to be overlays.
    pub overlays: OverlayUse,
}

/// Returns the paths of the host whose kinds a plan depends on.
pub fn wanted_paths() -> Vec<String> {
    let shells = ["/bin/bash", "/usr/bin/bash"];
    SYSTEM
        .iter()
        .chain(&SETTINGS)
        .chain(&SETTING_FILES)
        .chain(&shells)
        .chain(&["/etc/resolv.conf"])
        .copied()
        .map(str::to_owned)
        .collect()
}

/// Plans a sandbox.
pub fn plan_sandbox(request: &SandboxRequest, machine: &MachineFeatures, wishes: &PlanOptions<'_>) -> SandboxPlan {
    let user = command_user(machine, wishes);
    let home = plan_home(request);
    let host_paths = request.host_paths.iter().filter_map(|path| path.to_str());
    SandboxPlan {
        network: request.network,
        root: root_steps(request, machine, &home),
        mounts: plan_mounts(request, machine, &user, wishes.name),
        host_paths: host_paths.map(str::to_owned).collect(),
        bench: request.bench.clone(),
        layers: layers_directory(&request.scratch),
        overlays: wishes.overlays.clone(),
        still_within: wishes.still_within,
        lock: locks_directory(&request.scratch).join(wishes.name),
        read_only: path_texts(&request.read_only),
        group: group_plan(request, machine, wishes),
        has_landlock: machine.has_landlock,
        shell: choose_shell(machine, wishes),
        environment: sandbox_environment(request, &home.path),
        user,
        home,
    }
}

/// Returns the directory that holds the layers.
pub(crate) fn layers_directory(scratch: &Path) -> PathBuf {
    scratch.join("layers")
}

/// Returns the directory of the locks that show which sandboxes live.
pub(crate) fn locks_directory(scratch: &Path) -> PathBuf {
    scratch.join("locks")
}

/// Returns the variables that a command needs.
fn sandbox_environment(request: &SandboxRequest, home: &str) -> BTreeMap<String, String> {
    // Programs of mounts go before those of the system, as in the search path of their user.
    let mounted = request.environment.get("PATH").map(String::as_str);
    let mut environment = base_environment(home, mounted.as_slice());
    let more = request.environment.iter().filter(|(name, _)| *name != "PATH");
    environment.extend(more.map(|(name, value)| (name.clone(), value.clone())));
    if request.git_author.is_some() {
        // A Git outside `/usr` looks for this file elsewhere.
        environment.insert("GIT_CONFIG_SYSTEM".to_owned(), GIT_CONFIG.to_owned());
    }
    if let Some(path) = environment.get_mut("PATH") {
        HOME_SEARCH
            .iter()
            .for_each(|directory| path.push_str(&format!(":{home}/{directory}")));
    }
    environment
}

/// Plans the home: its path is not among the mounts, so that nothing in it can change where a mount lies.
fn plan_home(request: &SandboxRequest) -> PlannedHome {
    let others: Vec<&Path> = request
        .mounts
        .iter()
        .map(SandboxMount::target_path)
        .chain(request.host_paths.iter().map(PathBuf::as_path))
        .collect();
    let is_apart = |home: &&str| {
        !others
            .iter()
            .any(|other| other.starts_with(home) || Path::new(home).starts_with(other))
    };
    PlannedHome {
        path: HOMES.into_iter().find(is_apart).unwrap_or("/tmp/home").to_owned(),
        source: request.home.clone(),
        memory_bytes: memory_bytes(&request.limits, 8),
        limit: request.limits.home.filter(|_| request.home.is_some()),
    }
}

fn plan_mounts(
    request: &SandboxRequest,
    machine: &MachineFeatures,
    user: &CommandUser,
    sandbox: &str,
) -> Vec<PlannedMount> {
    let plan_mount = |(at, (mount, source)): (usize, (&SandboxMount, &MountSource))| PlannedMount {
        source: source.path.clone(),
        target: mount.target_path().to_string_lossy().into_owned(),
        is_file: source.is_file,
        access: match mount.access {
            MountAccess::Read => PlannedAccess::Read,
            MountAccess::Write => PlannedAccess::Write,
            MountAccess::Layer => PlannedAccess::Overlay(format!("{MOUNT_LAYER}{at}-{sandbox}")),
        },
        mapped_owner: (mount.access != MountAccess::Read && user.is_dedicated && source.owner.0 != user.uid)
            .then_some(source.owner),
    };
    let mut mounts: Vec<_> = request
        .mounts
        .iter()
        .zip(&machine.sources)
        .enumerate()
        .map(plan_mount)
        .collect();
    // A mount that lies in another one must be mounted after it.
    mounts.sort_by_key(|mount| mount.target.matches('/').count());
    mounts
}

/// The prefix of the name of a directory with the writes to a mount.
pub(crate) const MOUNT_LAYER: &str = ".mount-";

fn path_texts(paths: &[WsPath]) -> Vec<String> {
    paths.iter().map(|path| path.as_str().to_owned()).collect()
}

fn command_user(machine: &MachineFeatures, wishes: &PlanOptions<'_>) -> CommandUser {
    let is_dedicated = machine.uid == 0;
    let (uid, gid) = if is_dedicated {
        (wishes.uid, wishes.gid)
    } else {
        (machine.uid, machine.gid)
    };
    let bench_owner = (is_dedicated && machine.bench_owner.0 != uid).then_some(machine.bench_owner);
    CommandUser {
        uid,
        gid,
        is_dedicated,
        bench_owner,
    }
}

fn group_plan(
    request: &SandboxRequest,
    machine: &MachineFeatures,
    wishes: &PlanOptions<'_>,
) -> Option<ControlGroupPlan> {
    (!machine.groups.is_empty()).then(|| ControlGroupPlan {
        parents: machine.groups.clone(),
        freezer: machine.freezer,
        name: format!("garret-{}", wishes.name),
        memory: request.limits.memory,
        processes: request.limits.processes,
    })
}

fn choose_shell(machine: &MachineFeatures, wishes: &PlanOptions<'_>) -> String {
    let best = || {
        let has_bash = ["/bin/bash", "/usr/bin/bash"]
            .into_iter()
            .find(|path| machine.present.contains_key(*path));
        has_bash.unwrap_or("/bin/sh").to_owned()
    };
    wishes.shell.map_or_else(best, str::to_owned)
}

impl SandboxPlan {
    /// Returns the path at which commands start: that of the host if the workspace is mounted there.
    pub fn start_path(&self) -> &str {
        self.host_paths.first().map_or(MOUNT_POINT, String::as_str)
    }

    /// Returns the paths, besides those in memory, at which commands may write.
    pub fn writable_paths(&self) -> Vec<String> {
        let is_written = |mount: &&PlannedMount| mount.access != PlannedAccess::Read;
        let mounts = self.mounts.iter().filter(is_written).map(|mount| &mount.target);
        let workspace = self.host_paths.iter().cloned().chain([MOUNT_POINT.to_owned()]);
        mounts.chain([&self.home.path]).cloned().chain(workspace).collect()
    }

    /// Returns whether every path in the plan is UTF-8, because a message to the supervisor is JSON.
    pub fn is_utf8(&self) -> bool {
        let parents = self.group.iter().flat_map(|group| &group.parents);
        let mounts = self.mounts.iter().map(|mount| mount.source.as_path());
        [&*self.bench, &*self.layers, &*self.lock]
            .into_iter()
            .chain(mounts)
            .chain(self.home.source.as_deref())
            .chain(parents.map(|parent| parent.path.as_path()))
            .all(|path| path.to_str().is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::root_steps::{MEMORY_FILES, git_config_step, link_step, memory_files};
    use super::*;
    use garret_core::{GitAuthor, Guard, Limits};

    fn request() -> SandboxRequest {
        SandboxRequest {
            read_only: vec![WsPath::parse("docs").unwrap()],
            require: Guard::DEFAULT.to_vec(),
            ..SandboxRequest::on_bench("/home/someone/project", "/home/someone/scratch")
        }
    }

    fn machine(uid: u32) -> MachineFeatures {
        let present = [
            ("/usr", HostPathKind::Directory),
            ("/bin", HostPathKind::Link("usr/bin".to_owned())),
            ("/lib64", HostPathKind::Directory),
            ("/bin/bash", HostPathKind::File),
            ("/etc/ld.so.cache", HostPathKind::File),
            ("/etc/resolv.conf", HostPathKind::File),
        ];
        MachineFeatures {
            uid,
            gid: uid,
            bench_owner: (1001, 1001),
            groups: Vec::new(),
            freezer: None,
            has_landlock: true,
            present: present.map(|(path, kind)| (path.to_owned(), kind)).into(),
            sources: Vec::new(),
        }
    }

    fn wishes() -> PlanOptions<'static> {
        PlanOptions {
            uid: 61184,
            gid: 61184,
            shell: None,
            name: "s1",
            still_within: Duration::from_secs(1),
            overlays: OverlayUse::Known,
        }
    }

    fn planned(uid: u32) -> SandboxPlan {
        plan_sandbox(&request(), &machine(uid), &wishes())
    }

    #[test]
    fn a_bench_in_a_directory_of_the_system_is_covered() {
        let covered = |bench: &str| {
            let request = SandboxRequest::on_bench(bench, "/home/someone/scratch");
            let root = plan_sandbox(&request, &machine(0), &wishes()).root;
            root.contains(&RootStep::Cover { path: bench.to_owned() })
        };
        for bench in ["/usr/src/project", "/usr/local/project/sub", "/lib64/x"] {
            assert!(covered(bench), "{bench}");
        }
        // Without their programs, nothing runs; the others are not shown anyway.
        for bench in ["/usr", "/usr/bin", "/usr/lib64", "/home/someone/project", "/usrlocal"] {
            assert!(!covered(bench), "{bench}");
        }
    }

    #[test]
    fn only_chosen_directories_of_the_host_are_shown() {
        let shown: Vec<_> = planned(1001)
            .root
            .into_iter()
            .filter_map(|step| match step {
                RootStep::Show { path } | RootStep::Copy { path } => Some(path),
                _ => None,
            })
            .collect();
        assert_eq!(shown, ["/usr", "/lib64", "/etc/ld.so.cache"]);
    }

    #[test]
    fn a_link_of_the_host_stays_a_link() {
        assert!(planned(1001).root.contains(&link_step("/bin", "usr/bin")));
    }

    fn planned_with(uid: u32, mounts: &[&str], host_paths: &[&str]) -> SandboxPlan {
        let source = |mount: &SandboxMount| MountSource {
            path: mount.source.clone(),
            is_file: false,
            owner: (1001, 1001),
        };
        let mounts: Vec<_> = mounts.iter().map(|text| SandboxMount::parse(text).unwrap()).collect();
        let machine = MachineFeatures {
            sources: mounts.iter().map(source).collect(),
            ..machine(uid)
        };
        let request = SandboxRequest {
            mounts,
            host_paths: host_paths.iter().map(PathBuf::from).collect(),
            ..request()
        };
        plan_sandbox(&request, &machine, &wishes())
    }

    #[test]
    fn each_mount_has_its_access_and_only_written_ones_have_a_mapped_owner() {
        let plan = planned_with(0, &["/a/b", "/c:/d:write", "/e:layer"], &[]);
        let mounts: Vec<_> = plan
            .mounts
            .iter()
            .map(|mount| (mount.target.as_str(), &mount.access, mount.mapped_owner))
            .collect();
        let overlay = PlannedAccess::Overlay(".mount-2-s1".to_owned());
        assert_eq!(
            mounts,
            [
                ("/d", &PlannedAccess::Write, Some((1001, 1001))),
                ("/e", &overlay, Some((1001, 1001))),
                ("/a/b", &PlannedAccess::Read, None),
            ]
        );
        let writable = plan.writable_paths();
        assert_eq!(writable, ["/d", "/e", "/home/agent", "/workspace"]);
        assert_eq!(planned_with(1001, &["/c:write"], &[]).mounts[0].mapped_owner, None);
    }

    #[test]
    fn places_below_a_directory_in_memory_are_covered() {
        let plan = planned_with(1001, &["/data", "/tmp/x/tools"], &["/tmp/y/project"]);
        let covers: Vec<_> = plan
            .root
            .iter()
            .filter_map(|step| match step {
                RootStep::Cover { path } => Some(path.as_str()),
                _ => None,
            })
            .collect();
        assert_eq!(covers, ["/tmp/x", "/tmp/y"]);
    }

    #[test]
    fn commands_start_at_the_path_of_the_host_if_there_is_one() {
        assert_eq!(planned(1001).start_path(), "/workspace");
        let plan = planned_with(1001, &[], &["/home/someone/project"]);
        assert_eq!(plan.start_path(), "/home/someone/project");
    }

    #[test]
    fn the_home_lies_apart_from_every_mount() {
        let home = |mounts: &[&str], host: &[&str]| planned_with(1001, mounts, host).home.path;
        assert_eq!(home(&[], &[]), "/home/agent");
        assert_eq!(home(&["/home/agent/tools"], &[]), "/home/garret-agent");
        assert_eq!(home(&[], &["/home/agent/project"]), "/home/garret-agent");
    }

    #[test]
    fn home_and_passwd_agree() {
        let plan = planned_with(1001, &["/home/agent/x"], &[]);
        let passwd = plan.root.iter().find_map(|step| match step {
            RootStep::Text { path, text } if path == "/etc/passwd" => Some(text.as_str()),
            _ => None,
        });
        assert!(passwd.unwrap().contains(&format!(":{}:", plan.environment["HOME"])));
    }

    #[test]
    fn the_author_of_commits_is_written_as_text_and_nothing_else() {
        let author = GitAuthor {
            name: "A \"B\"\n[core] \\".to_owned(),
            email: "a@example.org".to_owned(),
        };
        let step = git_config_step(&author);
        let text = "[user]\n\tname = \"A \\\"B\\\"[core] \\\\\"\n\temail = \"a@example.org\"\n".to_owned();
        let path = "/etc/gitconfig".to_owned();
        assert_eq!(step, RootStep::Text { path, text });
    }

    #[test]
    fn a_root_that_may_not_be_changed_stays_in_the_plan() {
        let request = SandboxRequest {
            read_only: vec![WsPath::root()],
            ..request()
        };
        assert_eq!(plan_sandbox(&request, &machine(1001), &wishes()).read_only, [""]);
    }

    #[test]
    fn names_are_resolved_only_where_the_network_is_allowed() {
        let resolver = RootStep::Copy {
            path: "/etc/resolv.conf".to_owned(),
        };
        assert!(!planned(1001).root.contains(&resolver));
        let open = SandboxRequest {
            network: Network::Full,
            ..request()
        };
        let plan = plan_sandbox(&open, &machine(1001), &wishes());
        assert!(plan.root.contains(&resolver));
        assert_eq!(plan.network, Network::Full);
    }

    #[test]
    fn root_becomes_a_dedicated_user_and_shows_the_bench_as_its_own() {
        let user = planned(0).user;
        assert_eq!(
            (user.uid, user.is_dedicated, user.bench_owner),
            (61184, true, Some((1001, 1001)))
        );
        let user = planned(1001).user;
        assert_eq!((user.uid, user.is_dedicated, user.bench_owner), (1001, false, None));
    }

    #[test]
    fn files_in_memory_leave_a_part_of_the_memory_and_hold_no_more_than_may_be_written() {
        let sizes = |limits: &Limits| {
            memory_files(limits).map(|step| match step {
                RootStep::Memory { bytes, .. } => bytes,
                other => panic!("{other:?} is not in memory"),
            })
        };
        let defaults = Limits::default();
        let memory = defaults.memory.unwrap();
        assert_eq!(sizes(&defaults), [memory / 2, memory / 8]);
        let written = Some(1 << 20);
        assert_eq!(
            sizes(&Limits {
                written,
                ..defaults.clone()
            }),
            [1 << 20, 1 << 20]
        );
        let memory = None;
        assert_eq!(sizes(&Limits { memory, ..defaults }), [MEMORY_FILES, MEMORY_FILES]);
    }

    #[test]
    fn the_environment_names_nothing_of_the_host() {
        let environment = planned(0).environment;
        assert_eq!(environment["HOME"], "/home/agent");
        assert!(!format!("{environment:?}").contains("someone"));
    }

    #[test]
    fn limits_on_everything_together_go_to_a_group_where_there_is_one() {
        assert_eq!(planned(0).group, None);
        let parents = vec![ParentGroup {
            counts: HierarchyCounter::All,
            path: "/sys/fs/cgroup/x".into(),
        }];
        let machine = MachineFeatures {
            groups: parents.clone(),
            ..machine(0)
        };
        let group = plan_sandbox(&request(), &machine, &wishes()).group.unwrap();
        assert_eq!((group.parents, group.name.as_str()), (parents, "garret-s1"));
        assert_eq!(group.processes, Limits::default().processes);
    }
}
