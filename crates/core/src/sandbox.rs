//! The contract between a workspace and the sandbox in which its commands run.
//!
//! A [`Sandbox`] knows how to confine commands; [`Sandbox::open`] makes it ready on one bench, a directory that holds
//! the files of the workspace. Commands never write to the bench: each runs on a [`Layer`] over it, and its effects are
//! read from there as data ([`Effects`]) once nothing can move any more. The code above decides whether they become a
//! change of the workspace. A sandbox of another program, a container or a virtual machine implements the same three
//! traits; the conformance suite of the testkit shows whether it keeps their promises.

mod command;
mod effects;
mod host_view;
mod limits;
mod masking;
mod mounts;
mod output;
mod read_filter;

use std::collections::BTreeMap;
use std::fmt;
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::{EntryPath, Error, ErrorKind, Result, WsPath};

pub use command::{
    ANSWER_DESCRIPTOR, Chunk, CommandExit, CommandProgram, CommandStdin, CommandTerminal, ExitCause, InputSource,
    InputStream, MARK_DESCRIPTOR, OutputStream, Process, ResourceUsage, SandboxCommand, Signal, TerminalSize,
    no_marks_error, no_terminal_error,
};
pub use effects::{DroppedEntry, Effect, Effects, EffectsMark};
pub use host_view::{HomeUsage, HostView, NoHostView, VisibleParts};
pub use limits::{
    CallOptions, CallTimeLimits, EffectLimits, EffectTally, Limits, ReachedLimit, ResourceLimit, describe_raising,
};
pub use masking::{Masker, Secrets};
pub use mounts::{MountAccess, SandboxMount, check_mount_target};
pub use output::{CapturedStream, CommandOutput, OutputCollector, trim_partial_start};
pub use read_filter::{ReadFilter, Visibility};

/// A way to run commands apart from everything else on the machine.
#[async_trait]
pub trait Sandbox: Send + Sync + fmt::Debug {
    /// The kind under which it is configured.
    fn kind(&self) -> &'static str;

    /// Tests on this machine, by really running a process, which guards it can enforce. The result may be that of an
    /// earlier test.
    async fn probe(&self) -> Vec<GuardStatus>;

    /// Makes the sandbox ready on a bench. A guard that the request requires and this machine cannot enforce is
    /// `unsupported`, and the error names the guard, the reason and the remedy.
    async fn open(&self, request: SandboxRequest) -> Result<Arc<dyn OpenSandbox>>;
}

/// A sandbox that is ready on a bench.
#[async_trait]
pub trait OpenSandbox: Send + Sync + fmt::Debug {
    /// Returns each guard, whether it is enforced, and by which means.
    fn guard_statuses(&self) -> &[GuardStatus];

    /// Returns the variables that a command needs to find programs and its home directory: `PATH`, `HOME` and others.
    fn environment(&self) -> BTreeMap<String, String> {
        base_environment("/tmp", &[])
    }

    /// Returns the path at which every command sees the workspace and starts; `None` if it is another one on each layer.
    fn workspace_path(&self) -> Option<&str> {
        None
    }

    /// Lays an empty layer over the bench, which others may change at any time. If the request has a [`ReadFilter`],
    /// the layer lies over the part of the bench that the filter shows now: nothing that is added to the bench later
    /// appears below it.
    async fn create_layer(&self) -> Result<Arc<dyn Layer>>;

    /// Lays an empty layer over a bench of the given generation: nothing in it changes as long as the generation is
    /// the same, and nobody changes it before the layer is lifted. A layer that was removed unused may be used again.
    async fn create_layer_on(&self, generation: &str) -> Result<Arc<dyn Layer>> {
        let _ = generation;
        self.create_layer().await
    }

    /// Returns the layers, with their effects, that a process left behind because it ended without lifting them; their
    /// processes are dead.
    async fn leftover_layers(&self) -> Result<Vec<Arc<dyn Layer>>>;

    /// Listens on a port of the loopback interface that commands see; 0 is any free port. Commands connect to it, and
    /// the caller accepts, outside. The listener never blocks.
    ///
    /// `unsupported` if the sandbox has no network of its own: its ports are then those of the machine.
    async fn listen_port(&self, port: u16) -> Result<TcpListener> {
        let _ = port;
        Err(shared_network_error())
    }

    /// Connects to a port of the loopback interface that commands see. The connection never blocks. A port on which no
    /// command listens is `unavailable`; a command that does not accept in time is `timeout`.
    ///
    /// `unsupported` if the sandbox has no network of its own: its ports are then those of the machine.
    async fn connect_port(&self, port: u16) -> Result<TcpStream> {
        let _ = port;
        Err(shared_network_error())
    }

    /// Ends every process, lifts every layer and releases everything. A second call is fine.
    async fn close(&self) -> Result<()>;
}

/// Returns the error for a request on the ports of a sandbox that has no network of its own.
pub fn shared_network_error() -> Error {
    Error::new(
        ErrorKind::Unsupported,
        "the commands of this workspace have no network of their own: their ports are those of the machine",
    )
    .hint("connect to the port on this machine directly")
}

/// Returns the variables of every command, for the home directory `home` and programs in `search` beside those of the
/// system. The directories of `search` go before those of the system.
pub fn base_environment(home: &str, search: &[&str]) -> BTreeMap<String, String> {
    let mut directories: Vec<&str> = Vec::new();
    for directory in search.iter().chain(&[SYSTEM_SEARCH]).flat_map(|path| path.split(':')) {
        if !directories.contains(&directory) {
            directories.push(directory);
        }
    }
    let path = directories.join(":");
    [
        ("PATH", path.as_str()),
        ("HOME", home),
        ("TMPDIR", "/tmp"),
        ("USER", "agent"),
        ("LOGNAME", "agent"),
        ("LANG", "C.UTF-8"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into()
}

/// The directories with the programs of the system.
pub const SYSTEM_SEARCH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// A writable layer over a bench, and the processes on it.
///
/// Promises of every implementation: a process sees the bench with the effects of all processes on the layer; the bench
/// itself does not change; a process never outlives [`Layer::lift`].
#[async_trait]
pub trait Layer: Send + Sync + fmt::Debug {
    /// Returns the id of the layer, unique on the machine.
    fn id(&self) -> &str;

    /// Starts a process on the layer. A program or a directory that does not exist is `not_found`.
    async fn start_process(&self, command: SandboxCommand) -> Result<Box<dyn Process>>;

    /// Starts the last process on the layer: the layer is lifted as soon as the process has ended, so that
    /// [`Layer::lift`] then takes little time.
    async fn start_last_process(&self, command: SandboxCommand) -> Result<Box<dyn Process>> {
        self.start_process(command).await
    }

    /// Puts entries on the layer, visible at once to its processes; the directory above each must exist or be among
    /// them.
    async fn place_entries(&self, effects: Vec<Effect>) -> Result<()>;

    /// Makes changes of others to the bench, since the layer was laid or since the last call, visible to the processes
    /// on the layer. Returns the changed paths that cannot be seen through the layer, for [`Layer::place_entries`]; paths that
    /// the layer itself covers are not returned. Only while the layer is paused.
    async fn refresh_bench(&self) -> Result<Vec<EntryPath>> {
        Ok(Vec::new())
    }

    /// Stops every process on the layer, until [`Layer::resume`]. A command whose processes do not stand still after
    /// one second is ended with all of them, and its files stay; returns how many commands were ended.
    async fn pause(&self) -> Result<u64>;

    /// Resumes the processes.
    async fn resume(&self) -> Result<()>;

    /// Returns the effects on the layer since `since`, or since it was laid, in the order of paths. Only while the
    /// layer is paused or after it was lifted, so that nothing moves under the reader. The content can be read until
    /// [`Layer::remove`].
    async fn read_effects(&self, since: Option<&EffectsMark>) -> Result<Effects>;

    /// Ends every process on the layer and takes the layer off the bench. A second call is fine.
    async fn lift(&self) -> Result<()>;

    /// Lifts the layer and deletes its effects.
    async fn remove(&self) -> Result<()>;
}

/// The bench, limits and guards with which a sandbox is opened.
#[derive(Debug, Clone)]
pub struct SandboxRequest {
    /// The directory that holds the files.
    pub bench: PathBuf,
    /// A private directory on the same file system, for layers; a sandbox makes the directories that it needs below it.
    pub scratch: PathBuf,
    /// A filter of the entries of the bench that a command sees; without one, all of them.
    pub read_filter: Option<Arc<dyn ReadFilter>>,
    /// Paths that a command may read and not change; the root for all of them.
    pub read_only: Vec<WsPath>,
    /// The part of the network that a command reaches.
    pub network: Network,
    /// The scope whose commands run in it, by which their requests to the network are told from those of others; empty for
    /// the workspace itself.
    pub scope: String,
    /// Limits on everything that runs at once in it; a [`SandboxCommand`] may lower its own.
    pub limits: Limits,
    /// Parts of the machine that a command sees besides the system. The path of a source has no symbolic link: the
    /// maker of the request resolves and checks it, and a link that appears afterwards is refused.
    pub mounts: Vec<SandboxMount>,
    /// More absolute paths at which a command sees the workspace: those of its directory on the machine. Commands start
    /// at the first one.
    pub host_paths: Vec<PathBuf>,
    /// The home directory of commands, which outlives them; without one, commands get an empty home that ends with the
    /// sandbox.
    pub home: Option<PathBuf>,
    /// Variables of every command: `PATH` goes before the search path of the sandbox.
    pub environment: BTreeMap<String, String>,
    /// The author of commits of Git where neither the repository nor the home names one.
    pub git_author: Option<GitAuthor>,
    /// The guards that must be enforced; otherwise opening fails.
    pub require: Vec<Guard>,
}

impl SandboxRequest {
    /// Makes a request for a sandbox on `bench` with the default limits, no network and no required guard.
    pub fn on_bench(bench: impl Into<PathBuf>, scratch: impl Into<PathBuf>) -> Self {
        Self {
            bench: bench.into(),
            scratch: scratch.into(),
            read_filter: None,
            read_only: Vec::new(),
            network: Network::None,
            scope: String::new(),
            limits: Limits::default(),
            mounts: Vec::new(),
            host_paths: Vec::new(),
            home: None,
            environment: BTreeMap::new(),
            git_author: None,
            require: Vec::new(),
        }
    }
}

/// The author of commits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GitAuthor {
    /// `user.name`.
    #[schemars(example = &"Agent")]
    pub name: String,
    /// `user.email`.
    #[schemars(example = &"agent@example.org")]
    pub email: String,
}

/// The part of the network that a command reaches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// Nothing, not even the machine itself.
    #[default]
    None,
    /// Only the ports of the sandbox on which the program outside listens: hosts by name, through its proxy.
    Named,
    /// Everything that the machine reaches.
    Full,
}

/// A protection that a sandbox may enforce.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Guard {
    /// Only the workspace and chosen system directories can be seen, and only the workspace and a private `/tmp` be
    /// written.
    Files,
    /// Processes outside can be neither seen nor signalled, and none outlives its command.
    Processes,
    /// The network is out of reach unless it is allowed.
    Network,
    /// System calls that a command has no use for are refused.
    SystemCalls,
    /// The effects of a command are found without a scan of the whole workspace.
    Layers,
    /// The limit on memory holds for all processes of a command together.
    Memory,
    /// The limit on processes holds for a command.
    ProcessCount,
    /// The limit on processor time holds for all processes of a command together.
    CpuTime,
    /// The limit on written bytes holds for all files together.
    Written,
}

impl Guard {
    /// All guards.
    pub const ALL: [Self; 9] = [
        Self::Files,
        Self::Processes,
        Self::Network,
        Self::SystemCalls,
        Self::Layers,
        Self::Memory,
        Self::ProcessCount,
        Self::CpuTime,
        Self::Written,
    ];

    /// The guards that are required by default.
    pub const DEFAULT: [Self; 3] = [Self::Files, Self::Processes, Self::Network];

    /// Returns the word for the guard.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Files => "files",
            Self::Processes => "processes",
            Self::Network => "network",
            Self::SystemCalls => "system_calls",
            Self::Layers => "layers",
            Self::Memory => "memory",
            Self::ProcessCount => "process_count",
            Self::CpuTime => "cpu_time",
            Self::Written => "written",
        }
    }
}

/// Whether a guard is enforced, and by which means.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct GuardStatus {
    /// The guard.
    pub guard: Guard,
    /// Whether it is enforced.
    pub is_enforced: bool,
    /// By what: `mount namespace`, `cgroup v1`, `rlimit (each process)`; or why not.
    pub by: String,
    /// How to get it enforced, if it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}
