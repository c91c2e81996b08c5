//! The sandbox of the Linux kernel.
//!
//! Commands run in namespaces of their own on a root made of read-only system directories, with the workspace at `/workspace`: they lose
//! every right before they begin, a filter refuses what they have no use for, and limits hold for all of their processes. What they write
//! goes to an overlay over the bench. A small program stays inside an open sandbox ([`crate::supervisor`]) and starts commands on request, so
//! that a command costs little more than its own start. What a sandbox will be is planned as data first ([`plan`]).

pub mod plan;

mod below;
mod connection;
mod guards;
mod layer;
mod machine;
mod open;
mod plain;
mod probe;
mod process;
pub(crate) mod remove;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use garret_core::time::{Ids, RandomIds};
use garret_core::{Enforced, OpenSandbox, Result, Sandbox, SandboxRequest};

/// The host user that commands are where Garret is root and nothing else was said.
pub const DEDICATED_USER: u32 = 61184;

/// How sandboxes are made.
#[derive(Debug, Clone)]
pub struct Options {
    /// The supervisor; `None` looks for `garret-supervisor` beside the running program.
    pub supervisor: Option<SupervisorProgram>,
    /// More directories of the host to show read-only: toolchains outside `/usr`.
    pub system: Vec<PathBuf>,
    /// The host user that commands are where Garret is root.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// The shell for texts; `None` takes bash where it is there, and `/bin/sh` otherwise.
    pub shell: Option<String>,
    /// How layers are made.
    pub layers: Layers,
    /// How processes are paused.
    pub pauses: Pauses,
    /// How long processes have to stand still when they are paused. Those that do not are ended.
    pub still_within: Duration,
    /// Where names of sandboxes come from.
    pub ids: Arc<dyn Ids>,
}

/// How layers are made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Layers {
    /// Overlays where the kernel mounts them, copies otherwise.
    #[default]
    Best,
    /// Copies of the bench, which cost what it weighs.
    Copies,
}

/// How processes are paused.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Pauses {
    /// By the freezer of control groups, of version 2 or else 1, where Garret may write one; otherwise by tracing.
    #[default]
    Best,
    /// By the freezer of version 1 where Garret may write one; otherwise by tracing.
    FrozenByVersionOne,
    /// By tracing.
    Traced,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            supervisor: None,
            system: Vec::new(),
            uid: DEDICATED_USER,
            gid: DEDICATED_USER,
            shell: None,
            layers: Layers::Best,
            pauses: Pauses::Best,
            still_within: Duration::from_secs(1),
            ids: Arc::new(RandomIds),
        }
    }
}

/// A program that is the supervisor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SupervisorProgram {
    /// The program.
    pub path: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
}

/// The sandbox of the Linux kernel. Opening it on another system is `unsupported`.
#[derive(Debug, Clone, Default)]
pub struct NamespaceSandbox {
    options: Options,
}

impl NamespaceSandbox {
    /// A sandbox with these options.
    pub fn new(options: Options) -> Self {
        Self { options }
    }
}

#[cfg(target_os = "linux")]
#[async_trait]
impl Sandbox for NamespaceSandbox {
    fn kind(&self) -> &'static str {
        "namespace"
    }

    async fn probe(&self) -> Vec<Enforced> {
        probe::probe(&self.options).await
    }

    async fn open(&self, request: SandboxRequest) -> Result<Arc<dyn OpenSandbox>> {
        Ok(Arc::new(open::Open::open(&self.options, request).await?))
    }
}

#[cfg(not(target_os = "linux"))]
#[async_trait]
impl Sandbox for NamespaceSandbox {
    fn kind(&self) -> &'static str {
        "namespace"
    }

    async fn probe(&self) -> Vec<Enforced> {
        let missing = |guard| Enforced {
            guard,
            is_enforced: false,
            by: "this system is not Linux".to_owned(),
            remedy: Some("run Garret on Linux, or in a Linux virtual machine".to_owned()),
        };
        garret_core::Guard::ALL.map(missing).into()
    }

    async fn open(&self, _request: SandboxRequest) -> Result<Arc<dyn OpenSandbox>> {
        let message = "the sandbox `namespace` needs the Linux kernel";
        Err(garret_core::Error::new(garret_core::ErrorKind::Unsupported, message)
            .hint("run Garret on Linux, or in a Linux virtual machine"))
    }
}
