//! The sandbox of the Linux kernel.
//!
//! Commands run in namespaces of their own on a root made of read-only system directories, with the workspace at
//! `/workspace`: they lose every right before they begin, a filter refuses system calls that they have no use for, and
//! limits hold for all of their processes. Their writes go to an overlay over the bench. A small program stays inside
//! an open sandbox ([`crate::supervisor`]) and starts commands on request, so that a command costs little more than its
//! own start. Each sandbox is first planned as data ([`plan`]).

pub mod plan;

mod connection;
mod guards;
mod machine;
mod namespace_layer;
mod namespace_process;
mod open_namespace;
mod plain_command_line;
mod prepared_lower;
mod probe;
mod sandbox_ports;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use garret_core::time::{Ids, RandomIds};
use garret_core::{GuardStatus, OpenSandbox, Result, Sandbox, SandboxRequest};

/// The host user that runs commands if Garret is root and the options name no other.
pub const DEDICATED_USER: u32 = 61184;

/// The options of the sandbox `namespace`.
#[derive(Debug, Clone)]
pub struct NamespaceOptions {
    /// The supervisor; `None` looks for `garret-supervisor` beside the running program.
    pub supervisor: Option<SupervisorProgram>,
    /// The host user that runs commands if Garret is root.
    pub uid: u32,
    /// The group of that user.
    pub gid: u32,
    /// The shell for command lines; `None` takes bash if the host has it, and `/bin/sh` otherwise.
    pub shell: Option<String>,
    /// How layers are made.
    pub layers: LayerMode,
    /// How processes are paused.
    pub pauses: PauseMode,
    /// The time within which processes must be stopped when they are paused. Those that are not are ended.
    pub still_within: Duration,
    /// The source of the names of sandboxes.
    pub ids: Arc<dyn Ids>,
}

/// How layers are made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LayerMode {
    /// Overlays if the kernel mounts them, copies otherwise.
    #[default]
    Best,
    /// Copies of the bench, whose cost grows with its size.
    Copies,
}

/// How processes are paused.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PauseMode {
    /// By the freezer of control groups, of version 2 or else 1, if Garret may write one; otherwise by tracing.
    #[default]
    Best,
    /// By the freezer of version 1 if Garret may write one; otherwise by tracing.
    FrozenByVersionOne,
    /// By tracing.
    Traced,
}

impl Default for NamespaceOptions {
    fn default() -> Self {
        Self {
            supervisor: None,
            uid: DEDICATED_USER,
            gid: DEDICATED_USER,
            shell: None,
            layers: LayerMode::Best,
            pauses: PauseMode::Best,
            still_within: Duration::from_secs(1),
            ids: Arc::new(RandomIds),
        }
    }
}

/// A program that runs as the supervisor.
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
    options: NamespaceOptions,
}

impl NamespaceSandbox {
    /// Makes a sandbox with these options.
    pub fn new(options: NamespaceOptions) -> Self {
        Self { options }
    }
}

#[cfg(target_os = "linux")]
#[async_trait]
impl Sandbox for NamespaceSandbox {
    fn kind(&self) -> &'static str {
        "namespace"
    }

    async fn probe(&self) -> Vec<GuardStatus> {
        probe::probe_guards(&self.options).await
    }

    async fn open(&self, request: SandboxRequest) -> Result<Arc<dyn OpenSandbox>> {
        Ok(Arc::new(
            open_namespace::OpenNamespace::open(&self.options, request).await?,
        ))
    }
}

#[cfg(not(target_os = "linux"))]
#[async_trait]
impl Sandbox for NamespaceSandbox {
    fn kind(&self) -> &'static str {
        "namespace"
    }

    async fn probe(&self) -> Vec<GuardStatus> {
        let missing = |guard| GuardStatus {
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
