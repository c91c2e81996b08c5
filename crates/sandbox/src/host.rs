//! No isolation, for people who ask for it by name.
//!
//! A command runs as the user that Garret runs as, sees the whole machine and reaches the network. It still does not
//! touch the bench: each layer is a copy of it, and the effects are found by comparing the two, at the cost of the
//! whole workspace. Every process of a command ends with it (`minder`), also after a crash of Garret. Limits are those
//! that the kernel keeps for single processes. Nothing of this is a boundary, and [`OpenSandbox::guard_statuses`] says so.
//!
//! Paths hidden by policy are left out of the copy. Read-only paths can be written in the copy; the workspace refuses
//! to commit such effects.

#![allow(
    clippy::disallowed_methods,
    reason = "a sandbox starts programs, looks at the clock and at its own directories"
)]

mod host_layer;
mod host_process;
mod minder;
mod open_host;
mod place_effects;
mod process_tree;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use garret_core::time::{Ids, RandomIds};
use garret_core::{
    Error, ErrorKind, Guard, GuardStatus, MountAccess, OpenSandbox, Result, Sandbox, SandboxMount, SandboxRequest,
};

/// The options of the sandbox `host`.
#[derive(Debug, Clone)]
pub struct HostOptions {
    /// Whether commands may run as root if Garret does.
    pub as_root: bool,
    /// The time within which processes must be stopped when they are paused. Those that are not are ended.
    pub still_within: Duration,
    /// The source of the names of layers.
    pub ids: Arc<dyn Ids>,
}

impl Default for HostOptions {
    fn default() -> Self {
        Self {
            as_root: false,
            still_within: Duration::from_secs(1),
            ids: Arc::new(RandomIds),
        }
    }
}

/// The sandbox without isolation.
#[derive(Debug, Clone, Default)]
pub struct HostSandbox {
    options: HostOptions,
}

impl HostSandbox {
    /// Makes a sandbox with these options.
    pub fn new(options: HostOptions) -> Self {
        Self { options }
    }
}

#[async_trait]
impl Sandbox for HostSandbox {
    fn kind(&self) -> &'static str {
        "host"
    }

    async fn probe(&self) -> Vec<GuardStatus> {
        unenforced_guards()
    }

    async fn open(&self, request: SandboxRequest) -> Result<Arc<dyn OpenSandbox>> {
        let enforced = unenforced_guards();
        check_own_paths(&request)?;
        match enforced.iter().find(|one| request.require.contains(&one.guard)) {
            Some(missing) => Err(unsupported_guard_error(missing)),
            None => self.open_on(request, enforced),
        }
    }
}

impl HostSandbox {
    #[cfg(target_os = "linux")]
    fn open_on(&self, request: SandboxRequest, enforced: Vec<GuardStatus>) -> Result<Arc<dyn OpenSandbox>> {
        if rustix::process::geteuid().is_root() && !self.options.as_root {
            return Err(root_refused_error());
        }
        let open = open_host::OpenHost::new(request, enforced, &self.options)?;
        Ok(Arc::new(open))
    }

    #[cfg(not(target_os = "linux"))]
    fn open_on(&self, _request: SandboxRequest, _enforced: Vec<GuardStatus>) -> Result<Arc<dyn OpenSandbox>> {
        let message =
            "commands run only on Linux: on other systems Garret cannot make sure that all of their processes end";
        Err(Error::new(ErrorKind::Unsupported, message).hint("run Garret on Linux, or in a Linux virtual machine"))
    }
}

/// Refuses a mount that the sandbox cannot make: without isolation, commands see everything at its own path.
fn check_own_paths(request: &SandboxRequest) -> Result<()> {
    let is_moved = |mount: &&SandboxMount| mount.target_path() != mount.source || mount.access == MountAccess::Layer;
    match request.mounts.iter().find(is_moved) {
        None => Ok(()),
        Some(_) => Err(Error::new(
            ErrorKind::Unsupported,
            "the sandbox `host` cannot show a directory at another path or under a layer",
        )
        .hint("use the sandbox `namespace`, or remove the mount")),
    }
}

/// Returns every guard as not enforced, with the access that commands have instead.
fn unenforced_guards() -> Vec<GuardStatus> {
    let told = |guard: Guard| {
        let by = match guard {
            Guard::Files => "commands can read and write everything that the user of Garret can",
            Guard::Processes => {
                "commands see and can signal the processes of the user; their own processes end with them"
            }
            Guard::Network => "commands reach every network that the machine reaches",
            Guard::SystemCalls => "commands can make every system call",
            Guard::Layers => "a full copy of the files is compared with the files",
            Guard::Memory => "rlimit (data of each process)",
            Guard::ProcessCount => "the number of processes is not limited",
            Guard::CpuTime => "rlimit (each process)",
            Guard::Written => "the total of written bytes is not limited",
        };
        GuardStatus {
            guard,
            is_enforced: false,
            by: by.to_owned(),
            remedy: Some("use the sandbox `namespace`".to_owned()),
        }
    };
    Guard::ALL.map(told).into()
}

fn unsupported_guard_error(missing: &GuardStatus) -> Error {
    let guard = missing.guard.as_str();
    let message = format!(
        "the sandbox `host` cannot enforce `{guard}`, which is required: {}",
        missing.by
    );
    Error::new(ErrorKind::Unsupported, message).hint(format!(
        "use the sandbox `namespace`, or remove `{guard}` from `require`"
    ))
}

#[cfg(target_os = "linux")]
fn root_refused_error() -> Error {
    Error::new(
        ErrorKind::Denied,
        "Garret runs as root, and commands on the host would run as root, too",
    )
    .with_rule("host_as_root = false")
    .hint("use the sandbox `namespace`, run Garret as another user, or set `host_as_root = true`")
}
