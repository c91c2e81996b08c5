//! The contract between a workspace and the sandbox in which its commands run.
//!
//! A [`Sandbox`] knows how to confine commands; [`Sandbox::open`] makes it ready on one bench, a directory that holds
//! the files of the workspace. Commands never write to the bench: each runs on a [`Layer`] over it, and its effects are
//! read from there as data ([`Effects`]) once nothing can move any more. The code above decides whether they become a
//! change of the workspace. A sandbox of another program, a container or a virtual machine implements the same three
//! traits; the conformance suite of the testkit shows whether it keeps their promises.

mod command;
mod effects;
mod limits;
mod masking;
mod output;
mod read_filter;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::{EntryPath, Result, WsPath};

pub use command::{
    Chunk, CommandExit, CommandProgram, CommandStdin, ExitCause, InputSource, InputStream, OutputStream, Process,
    ResourceUsage, SandboxCommand, Signal,
};
pub use effects::{DroppedEntry, Effect, Effects, EffectsMark};
pub use limits::{EffectLimits, EffectTally, Limits, ResourceLimit};
pub use masking::{Masker, Secrets};
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

    /// Ends every process, lifts every layer and releases everything. A second call is fine.
    async fn close(&self) -> Result<()>;
}

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
    /// Limits on everything that runs at once in it; a [`SandboxCommand`] may lower its own.
    pub limits: Limits,
    /// Directories of the machine that a command may read besides the usual ones: toolchains outside `/usr`.
    pub system: Vec<PathBuf>,
    /// The guards that must be enforced; otherwise opening fails.
    pub require: Vec<Guard>,
}

/// The part of the network that a command reaches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// Nothing, not even the machine itself.
    #[default]
    None,
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
