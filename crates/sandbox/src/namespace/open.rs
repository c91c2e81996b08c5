//! A sandbox that is ready on a bench.

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

/// How the name of a layer begins that is about to be deleted.
const GONE: &str = ".gone-";
/// How the name of a directory begins on which a sandbox tries an overlay while it opens.
const TRIAL: &str = ".trial-";

/// How often, and how far apart, it is looked whether a supervisor has ended after its Garret has: for ten seconds at most.
const LOOKS: u32 = 2_000;
const BETWEEN_LOOKS: Duration = Duration::from_millis(5);

/// Where overlays can be mounted, as far as it was tried: the file systems of the layers and of the bench, and the user.
static KNOWN: Mutex<Vec<(u64, u64, u32)>> = Mutex::new(Vec::new());

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
    kept: Mutex<Option<Kept>>,
}

/// A layer that lies over the bench with nothing done on it, for the next command.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) layer: String,
    /// The state of the bench that it was laid over. Where the bench is in another one, nobody looks through it again.
    pub(super) stands: String,
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

/// Makes the directories for layers, and takes the lock that says that they have an owner.
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

/// The user of the commands passes through it, and can list nothing.
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
            match layer.is_empty() {
                // As between two commands: nobody misses it.
                true => drop(self.shared.discard(&name)),
                false => found.push(Arc::new(layer)),
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

    /// Keeps a layer on which nothing was done for the next command.
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

    /// The layer that was kept, where it lies over a bench that is as it was.
    async fn take_kept(self: &Arc<Self>, stands: &str) -> Option<Kept> {
        let kept = self.kept().take()?;
        if kept.stands == stands && !self.connection.is_over() {
            return Some(kept);
        }
        self.put_away(kept).await;
        None
    }

    /// Takes a layer off that was kept, while others go on.
    async fn put_away(self: &Arc<Self>, kept: Kept) {
        let (shared, layer) = (Arc::clone(self), kept.layer.clone());
        let asked = self.connection.ask(|request| Ask::Lift { request, layer });
        let put_away = async move {
            if let Ok((_, reply)) = asked {
                // A sandbox that has ended took everything with it.
                let _ = reply.await;
            }
            // What cannot be taken away now is when the next sandbox opens.
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

    /// The lock on another sandbox, if nobody holds it: neither Garret nor the supervisor that outlived it by a moment.
    fn abandoned(&self, sandbox: &str) -> Option<Arc<OwnedFd>> {
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

    /// The same, and waits for the supervisor of a Garret that has died: it ends at once, but not in no time.
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

    /// Whether the process that wrote its number into the lock of a sandbox is gone.
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
            let _ = remove_tree_in_pieces(layers.as_fd(), gone.as_bytes());
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
        // Another sandbox that opens just now has a trial of its own.
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
