//! The sandbox `namespace`, opened on a bench.

#![cfg(target_os = "linux")]

use std::collections::BTreeMap;
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use async_trait::async_trait;
use garret_core::{
    Error, ErrorKind, Guard, GuardStatus, Layer, Network, OpenSandbox, Result, SandboxRequest, shared_network_error,
};
use garret_handles::{list_names, open_child, remove_tree_in_pieces};
use rustix::fs::{AtFlags, CWD, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use rustix::process::Pid;

use super::connection::SupervisorConnection;
use super::guards;
use super::namespace_layer::{LayerForm, NamespaceLayer, give_to_user, make_directories};
use super::plan::{self, MOUNT_LAYER, OverlayUse, PlanOptions, PlannedAccess, SandboxPlan, plan_sandbox};
use super::{LayerMode, NamespaceOptions, SupervisorProgram, machine, sandbox_ports};
use crate::command_home::open_home;
use crate::scratch::{open_directory, unusable_directories_error};
use crate::supervisor::protocol::{OpenedReport, SupervisorRequest};

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
pub(super) struct OpenNamespace {
    pub(super) shared: Arc<OpenNamespaceShared>,
    enforced: Vec<GuardStatus>,
}

/// The parts of an open sandbox that its layers share.
#[derive(Debug)]
pub(super) struct OpenNamespaceShared {
    pub(super) connection: Arc<SupervisorConnection>,
    pub(super) plan: SandboxPlan,
    pub(super) request: SandboxRequest,
    pub(super) layers: OwnedFd,
    pub(super) bench: OwnedFd,
    pub(super) form: LayerForm,
    name: String,
    lock: Arc<OwnedFd>,
    next: AtomicU64,
    living: Mutex<Vec<Weak<NamespaceLayer>>>,
    kept: Mutex<Option<KeptLayer>>,
}

/// A mounted layer without changes, kept for the next command.
#[derive(Debug)]
pub(super) struct KeptLayer {
    pub(super) layer: String,
    /// The state of the bench when the layer was mounted. If the bench is in another state, the layer is not used
    /// again.
    pub(super) stands: String,
}

impl OpenNamespace {
    pub(super) async fn open(options: &NamespaceOptions, request: SandboxRequest) -> Result<Self> {
        let mut required = request.require.clone();
        // With a network that the request allows, the guard cannot hold and is not required.
        required.retain(|guard| *guard != Guard::Network || request.network != Network::Full);
        let (shared, opened) = Self::open_unchecked(options, request).await?;
        let enforced = guards::enforced_guards(&shared.plan, &opened);
        guards::check_required(&enforced, &required)?;
        Ok(Self { shared, enforced })
    }

    /// Checks that the sandbox has a network of its own. Where it has not, every port belongs to the machine.
    fn check_own_network(&self) -> Result<()> {
        if self.shared.plan.network == Network::Full {
            return Err(shared_network_error());
        }
        Ok(())
    }

    /// Makes an open sandbox without a list of guards, for the probe.
    pub(super) fn without_guards(shared: Arc<OpenNamespaceShared>) -> Self {
        Self {
            shared,
            enforced: Vec::new(),
        }
    }

    /// Makes the sandbox, without a check of the guards that it enforces.
    pub(super) async fn open_unchecked(
        options: &NamespaceOptions,
        request: SandboxRequest,
    ) -> Result<(Arc<OpenNamespaceShared>, OpenedReport)> {
        let name = options.ids.next_id();
        let machine = machine::examine_machine(&request, options.pauses)?;
        let (layers, lock) = prepare_directories(&request.scratch, &name)?;
        let bench = open_directory(CWD, &request.bench)?;
        let place = (device_of(&layers)?, device_of(&bench)?, machine.uid);
        let overlays = match options.layers {
            LayerMode::Copies => OverlayUse::Unwanted,
            LayerMode::Best if lock_known_overlays().contains(&place) => OverlayUse::Known,
            LayerMode::Best => OverlayUse::Tried(format!("{TRIAL}{name}")),
        };
        let wishes = PlanOptions {
            uid: options.uid,
            gid: options.gid,
            shell: options.shell.as_deref(),
            name: &name,
            still_within: options.still_within,
            overlays,
        };
        let plan = plan_sandbox(&request, &machine, &wishes);
        if !plan.is_utf8() {
            return Err(Error::invalid("the path of the directory for commands is not UTF-8")
                .hint("move the workspace to a directory with a plain name"));
        }
        if let OverlayUse::Tried(trial) = &plan.overlays {
            make_directories(&layers, &bench, &plan.user, trial).map_err(|_| unusable_directories_error())?;
        }
        prepare_mounts(&plan, &layers)?;
        let program = find_supervisor(options)?;
        let (connection, opened) = SupervisorConnection::open_supervisor(&program, plan.clone()).await?;
        let opened = match opened {
            Ok(opened) => opened,
            Err(failure) => {
                connection.close().await;
                return Err(guards::not_opened_error(&failure));
            }
        };
        let form = if opened.overlay_failure.is_some() {
            LayerForm::Copy
        } else {
            LayerForm::Overlay
        };
        let shared = Arc::new(OpenNamespaceShared {
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
        if let OverlayUse::Tried(trial) = &shared.plan.overlays {
            shared.delete_in_background(trial.clone());
            lock_known_overlays().extend((form == LayerForm::Overlay).then_some(place));
        }
        shared.delete_discarded();
        Ok((shared, opened))
    }
}

/// Makes the directories for the writes to mounts, and the home.
fn prepare_mounts(plan: &SandboxPlan, layers: &OwnedFd) -> Result<()> {
    for mount in &plan.mounts {
        if let PlannedAccess::Overlay(name) = &mount.access {
            if mount.is_file {
                return Err(Error::invalid("a mount with the access `layer` must be a directory")
                    .hint("mount the directory of the file, or use the access `read`"));
            }
            let source = open_directory(CWD, &mount.source)?;
            make_directories(layers, &source, &plan.user, name).map_err(|_| unusable_directories_error())?;
        }
    }
    if let Some(home) = &plan.home.source {
        make_directory(home)?;
        give_to_user(&plan.user, &open_home(home)?).map_err(|_| unusable_directories_error())?;
    }
    Ok(())
}

/// Makes the directories for layers, and takes the lock that shows that they have an owner.
fn prepare_directories(scratch: &Path, name: &str) -> Result<(OwnedFd, OwnedFd)> {
    let (layers, locks) = (plan::layers_directory(scratch), plan::locks_directory(scratch));
    for directory in [&layers, &locks] {
        make_directory(directory)?;
    }
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let lock =
        rustix::fs::open(locks.join(name), flags, Mode::RUSR | Mode::WUSR).map_err(|_| unusable_directories_error())?;
    rustix::fs::flock(&lock, FlockOperation::NonBlockingLockShared).map_err(|_| unusable_directories_error())?;
    let owner = rustix::process::getpid().as_raw_nonzero().get();
    rustix::io::write(&lock, &owner.to_le_bytes()).map_err(|_| unusable_directories_error())?;
    Ok((open_directory(CWD, &layers)?, lock))
}

fn lock_known_overlays() -> MutexGuard<'static, Vec<(u64, u64, u32)>> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn device_of(directory: &OwnedFd) -> Result<u64> {
    Ok(rustix::fs::fstat(directory)
        .map_err(|_| unusable_directories_error())?
        .st_dev)
}

/// Makes a directory, with those above it, that the user of the commands can pass through but not list.
pub(super) fn make_directory(path: &Path) -> Result<()> {
    match rustix::fs::mkdir(path, Mode::from_raw_mode(0o711)) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(Errno::NOENT) => {
            make_directory(path.parent().ok_or_else(unusable_directories_error)?)?;
            rustix::fs::mkdir(path, Mode::from_raw_mode(0o711)).map_err(|_| unusable_directories_error())
        }
        Err(_) => Err(unusable_directories_error()),
    }
}

/// Returns the supervisor that the options name, or the one beside the running program.
fn find_supervisor(options: &NamespaceOptions) -> Result<SupervisorProgram> {
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
impl OpenSandbox for OpenNamespace {
    fn guard_statuses(&self) -> &[GuardStatus] {
        &self.enforced
    }

    fn environment(&self) -> BTreeMap<String, String> {
        self.shared.plan.environment.clone()
    }

    fn workspace_path(&self) -> Option<&str> {
        Some(self.shared.plan.start_path())
    }

    async fn create_layer(&self) -> Result<Arc<dyn Layer>> {
        let layer = NamespaceLayer::lay(&self.shared, self.shared.new_name(), None).await?;
        Ok(self.shared.register_layer(layer))
    }

    async fn create_layer_on(&self, stands: &str) -> Result<Arc<dyn Layer>> {
        let layer = match self.shared.take_kept(stands).await {
            Some(kept) => NamespaceLayer::reuse_kept(&self.shared, kept),
            None => NamespaceLayer::lay(&self.shared, self.shared.new_name(), Some(stands)).await?,
        };
        Ok(self.shared.register_layer(layer))
    }

    async fn leftover_layers(&self) -> Result<Vec<Arc<dyn Layer>>> {
        let mut found: Vec<Arc<dyn Layer>> = Vec::new();
        for name in self.shared.layer_names()? {
            let Some((sandbox, _)) = name.split_once('.') else {
                continue;
            };
            let Some(lock) = self.shared.wait_for_abandoned(sandbox).await else {
                continue;
            };
            let layer = NamespaceLayer::open_leftover(&self.shared, name.clone(), lock);
            if layer.is_empty() {
                // A layer that was kept for the next command, or mounted for one that wrote nothing: there is nothing
                // to recover.
                drop(self.shared.discard_layer(&name));
            } else {
                found.push(Arc::new(layer));
            }
        }
        Ok(found)
    }

    async fn listen_port(&self, port: u16) -> Result<TcpListener> {
        self.check_own_network()?;
        sandbox_ports::listen_inside(&self.shared.connection, port).await
    }

    async fn connect_port(&self, port: u16) -> Result<TcpStream> {
        self.check_own_network()?;
        sandbox_ports::connect_inside(&self.shared.connection, port).await
    }

    async fn close(&self) -> Result<()> {
        self.shared.connection.close().await;
        for layer in self.shared.lock_living().iter().filter_map(Weak::upgrade) {
            layer.mark_lifted();
        }
        self.shared.discard_kept();
        self.shared.discard_mount_layers();
        Ok(())
    }
}

impl OpenNamespaceShared {
    fn lock_living(&self) -> MutexGuard<'_, Vec<Weak<NamespaceLayer>>> {
        self.living.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn new_name(&self) -> String {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        format!("{}.{number}", self.name)
    }

    fn register_layer(&self, layer: NamespaceLayer) -> Arc<NamespaceLayer> {
        let layer = Arc::new(layer);
        let mut living = self.lock_living();
        living.retain(|layer| layer.strong_count() > 0);
        living.push(Arc::downgrade(&layer));
        layer
    }

    fn lock_kept(&self) -> MutexGuard<'_, Option<KeptLayer>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a layer without changes for the next command.
    pub(super) async fn keep_layer(self: &Arc<Self>, layer: &str, stands: &str) {
        let kept = KeptLayer {
            layer: layer.to_owned(),
            stands: stands.to_owned(),
        };
        let before = self.lock_kept().replace(kept);
        if let Some(before) = before {
            self.lift_and_discard(before).await;
        }
    }

    /// Returns the kept layer, if the bench is in the state that it was mounted over.
    async fn take_kept(self: &Arc<Self>, stands: &str) -> Option<KeptLayer> {
        let kept = self.lock_kept().take()?;
        if kept.stands == stands && !self.connection.is_over() {
            return Some(kept);
        }
        self.lift_and_discard(kept).await;
        None
    }

    /// Unmounts and deletes a kept layer in the background.
    async fn lift_and_discard(self: &Arc<Self>, kept: KeptLayer) {
        let (shared, layer) = (Arc::clone(self), kept.layer.clone());
        let asked = self
            .connection
            .send_request(|request| SupervisorRequest::Lift { request, layer });
        let put_away = async move {
            if let Ok((_, reply)) = asked {
                // If the sandbox has ended, its mounts have ended with it.
                let _ = reply.await;
            }
            // A layer that cannot be removed now is removed when the next sandbox opens.
            let _ = shared.discard_layer(&kept.layer);
        };
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn(put_away)),
            Err(_) => put_away.await,
        }
    }

    fn discard_kept(&self) {
        let kept = self.lock_kept().take();
        if let Some(kept) = kept {
            let _ = self.discard_layer(&kept.layer);
        }
    }

    /// Deletes what commands wrote to mounts with the access `layer`.
    fn discard_mount_layers(&self) {
        for mount in &self.plan.mounts {
            if let PlannedAccess::Overlay(name) = &mount.access {
                let _ = self.discard_layer(name);
            }
        }
    }

    /// Returns the names of all layers, in the order in which they were made.
    fn layer_names(&self) -> Result<Vec<String>> {
        let mut names = self.entry_names().map_err(|_| unusable_directories_error())?;
        names.retain(|name| name.contains('.') && !name.starts_with('.'));
        names.sort_by_key(|name| {
            let (sandbox, number) = name.split_once('.').unwrap_or((name, ""));
            (sandbox.to_owned(), number.parse::<u64>().unwrap_or(u64::MAX))
        });
        Ok(names)
    }

    fn entry_names(&self) -> Result<Vec<String>, Errno> {
        // By a handle of its own, because the position of a handle is shared.
        let names = list_names(open_child(&self.layers, ".")?)?.into_iter();
        Ok(names.filter_map(|name| String::from_utf8(name).ok()).collect())
    }

    /// Takes the lock of another sandbox, if neither its Garret nor its supervisor, which outlives Garret by a moment,
    /// holds it.
    fn try_lock_abandoned(&self, sandbox: &str) -> Option<Arc<OwnedFd>> {
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

    /// Takes the lock of another sandbox as [`Self::try_lock_abandoned`] does, and waits for it if its Garret has died: the
    /// supervisor then ends soon.
    async fn wait_for_abandoned(&self, sandbox: &str) -> Option<Arc<OwnedFd>> {
        for _ in 0..LOOKS {
            let lock = self.try_lock_abandoned(sandbox);
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
    pub(super) fn discard_layer(&self, layer: &str) -> Result<()> {
        // A rename is quick and atomic; after a crash, the next sandbox finds the name and continues.
        let gone = format!("{GONE}{layer}");
        rustix::fs::renameat(&self.layers, layer, &self.layers, gone.as_str())
            .map_err(|_| unusable_directories_error())?;
        self.delete_in_background(gone);
        Ok(())
    }

    /// Deletes a directory in the background. One that cannot be deleted now is tried again when the next sandbox
    /// opens.
    fn delete_in_background(&self, gone: String) {
        let Ok(layers) = self.layers.try_clone() else {
            return;
        };
        let delete = move || {
            let _ = remove_tree_in_pieces(&layers, gone.as_bytes());
        };
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(delete)),
            Err(_) => delete(),
        }
    }

    /// Deletes directories that an earlier sandbox removed from the list and did not delete.
    fn delete_discarded(&self) {
        let names = self.entry_names().unwrap_or_default();
        // The trial of another sandbox that opens at this moment is in use, and so are its mounts.
        let is_over = |name: &str| {
            let mount = name.strip_prefix(MOUNT_LAYER).and_then(|rest| rest.split_once('-'));
            let owner = name.strip_prefix(TRIAL).or(mount.map(|(_, sandbox)| sandbox));
            name.starts_with(GONE) || owner.is_some_and(|sandbox| self.try_lock_abandoned(sandbox).is_some())
        };
        names
            .into_iter()
            .filter(|name| is_over(name))
            .for_each(|gone| self.delete_in_background(gone));
    }

    pub(super) fn sandbox_lock(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.lock)
    }
}

impl Drop for OpenNamespaceShared {
    fn drop(&mut self) {
        self.discard_kept();
        self.discard_mount_layers();
        // The lock stays as long as layers stay that a later process may recover.
        let prefix = format!("{}.", self.name);
        let is_needed = self
            .layer_names()
            .is_ok_and(|names| names.iter().any(|name| name.starts_with(&prefix)));
        if !is_needed {
            let _ = rustix::fs::unlinkat(CWD, &self.plan.lock, AtFlags::empty());
        }
    }
}
