//! The contract between a workspace and the place where its commands run.
//!
//! A [`Sandbox`] knows how to keep commands in; [`Sandbox::open`] keeps it ready on one bench, a directory that holds the files of the
//! workspace. Commands never write to the bench: each runs on a [`Layer`] over it, and what they did is read from there as data
//! ([`Effects`]) once nothing can move any more. Whether that becomes a change of the workspace is decided above. A sandbox of
//! another program, a container or a virtual machine implements the same three traits; the conformance suite of the testkit shows whether
//! it keeps their promises.

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
    Chunk, Command, Ended, Exit, Finished, InputSource, InputStream, Process, Program, Signal, Stdin, Stream, Usage,
};
pub use effects::{Dropped, Effect, Effects, Mark};
pub use limits::{EffectLimits, EffectTally, Limit, Limits};
pub use masking::{Masker, Secrets};
pub use output::{Captured, Output, OutputCollector};
pub use read_filter::{HiddenPaths, ReadFilter, Visibility};

/// A way to run commands apart from everything else on the machine.
#[async_trait]
pub trait Sandbox: Send + Sync + fmt::Debug {
    /// The kind under which it is configured.
    fn kind(&self) -> &'static str;

    /// Tries on this machine what it can enforce, by really running a process. May be answered from an earlier trial.
    async fn probe(&self) -> Vec<Enforced>;

    /// Makes it ready on a bench. What the request requires and this machine cannot enforce is `unsupported`, and the error says which,
    /// why, and what would help.
    async fn open(&self, request: SandboxRequest) -> Result<Arc<dyn OpenSandbox>>;
}

/// A sandbox that is ready on a bench.
#[async_trait]
pub trait OpenSandbox: Send + Sync + fmt::Debug {
    /// What it enforces, and how.
    fn enforced(&self) -> &[Enforced];

    /// Lays an empty layer over the bench, which others may change at any time. Where the request has a [`ReadFilter`], the layer lies over
    /// what that shows of the bench now: nothing that comes to the bench later appears below it.
    async fn lay(&self) -> Result<Arc<dyn Layer>>;

    /// Lays an empty layer over a bench of which nothing changes as long as `stands` is the same, and which nobody changes before the layer
    /// is lifted. A layer that was removed without anything having been done on it may serve again.
    async fn lay_on(&self, stands: &str) -> Result<Arc<dyn Layer>> {
        let _ = stands;
        self.lay().await
    }

    /// The layers that a process which ended without lifting them left behind, with what is in them; their processes are dead.
    async fn leftovers(&self) -> Result<Vec<Arc<dyn Layer>>>;

    /// Ends every process, lifts every layer and gives everything back. Doing so twice is fine.
    async fn close(&self) -> Result<()>;
}

/// A writable layer over a bench, and the processes on it.
///
/// Promises of every implementation: a process sees the bench with everything that the processes on the layer did; the bench itself does
/// not change; a process never outlives [`Layer::lift`].
#[async_trait]
pub trait Layer: Send + Sync + fmt::Debug {
    /// Its id, unique on the machine.
    fn id(&self) -> &str;

    /// Starts a process on it. A program that is not there, or a directory that is not, is `not_found`.
    async fn start(&self, command: Command) -> Result<Box<dyn Process>>;

    /// The same for the last process on it: once that has ended the layer is lifted, so that [`Layer::lift`] need not be waited for long.
    async fn start_last(&self, command: Command) -> Result<Box<dyn Process>> {
        self.start(command).await
    }

    /// Puts things where the processes on it see them at once; a directory above must be there or be among them.
    async fn place(&self, effects: Vec<Effect>) -> Result<()>;

    /// Has the processes on it see what others did to the bench since it was laid, or since the last time. What of that cannot be seen through
    /// the layer is named, for [`Layer::place`]; of what the layer itself has, nothing is told. Only while it is paused.
    async fn look_below(&self) -> Result<Vec<EntryPath>> {
        Ok(Vec::new())
    }

    /// Stops every process on it where it stands, until [`Layer::resume`]. A command whose processes are not still after one second is ended
    /// with all of them, and what it wrote stays; how many commands were ended comes back.
    async fn pause(&self) -> Result<u64>;

    /// Lets the processes go on.
    async fn resume(&self) -> Result<()>;

    /// What was done on it since `since`, or since it was laid, in the order of paths. Only while it is paused or after it was lifted, so
    /// that nothing moves under the reader. The content can be read until [`Layer::remove`].
    async fn effects(&self, since: Option<&Mark>) -> Result<Effects>;

    /// Ends every process on it and takes it off the bench. Doing so twice is fine.
    async fn lift(&self) -> Result<()>;

    /// Lifts it and forgets what was done on it.
    async fn remove(&self) -> Result<()>;
}

/// What is asked of a sandbox when it is opened.
#[derive(Debug, Clone)]
pub struct SandboxRequest {
    /// The directory that holds the files.
    pub bench: PathBuf,
    /// A private directory on the same file system, for layers; a sandbox makes what it needs below it.
    pub scratch: PathBuf,
    /// What of the bench a command sees; without one, everything.
    pub read_filter: Option<Arc<dyn ReadFilter>>,
    /// Paths that a command may read and not change; the root for all of them.
    pub read_only: Vec<WsPath>,
    /// What of the network a command reaches.
    pub network: Network,
    /// Limits on everything that runs at once in it; a [`Command`] may lower its own.
    pub limits: Limits,
    /// Directories of the machine that a command may read besides the usual ones: toolchains outside `/usr`.
    pub system: Vec<PathBuf>,
    /// What must be enforced, or opening fails.
    pub require: Vec<Guard>,
}

/// What of the network a command reaches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// Nothing, not even the machine itself.
    #[default]
    None,
    /// What the machine reaches.
    Full,
}

/// Something that a sandbox may enforce.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Guard {
    /// Only the workspace and chosen system directories can be seen, and only the workspace and a private `/tmp` be written.
    Files,
    /// Processes outside can be neither seen nor signalled, and none outlives its command.
    Processes,
    /// The network is out of reach unless it is allowed.
    Network,
    /// System calls that a command has no use for are refused.
    SystemCalls,
    /// What a command did is seen without looking through the whole workspace.
    Layers,
    /// The limit on memory holds for all processes of a command together.
    Memory,
    /// The limit on processes holds for a command.
    ProcessCount,
    /// The limit on processor time holds for all processes of a command together.
    CpuTime,
    /// The limit on what is written holds for all files together.
    Written,
}

impl Guard {
    /// All of them.
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

    /// What is required where nothing else is said.
    pub const DEFAULT: [Self; 3] = [Self::Files, Self::Processes, Self::Network];

    /// The word for it.
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

/// Whether a guard holds, and by what means.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Enforced {
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
