//! The sandbox `namespace`, opened on a bench.

#![cfg(target_os = "linux")]

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use async_trait::async_trait;
use garret_core::{Enforced, Error, ErrorKind, Guard, Layer, Network, OpenSandbox, Result, SandboxRequest};
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use rustix::process::Pid;

use super::connection::Connection;
use super::guards;
use super::layer::{Form, LaidLayer, make_directories};
use super::plan::{self, Overlays, SandboxPlan, Wishes, plan};
use super::remove::remove_tree_in_pieces;
use super::{Layers, Options, SupervisorProgram, machine};
use crate::supervisor::protocol::Ask;
use crate::supervisor::protocol::Opened;

/// The prefix of the name of a layer that is about to be deleted.
const GONE: &str = ".gone-";
/// The prefix of the name of a directory on which a sandbox tries an overlay while it opens.
const TRIAL: &str = ".trial-";

/// The number of checks whether a supervisor has ended after its Garret has, and the time between them: ten seconds at
/// most.
const LOOKS: u32 = 2_000;
const BETWEEN_LOOKS: Duration = Duration::from_millis(5);

/// The combinations on which an overlay was mounted with success: the file systems of the layers and of the bench, and
/// the user.
static KNOWN: Mutex<Vec<(u64, u64, u32)>> = Mutex::new(Vec::new());

/// The sandbox `namespace`, opened on a bench.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) shared: Arc<OpenShared>,
    enforced: Vec<Enforced>,
}

/// The parts of an open sandbox that its layers share.
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
    kept: Mutex<Option<Kept>>,
}

/// A mounted layer without changes, kept for the next command.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) layer: String,
    /// The state of the bench when the layer was mounted. If the bench is in another state, the layer is not used
    /// again.
    pub(super) stands: String,
}

impl Open {
    pub(super) async fn open(options: &Options, request: SandboxRequest) -> Result<Self> {
        let mut required = request.require.clone();
        // With a network that the request allows, the guard cannot hold and is not required.
        required.retain(|guard| *guard != Guard::Network || request.network == Network::None);
        let (shared, opened) = Self::begin(options, request).await?;
        let enforced = guards::enforced(&shared.plan, &opened);
        guards::check(&enforced, &required)?;
        Ok(Self { shared, enforced })
    }

    /// Makes an open sandbox without a list of guards, for the probe.
    pub(super) fn with(shared: Arc<OpenShared>) -> Self {
        Self {
            shared,
            enforced: Vec::new(),
        }
    }

    /// Makes the sandbox, without a check of the guards that it enforces.
    pub(super) async fn begin(options: &Options, request: SandboxRequest) -> Result<(Arc<OpenShared>, Opened)> {
        let name = options.ids.next();
        let system = [&options.system[..], &request.system].concat();
        let machine = machine::look(&request.bench, &system, options.pauses)?;
        let (layers, lock) = make_ready(&request.scratch, &name)?;
        let bench = open_directory(&request.bench)?;
        let place = (device(&layers)?, device(&bench)?, machine.uid);
        let overlays = match options.layers {
            Layers::Copies => Overlays::Unwanted,
            Layers::Best if known().contains(&place) => Overlays::Known,
            Layers::Best => Overlays::Tried(format!("{TRIAL}{name}")),
        };
        let wishes = Wishes {
            system: &system,
            uid: options.uid,
            gid: options.gid,
            shell: options.shell.as_deref(),
            name: &name,
            still_within: options.still_within,
            overlays,
        };
        let plan = plan(&request, &machine, &wishes);
        if !plan.is_writable_down() {
            return Err(Error::invalid("the path of the directory for commands is not UTF-8")
                .hint("move the workspace to a directory with a plain name"));
        }
        if let Overlays::Tried(trial) = &plan.overlays {
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
            kept: Mutex::default(),
        });
        if let Overlays::Tried(trial) = &shared.plan.overlays {
            shared.delete(trial.clone());
            known().extend((form == Form::Overlay).then_some(place));
        }
        shared.tidy();
        Ok((shared, opened))
    }
}

/// Makes the directories for layers, and takes the lock that shows that they have an owner.
fn make_ready(scratch: &Path, name: &str) -> Result<(OwnedFd, OwnedFd)> {
    let (layers, locks) = (plan::layers(scratch), plan::locks(scratch));
    for directory in [&layers, &locks] {
        make_directory(directory)?;
    }
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let lock = rustix::fs::open(locks.join(name), flags, Mode::RUSR | Mode::WUSR).map_err(|_| unusable())?;
    rustix::fs::flock(&lock, FlockOperation::NonBlockingLockShared).map_err(|_| unusable())?;
    let owner = rustix::process::getpid().as_raw_nonzero().get();
    rustix::io::write(&lock, &owner.to_le_bytes()).map_err(|_| unusable())?;
    Ok((open_directory(&layers)?, lock))
}

fn known() -> MutexGuard<'static, Vec<(u64, u64, u32)>> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn device(directory: &OwnedFd) -> Result<u64> {
    Ok(rustix::fs::fstat(directory).map_err(|_| unusable())?.st_dev)
}

/// Makes a directory, with those above it, that the user of the commands can pass through but not list.
pub(super) fn make_directory(path: &Path) -> Result<()> {
    match rustix::fs::mkdir(path, Mode::from_raw_mode(0o711)) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(Errno::NOENT) => {
            make_directory(path.parent().ok_or_else(unusable)?)?;
            rustix::fs::mkdir(path, Mode::from_raw_mode(0o711)).map_err(|_| unusable())
        }
        Err(_) => Err(unusable()),
    }
}

pub(super) fn open_directory(path: &Path) -> Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).map_err(|_| unusable())
}

pub(super) fn unusable() -> Error {
    Error::new(ErrorKind::Unavailable, "the directories of the sandbox cannot be used")
        .hint("check that Garret may write its home, and that the disk is not full")
}

/// Returns the supervisor that the options name, or the one beside the running program.
fn program(options: &Options) -> Result<SupervisorProgram> {
    if let Some(program) = &options.supervisor {
        return Ok(program.clone());
    }
    let missing = || {
        Error::new(ErrorKind::Unsupported, "the supervisor of the sandbox is not installed")
            .hint("install `garret-supervisor` beside the program, or name it in the options of the sandbox")
    };
    let running = std::env::current_exe().map_err(|_| missing())?;
    // Also one directory above: Cargo puts test programs into a directory below that of the others.
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
        let layer = LaidLayer::lay(&self.shared, self.shared.new_name(), None).await?;
        Ok(self.shared.living_with(layer))
    }

    async fn lay_on(&self, stands: &str) -> Result<Arc<dyn Layer>> {
        let layer = match self.shared.take_kept(stands).await {
            Some(kept) => LaidLayer::again(&self.shared, kept),
            None => LaidLayer::lay(&self.shared, self.shared.new_name(), Some(stands)).await?,
        };
        Ok(self.shared.living_with(layer))
    }

    async fn leftovers(&self) -> Result<Vec<Arc<dyn Layer>>> {
        let mut found: Vec<Arc<dyn Layer>> = Vec::new();
        for name in self.shared.names()? {
            let Some((sandbox, _)) = name.split_once('.') else {
                continue;
            };
            let Some(lock) = self.shared.abandoned_by_now(sandbox).await else {
                continue;
            };
            let layer = LaidLayer::left(&self.shared, name.clone(), lock);
            if layer.is_empty() {
                // A layer that was kept for the next command, or mounted for one that wrote nothing: there is nothing
                // to recover.
                drop(self.shared.discard(&name));
            } else {
                found.push(Arc::new(layer));
            }
        }
        Ok(found)
    }

    async fn close(&self) -> Result<()> {
        self.shared.connection.close().await;
        for layer in self.shared.living().iter().filter_map(Weak::upgrade) {
            layer.mark_lifted();
        }
        self.shared.discard_kept();
        Ok(())
    }
}

impl OpenShared {
    fn living(&self) -> MutexGuard<'_, Vec<Weak<LaidLayer>>> {
        self.living.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn new_name(&self) -> String {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        format!("{}.{number}", self.name)
    }

    fn living_with(&self, layer: LaidLayer) -> Arc<LaidLayer> {
        let layer = Arc::new(layer);
        let mut living = self.living();
        living.retain(|layer| layer.strong_count() > 0);
        living.push(Arc::downgrade(&layer));
        layer
    }

    fn kept(&self) -> MutexGuard<'_, Option<Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a layer without changes for the next command.
    pub(super) async fn keep(self: &Arc<Self>, layer: &str, stands: &str) {
        let kept = Kept {
            layer: layer.to_owned(),
            stands: stands.to_owned(),
        };
        let before = self.kept().replace(kept);
        if let Some(before) = before {
            self.put_away(before).await;
        }
    }

    /// Returns the kept layer, if the bench is in the state that it was mounted over.
    async fn take_kept(self: &Arc<Self>, stands: &str) -> Option<Kept> {
        let kept = self.kept().take()?;
        if kept.stands == stands && !self.connection.is_over() {
            return Some(kept);
        }
        self.put_away(kept).await;
        None
    }

    /// Unmounts and deletes a kept layer in the background.
    async fn put_away(self: &Arc<Self>, kept: Kept) {
        let (shared, layer) = (Arc::clone(self), kept.layer.clone());
        let asked = self.connection.ask(|request| Ask::Lift { request, layer });
        let put_away = async move {
            if let Ok((_, reply)) = asked {
                // If the sandbox has ended, its mounts have ended with it.
                let _ = reply.await;
            }
            // A layer that cannot be removed now is removed when the next sandbox opens.
            let _ = shared.discard(&kept.layer);
        };
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn(put_away)),
            Err(_) => put_away.await,
        }
    }

    fn discard_kept(&self) {
        let kept = self.kept().take();
        if let Some(kept) = kept {
            let _ = self.discard(&kept.layer);
        }
    }

    /// Returns the names of all layers, in the order in which they were made.
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

    /// Takes the lock of another sandbox, if neither its Garret nor its supervisor, which outlives Garret by a moment,
    /// holds it.
    fn abandoned(&self, sandbox: &str) -> Option<Arc<OwnedFd>> {
        if sandbox == self.name {
            return None;
        }
        let path = self.plan.lock.with_file_name(sandbox);
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let lock = rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR).ok()?;
        rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).ok()?;
        // A shared lock is enough from now on, and lets other processes recover other layers of the same sandbox.
        rustix::fs::flock(&lock, FlockOperation::NonBlockingLockShared).ok()?;
        Some(Arc::new(lock))
    }

    /// Takes the lock of another sandbox as [`Self::abandoned`] does, and waits for it if its Garret has died: the
    /// supervisor then ends soon.
    async fn abandoned_by_now(&self, sandbox: &str) -> Option<Arc<OwnedFd>> {
        for _ in 0..LOOKS {
            let lock = self.abandoned(sandbox);
            if lock.is_some() || sandbox == self.name || !self.has_dead_owner(sandbox) {
                return lock;
            }
            tokio::time::sleep(BETWEEN_LOOKS).await;
        }
        None
    }

    /// Returns whether the process that wrote its number into the lock of a sandbox has ended.
    fn has_dead_owner(&self, sandbox: &str) -> bool {
        let mut number = [0; 4];
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let read = rustix::fs::open(self.plan.lock.with_file_name(sandbox), flags, Mode::empty())
            .and_then(|lock| rustix::io::read(&lock, &mut number));
        let owner = read
            .is_ok()
            .then(|| Pid::from_raw(i32::from_le_bytes(number)))
            .flatten();
        owner.is_some_and(|owner| rustix::process::test_kill_process(owner) == Err(Errno::SRCH))
    }

    /// Removes a layer from the list at once, and deletes its files in the background.
    pub(super) fn discard(&self, layer: &str) -> Result<()> {
        // A rename is quick and atomic; after a crash, the next sandbox finds the name and continues.
        let gone = format!("{GONE}{layer}");
        rustix::fs::renameat(&self.layers, layer, &self.layers, gone.as_str()).map_err(|_| unusable())?;
        self.delete(gone);
        Ok(())
    }

    /// Deletes a directory in the background. One that cannot be deleted now is tried again when the next sandbox
    /// opens.
    fn delete(&self, gone: String) {
        let Ok(layers) = self.layers.try_clone() else {
            return;
        };
        let delete = move || {
            let _ = remove_tree_in_pieces(layers.as_fd(), gone.as_bytes());
        };
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(delete)),
            Err(_) => delete(),
        }
    }

    /// Deletes directories that an earlier sandbox removed from the list and did not delete.
    fn tidy(&self) {
        let Ok(entries) = rustix::fs::Dir::read_from(&self.layers) else {
            return;
        };
        let names = entries
            .flatten()
            .filter_map(|entry| entry.file_name().to_str().ok().map(str::to_owned));
        // The trial of another sandbox that opens at this moment is in use.
        let is_over = |name: &str| {
            let trial = name.strip_prefix(TRIAL);
            name.starts_with(GONE) || trial.is_some_and(|sandbox| self.abandoned(sandbox).is_some())
        };
        names.filter(|name| is_over(name)).for_each(|gone| self.delete(gone));
    }

    pub(super) fn lock(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.lock)
    }
}

impl Drop for OpenShared {
    fn drop(&mut self) {
        self.discard_kept();
        // The lock stays as long as layers stay that a later process may recover.
        let prefix = format!("{}.", self.name);
        let is_needed = self
            .names()
            .is_ok_and(|names| names.iter().any(|name| name.starts_with(&prefix)));
        if !is_needed {
            let _ = rustix::fs::unlinkat(rustix::fs::CWD, &self.plan.lock, AtFlags::empty());
        }
    }
}
