//! A sandbox that is ready on a bench.

#![cfg(target_os = "linux")]

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use async_trait::async_trait;
use garret_core::{Enforced, Error, ErrorKind, Guard, Layer, Network, OpenSandbox, Result, SandboxRequest};
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags};

use super::connection::Connection;
use super::guards;
use super::layer::{Form, LaidLayer, make_directories};
use super::plan::{SandboxPlan, Wishes, plan};
use super::remove::remove_tree;
use super::{Layers, Options, SupervisorProgram, machine};
use crate::supervisor::protocol::Opened;

/// How the name of a layer begins that is about to be deleted.
const GONE: &str = ".gone-";

/// A sandbox that is ready on a bench.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) shared: Arc<OpenShared>,
    enforced: Vec<Enforced>,
}

/// What the layers of a sandbox need of it.
#[derive(Debug)]
pub(super) struct OpenShared {
    pub(super) connection: Arc<Connection>,
    pub(super) plan: SandboxPlan,
    pub(super) request: SandboxRequest,
    pub(super) layers: OwnedFd,
    pub(super) bench: OwnedFd,
    pub(super) form: Form,
    name: String,
    lock: Arc<OwnedFd>,
    next: AtomicU64,
    living: Mutex<Vec<Weak<LaidLayer>>>,
}

impl Open {
    pub(super) async fn open(options: &Options, request: SandboxRequest) -> Result<Self> {
        let mut required = request.require.clone();
        // A network that is open on purpose, nobody can close.
        required.retain(|guard| *guard != Guard::Network || request.network == Network::None);
        let (shared, opened) = Self::begin(options, request).await?;
        let enforced = guards::enforced(&shared.plan, &opened);
        guards::check(&enforced, &required)?;
        Ok(Self { shared, enforced })
    }

    /// One that nothing was required of.
    pub(super) fn with(shared: Arc<OpenShared>) -> Self {
        Self {
            shared,
            enforced: Vec::new(),
        }
    }

    /// Makes the sandbox, whatever it then enforces.
    pub(super) async fn begin(options: &Options, request: SandboxRequest) -> Result<(Arc<OpenShared>, Opened)> {
        let name = options.ids.next();
        let system = [&options.system[..], &request.system].concat();
        let machine = machine::look(&request.bench, &system)?;
        let wishes = Wishes {
            system: &system,
            uid: options.uid,
            gid: options.gid,
            shell: options.shell.as_deref(),
            name: &name,
            trial: options.layers == Layers::Best,
        };
        let plan = plan(&request, &machine, wishes);
        if !plan.is_writable_down() {
            return Err(Error::invalid("the path of the bench is not text")
                .hint("move the workspace to a directory with a plain name"));
        }
        let (layers, lock) = make_ready(&plan)?;
        let bench = open_directory(&plan.bench)?;
        if let Some(trial) = &plan.trial {
            make_directories(&layers, &bench, &plan.user, trial).map_err(|_| unusable())?;
        }
        let program = program(options)?;
        let (connection, opened) = Connection::open(&program, plan.clone()).await?;
        let opened = match opened {
            Ok(opened) => opened,
            Err(failure) => {
                connection.close().await;
                return Err(guards::not_opened(&failure));
            }
        };
        let form = if opened.overlay_failure.is_some() {
            Form::Copy
        } else {
            Form::Overlay
        };
        if form == Form::Copy && !plan.hidden.is_empty() {
            connection.close().await;
            return Err(cannot_hide());
        }
        let shared = Arc::new(OpenShared {
            connection: Arc::new(connection),
            plan,
            request,
            layers,
            bench,
            form,
            name,
            lock: Arc::new(lock),
            next: AtomicU64::new(1),
            living: Mutex::default(),
        });
        shared.tidy();
        Ok((shared, opened))
    }
}

/// Makes the directories for layers, and takes the lock that says that they have an owner.
fn make_ready(plan: &SandboxPlan) -> Result<(OwnedFd, OwnedFd)> {
    let locks = plan.lock.parent().ok_or_else(unusable)?;
    for directory in [plan.layers.as_path(), locks] {
        make_directory(directory)?;
    }
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let lock = rustix::fs::open(&plan.lock, flags, Mode::RUSR | Mode::WUSR).map_err(|_| unusable())?;
    rustix::fs::flock(&lock, FlockOperation::NonBlockingLockShared).map_err(|_| unusable())?;
    Ok((open_directory(&plan.layers)?, lock))
}

/// The user of the commands passes through it, and can list nothing.
fn make_directory(path: &Path) -> Result<()> {
    match rustix::fs::mkdir(path, Mode::from_raw_mode(0o711)) {
        Ok(()) | Err(rustix::io::Errno::EXIST) => Ok(()),
        Err(rustix::io::Errno::NOENT) => {
            make_directory(path.parent().ok_or_else(unusable)?)?;
            rustix::fs::mkdir(path, Mode::from_raw_mode(0o711)).map_err(|_| unusable())
        }
        Err(_) => Err(unusable()),
    }
}

fn open_directory(path: &Path) -> Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).map_err(|_| unusable())
}

fn cannot_hide() -> Error {
    Error::new(
        ErrorKind::Unsupported,
        "this machine cannot hide paths from commands: the kernel mounts no overlay here",
    )
    .hint("use a kernel of 5.11 or newer and keep the scratch directory on ext4, xfs, btrfs or tmpfs; or hide nothing")
}

pub(super) fn unusable() -> Error {
    Error::new(ErrorKind::Unavailable, "the directories of the sandbox cannot be used")
        .hint("check that Garret may write its home, and that the disk is not full")
}

/// The supervisor that was named, or the one beside the running program.
fn program(options: &Options) -> Result<SupervisorProgram> {
    if let Some(program) = &options.supervisor {
        return Ok(program.clone());
    }
    let missing = || {
        Error::new(ErrorKind::Unsupported, "the supervisor of the sandbox is not installed")
            .hint("install `garret-supervisor` beside the program, or name it in the options of the sandbox")
    };
    let running = std::env::current_exe().map_err(|_| missing())?;
    // Beside it; or one above, where a test runs from a directory of its own.
    let beside = running
        .ancestors()
        .skip(1)
        .take(2)
        .map(|directory| directory.join("garret-supervisor"));
    let path = beside
        .into_iter()
        .find(|path| rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok())
        .ok_or_else(missing)?;
    Ok(SupervisorProgram {
        path,
        arguments: Vec::new(),
    })
}

#[async_trait]
impl OpenSandbox for Open {
    fn enforced(&self) -> &[Enforced] {
        &self.enforced
    }

    async fn lay(&self) -> Result<Arc<dyn Layer>> {
        let number = self.shared.next.fetch_add(1, Ordering::Relaxed);
        let name = format!("{}.{number}", self.shared.name);
        let layer = LaidLayer::lay(&self.shared, name).await?;
        let mut living = self.shared.living();
        living.retain(|layer| layer.strong_count() > 0);
        living.push(Arc::downgrade(&layer));
        Ok(layer)
    }

    async fn leftovers(&self) -> Result<Vec<Arc<dyn Layer>>> {
        let mut found: Vec<Arc<dyn Layer>> = Vec::new();
        for name in self.shared.names()? {
            if let Some(lock) = self.shared.abandoned(&name) {
                found.push(Arc::new(LaidLayer::left(&self.shared, name, lock)));
            }
        }
        Ok(found)
    }

    async fn close(&self) -> Result<()> {
        self.shared.connection.close().await;
        for layer in self.shared.living().iter().filter_map(Weak::upgrade) {
            layer.mark_lifted();
        }
        Ok(())
    }
}

impl OpenShared {
    fn living(&self) -> std::sync::MutexGuard<'_, Vec<Weak<LaidLayer>>> {
        self.living.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The names of all layers, in the order in which they were laid.
    fn names(&self) -> Result<Vec<String>> {
        let entries = rustix::fs::Dir::read_from(&self.layers).map_err(|_| unusable())?;
        let mut names: Vec<String> = entries
            .flatten()
            .filter_map(|entry| entry.file_name().to_str().ok().map(str::to_owned))
            .collect();
        names.retain(|name| name.contains('.') && !name.starts_with('.'));
        names.sort_by_key(|name| {
            let (sandbox, number) = name.split_once('.').unwrap_or((name, ""));
            (sandbox.to_owned(), number.parse::<u64>().unwrap_or(u64::MAX))
        });
        Ok(names)
    }

    /// The lock on a layer's sandbox, if nobody else holds it: neither Garret nor the supervisor that outlived it by a moment.
    fn abandoned(&self, layer: &str) -> Option<Arc<OwnedFd>> {
        let (sandbox, _) = layer.split_once('.')?;
        if sandbox == self.name {
            return None;
        }
        let path = self.plan.lock.with_file_name(sandbox);
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let lock = rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR).ok()?;
        rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).ok()?;
        // Others may look at the other layers of the same sandbox.
        rustix::fs::flock(&lock, FlockOperation::NonBlockingLockShared).ok()?;
        Some(Arc::new(lock))
    }

    /// Takes a layer away at once, and deletes it when there is time.
    pub(super) fn discard(&self, layer: &str) -> Result<()> {
        let gone = format!("{GONE}{layer}");
        rustix::fs::renameat(&self.layers, layer, &self.layers, gone.as_str()).map_err(|_| unusable())?;
        self.delete(gone);
        Ok(())
    }

    /// Deletes in the background. What cannot be deleted now is tried again when the next sandbox opens.
    fn delete(&self, gone: String) {
        let Ok(layers) = self.layers.try_clone() else {
            return;
        };
        let delete = move || {
            let _ = remove_tree(layers.as_fd(), gone.as_bytes());
        };
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(delete)),
            Err(_) => delete(),
        }
    }

    /// Deletes what an earlier sandbox took away and did not delete.
    fn tidy(&self) {
        let Ok(entries) = rustix::fs::Dir::read_from(&self.layers) else {
            return;
        };
        let names = entries
            .flatten()
            .filter_map(|entry| entry.file_name().to_str().ok().map(str::to_owned));
        names
            .filter(|name| name.starts_with(GONE))
            .for_each(|gone| self.delete(gone));
    }

    pub(super) fn lock(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.lock)
    }
}

impl Drop for OpenShared {
    fn drop(&mut self) {
        // The lock stays where layers stay that somebody may want back.
        let prefix = format!("{}.", self.name);
        let is_needed = self
            .names()
            .is_ok_and(|names| names.iter().any(|name| name.starts_with(&prefix)));
        if !is_needed {
            let _ = rustix::fs::unlinkat(rustix::fs::CWD, &self.plan.lock, AtFlags::empty());
        }
    }
}
