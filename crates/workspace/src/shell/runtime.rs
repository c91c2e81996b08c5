//! The state that all commands of one open workspace share: the bench, the sandboxes that are open on it, the turn of
//! commands, the live layer and its processes.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Weak};

use garret_core::{
    Bench, BenchState, DerivedFiles, Effect, EffectTally, Effects, EffectsMark, EntryPath, Error, ErrorKind,
    Exclusions, Guard, GuardStatus, HostView, Layer, LayerOutcome, Limits, NetworkChoice, NetworkLog, OpenSandbox,
    PlacedEntry, ReachedLimit, ReadFilter, ResourceLimit, Result, Sandbox, SandboxCommand, SandboxRequest, ShellPolicy,
    Timestamp, TurnGuard, WsPath,
};
use tokio::sync::{Mutex, OwnedSemaphorePermit, RwLock, Semaphore};

use crate::Workspace;
use crate::code::CodeContexts;
use crate::file_access::FileAccess;
use crate::results::CommandHomeReport;
use crate::shell::ShellRules;
use crate::shell::background::file_effects::effect_at;
use crate::shell::background::live_layer::{LiveSlot, SettleRequest};
use crate::shell::background::processes::BackgroundProcesses;
use crate::shell::foreground::command_turn::InProcessTurn;
use crate::shell::network_watch::NetworkWatch;
use crate::shell::policy::view_restrictions::{CachedRestrictions, ViewRestrictions};

/// The directory with the programs of the virtual environment of a workspace.
const VIRTUAL_ENVIRONMENT_PROGRAMS: &str = ".venv/bin";

/// The most sandboxes that stay open for views with different rules.
const OPEN: usize = 4;

/// The parts that a workspace needs to run commands. The program that opens the workspace supplies them.
#[derive(Debug, Clone)]
pub struct ShellParts {
    /// The sandbox that commands run in.
    pub sandbox: Arc<dyn Sandbox>,
    /// The directory in which they see the files.
    pub bench: Arc<dyn Bench>,
    /// Whether the bench is the directory of the files themselves, and not a checkout.
    pub is_direct: bool,
    /// The policy on commands.
    pub policy: ShellPolicy,
    /// The files that commands make from others.
    pub derived: DerivedFiles,
    /// The environment of the program. A command gets the variables of it that the policy names.
    pub environment: BTreeMap<String, String>,
    /// The parts of the host that commands see.
    pub host: Arc<dyn HostView>,
    /// The record of requests to the network, if commands reach hosts by name.
    pub network_log: Option<Arc<NetworkLog>>,
}

/// The state that all commands of one open workspace share.
#[derive(Debug)]
pub(crate) struct ShellRuntime {
    sandbox: Arc<dyn Sandbox>,
    pub(super) bench: Arc<dyn Bench>,
    pub(super) is_direct: bool,
    pub(super) rules: ShellRules,
    pub(crate) exclusions: Exclusions,
    host: Arc<dyn HostView>,
    pub(crate) network: NetworkWatch,
    /// The variables of the program's environment that every command gets.
    pub(super) inherited: BTreeMap<String, String>,
    /// One command in the foreground at a time.
    pub(super) turn: InProcessTurn,
    /// The turn between processes, if a command or a live layer of this process has it.
    pub(super) held_turn: std::sync::Mutex<Weak<TurnGuard>>,
    /// Held, shared, while the layer of a cancelled command is removed in the background.
    pub(super) clearing: Arc<RwLock<()>>,
    open: Mutex<Vec<CachedSandbox>>,
    /// The read-only paths that were found last.
    pub(super) known_restrictions: Mutex<Option<CachedRestrictions>>,
    pub(super) live: LiveSlot,
    pub(super) processes: BackgroundProcesses,
    /// One permit for each process and context that may run in the background.
    background_permits: Arc<Semaphore>,
    /// The code contexts.
    pub(crate) contexts: CodeContexts,
    /// The files without the pause of the live layer. Effects are committed to them.
    pub(super) plain_files: FileAccess,
}

#[derive(Debug, Clone)]
struct CachedSandbox {
    restrictions: ViewRestrictions,
    state: BenchDirectories,
    sandbox: Arc<dyn OpenSandbox>,
    leftovers: Vec<String>,
}

/// The directories of the bench that a sandbox is open on. A bench that was made anew may have others.
#[derive(Debug, Clone, PartialEq, Eq)]
struct BenchDirectories {
    root: std::path::PathBuf,
    scratch: std::path::PathBuf,
}

/// A layer over the bench, and the sandbox that it belongs to.
#[derive(Debug, Clone)]
pub(super) struct SandboxLayer {
    pub(super) sandbox: Arc<dyn OpenSandbox>,
    pub(super) layer: Arc<dyn Layer>,
    /// The ids of leftovers that were found when the sandbox was opened.
    pub(super) leftovers: Vec<String>,
}

impl SandboxLayer {
    /// Returns the command with the variables that the sandbox gives to every command. The programs of the virtual
    /// environment in the directory `base` of the workspace are found first.
    pub(super) fn complete_command(&self, command: &SandboxCommand, base: &WsPath) -> SandboxCommand {
        let mut env = self.sandbox.environment();
        let workspace = self.sandbox.workspace_path();
        // A search path has no way to write a colon.
        let workspace = workspace.filter(|workspace| !format!("{workspace}{base}").contains(':'));
        if let (Some(workspace), Some(path)) = (workspace, env.get_mut("PATH")) {
            let place = Path::new(workspace)
                .join(base.as_str())
                .join(VIRTUAL_ENVIRONMENT_PROGRAMS);
            // A directory that does not exist does no harm, and one that a command makes counts for the next command.
            path.insert_str(0, &format!("{}:", place.display()));
        }
        env.extend(command.env.clone());
        SandboxCommand { env, ..command.clone() }
    }

    /// Whether the layer is a copy of the bench, and not an overlay over it.
    pub(super) fn is_copy(&self) -> bool {
        let layers = self
            .sandbox
            .guard_statuses()
            .iter()
            .find(|one| one.guard == Guard::Layers);
        layers.is_none_or(|layers| !layers.is_enforced)
    }
}

impl ShellRuntime {
    /// `plain_files` may write at the excluded paths, which the workspace itself may not.
    pub(crate) fn new(parts: ShellParts, exclusions: Exclusions, plain_files: FileAccess) -> Result<Self> {
        let rules = ShellRules::new(parts.policy)?;
        let most = rules.policy().max_processes.min(Semaphore::MAX_PERMITS);
        let allowed = |name: &String| Some((name.clone(), parts.environment.get(name)?.clone()));
        Ok(Self {
            inherited: rules.policy().env_allow.iter().filter_map(allowed).collect(),
            sandbox: parts.sandbox,
            bench: parts.bench,
            is_direct: parts.is_direct,
            rules,
            exclusions,
            host: parts.host,
            network: NetworkWatch::new(parts.network_log),
            turn: InProcessTurn::default(),
            held_turn: std::sync::Mutex::default(),
            clearing: Arc::default(),
            open: Mutex::default(),
            known_restrictions: Mutex::default(),
            live: LiveSlot::default(),
            processes: BackgroundProcesses::default(),
            background_permits: Arc::new(Semaphore::new(most)),
            contexts: CodeContexts::default(),
            plain_files,
        })
    }

    /// Takes a place for one more process in the background. `quota_exceeded` if the limit is reached; the place is
    /// free again when the permit is dropped.
    pub(super) fn take_background_permit(&self) -> Result<OwnedSemaphorePermit> {
        self.background_permits.clone().try_acquire_owned().map_err(|_| {
            let most = self.rules.policy().max_processes;
            Error::new(
                ErrorKind::QuotaExceeded,
                format!("{most} processes and contexts are running in the background, which is the limit"),
            )
            .with_rule(format!("max_processes = {most}"))
            .hint(match self.contexts.count_running() {
                0 => "end one of them first (`processes` lists them), or raise `max_processes` of the shell capability",
                _ => "end one of them first: `processes` lists the processes, `delete_code_context` ends a context",
            })
        })
    }

    /// Returns the limit that ended a command or code with these limits, or else the one that it probably reached by the
    /// words of its error.
    pub(crate) fn find_reached_limit(
        &self,
        limit: Option<ResourceLimit>,
        error: &str,
        limits: &Limits,
    ) -> Option<ReachedLimit> {
        match limit {
            Some(limit) => ReachedLimit::describe(limit, limits, self.rules.call_times()),
            None => {
                let has_network = self.rules.policy().network != NetworkChoice::None || self.is_on_host();
                ReachedLimit::find_suspected(error, limits, has_network)
            }
        }
    }

    /// Returns the access to the files under the live layer, for the view and the actor of `files`.
    pub(super) fn files_under_layer(&self, files: &FileAccess) -> FileAccess {
        files.on_source(self.plain_files.source.clone())
    }

    /// Returns the time on the clock of the workspace.
    pub(super) fn current_time(&self) -> Timestamp {
        self.plain_files.context.clock.now()
    }

    /// Returns the time by which changes of the files from now on are told from earlier ones.
    pub(super) async fn file_time(&self) -> Result<Timestamp> {
        let told = self.bench.file_time().await?;
        Ok(told.unwrap_or_else(|| self.current_time()))
    }

    /// Brings the bench up to the newest change. No other process uses the bench until the returned lease ends.
    pub(super) async fn prepare_bench(&self) -> Result<(BenchState, BenchLease)> {
        let state = self.bench.bring_up_to_date().await?;
        let held = BenchLease {
            bench: self.bench.clone(),
            head: state.head,
            is_held: true,
        };
        Ok((state, held))
    }

    /// Whether commands run without isolation, with the rights of the user that runs Garret.
    pub(super) fn is_on_host(&self) -> bool {
        self.sandbox.kind() == "host"
    }

    /// Returns the private directory of the bench.
    pub(super) fn scratch_directory(&self) -> std::path::PathBuf {
        self.bench.scratch_directory()
    }

    /// Lays a layer over the bench. If the sandbox has died, it is opened once more.
    pub(super) async fn lay_layer(&self, restrictions: &ViewRestrictions, state: &BenchState) -> Result<SandboxLayer> {
        // Also for a sandbox that is open: its home may have grown over its limit.
        let scope = restrictions.home_scope.clone();
        self.ask_host(move |host| host.home_directory(&scope)).await?;
        let opened = self.open_or_reuse_sandbox(restrictions, state).await?;
        match opened.lay_layer(state).await {
            Err(error) if error.kind() == ErrorKind::Unavailable => {
                self.forget_sandbox(&opened.sandbox).await;
                self.open_or_reuse_sandbox(restrictions, state)
                    .await?
                    .lay_layer(state)
                    .await
            }
            laid => laid,
        }
    }

    /// Asks the view of the host on another thread: the answer may take a walk through many files.
    async fn ask_host<T: Send + 'static>(
        &self,
        question: impl FnOnce(&dyn HostView) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let host = self.host.clone();
        let asked = tokio::task::spawn_blocking(move || question(&*host)).await;
        asked.unwrap_or_else(|_| Err(Error::new(ErrorKind::Internal, "looking at the host failed")))
    }

    /// Returns the open sandbox for views with these restrictions; opens one if there is none.
    async fn open_or_reuse_sandbox(
        &self,
        restrictions: &ViewRestrictions,
        state: &BenchState,
    ) -> Result<CachedSandbox> {
        let place = BenchDirectories {
            root: state.root.clone(),
            scratch: state.scratch.clone(),
        };
        let mut open = self.open.lock().await;
        if let Some(found) = open
            .iter()
            .find(|one| one.restrictions == *restrictions && one.state == place)
        {
            return Ok(found.clone());
        }
        let sandbox = self.sandbox.open(self.sandbox_request(restrictions, state)?).await?;
        let left = self.find_leftover_layers(&*sandbox, state).await?;
        let opened = CachedSandbox {
            restrictions: restrictions.clone(),
            state: place,
            sandbox,
            leftovers: left.iter().map(|layer| layer.id().to_owned()).collect(),
        };
        open.push(opened.clone());
        // An open sandbox holds resources of the machine, so only a few stay open. The one of the live layer cannot be
        // closed.
        if open.len() > OPEN {
            let in_use = self.live.layer_sandbox().await;
            let is_free = |one: &CachedSandbox| in_use.as_ref().is_none_or(|used| !Arc::ptr_eq(used, &one.sandbox));
            if let Some(oldest) = open.iter().position(is_free) {
                open.remove(oldest).sandbox.close().await?;
            }
        }
        Ok(opened)
    }

    /// Returns the open sandbox for these restrictions, in which leftovers can be found.
    pub(super) async fn sandbox_for(
        &self,
        restrictions: &ViewRestrictions,
        state: &BenchState,
    ) -> Result<Arc<dyn OpenSandbox>> {
        Ok(self.open_or_reuse_sandbox(restrictions, state).await?.sandbox)
    }

    /// Takes a leftover that was committed or discarded off the lists of the open sandboxes.
    pub(super) async fn forget_leftover(&self, id: &str) {
        for opened in self.open.lock().await.iter_mut() {
            opened.leftovers.retain(|one| one != id);
        }
    }

    fn sandbox_request(&self, restrictions: &ViewRestrictions, state: &BenchState) -> Result<SandboxRequest> {
        let policy = self.rules.policy();
        let visible = self.host.visible_parts()?;
        Ok(SandboxRequest {
            bench: state.root.clone(),
            scratch: state.scratch.clone(),
            read_filter: restrictions.filter.clone().map(|filter| filter as Arc<dyn ReadFilter>),
            read_only: restrictions.read_only.clone(),
            network: policy.network.sandbox_network(),
            scope: restrictions.home_scope.clone(),
            limits: Limits {
                // Time limits are those of single commands. The sandbox outlives them, and must have none of its own.
                wall: None,
                cpu: None,
                ..self.rules.limits().clone()
            },
            mounts: visible.mounts,
            host_paths: visible.host_paths,
            home: self.host.home_directory(&restrictions.home_scope)?,
            environment: visible.environment,
            git_author: visible.git_author,
            require: policy.required_guards(),
        })
    }

    /// Returns the effects on a layer over the bench `state`. Effects over the limits are `too_large` with every
    /// sandbox.
    pub(super) async fn read_effects(
        &self,
        layer: &dyn Layer,
        state: &BenchState,
        since: Option<&EffectsMark>,
    ) -> Result<Effects> {
        let mut effects = layer.read_effects(since).await?;
        EffectTally::check_effects(self.rules.limits().effect_limits(), &effects)?;
        add_removed_corrupt_files(&mut effects.effects, &state.corrupt);
        Ok(effects)
    }

    async fn forget_sandbox(&self, sandbox: &Arc<dyn OpenSandbox>) {
        let mut open = self.open.lock().await;
        open.retain(|one| !Arc::ptr_eq(&one.sandbox, sandbox));
        // The sandbox is dead, so an error is of no use; closing it still frees the mounts and directories that are
        // left.
        let _ = sandbox.close().await;
    }

    /// Closes every sandbox.
    pub(super) async fn close_sandboxes(&self) -> Result<()> {
        for opened in self.open.lock().await.drain(..) {
            opened.sandbox.close().await?;
        }
        Ok(())
    }
}

/// The exclusive use of a bench. Dropping it gives the bench back as it is.
#[derive(Debug)]
pub(super) struct BenchLease {
    bench: Arc<dyn Bench>,
    head: u64,
    is_held: bool,
}

impl BenchLease {
    /// Hands the effects on a layer to the bench, and gives the bench back.
    pub(super) async fn hand_effects(mut self, taken: LayerOutcome<'_>) -> Result<()> {
        self.is_held = false;
        self.bench.take_effects(taken).await
    }

    /// Gives the bench back as it is.
    pub(super) async fn release_unchanged(self) -> Result<()> {
        let head = self.head;
        self.hand_effects(empty_layer_outcome(head)).await
    }
}

impl Drop for BenchLease {
    fn drop(&mut self) {
        if self.is_held {
            let (bench, head) = (self.bench.clone(), self.head);
            spawn_in_background(async move {
                // A bench that cannot be given back now is free when this process ends.
                let _ = bench.take_effects(empty_layer_outcome(head)).await;
            });
        }
    }
}

fn empty_layer_outcome(head: u64) -> LayerOutcome<'static> {
    LayerOutcome {
        committed: &[],
        excluded: &[],
        head,
    }
}

impl CachedSandbox {
    async fn lay_layer(&self, state: &BenchState) -> Result<SandboxLayer> {
        // A layer over a bench in a known generation may be used again later, which saves the time to lay one.
        let layer = match &state.generation {
            Some(stands) => self.sandbox.create_layer_on(stands).await?,
            None => self.sandbox.create_layer().await?,
        };
        Ok(SandboxLayer {
            sandbox: self.sandbox.clone(),
            layer,
            leftovers: self.leftovers.clone(),
        })
    }
}

/// Adds the removal of each damaged file whose directory was removed.
fn add_removed_corrupt_files(effects: &mut Vec<Effect>, corrupt: &[EntryPath]) {
    // The bench lacks a damaged file, so the layer cannot show its removal. History has the file, and must learn that
    // it went.
    let find = |effects: &[Effect], path: &[u8]| effects.binary_search_by(|one| one.path.as_bytes().cmp(path));
    for path in corrupt {
        let bytes = path.as_bytes();
        let slashes = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        let mut above = slashes.filter_map(|(end, _)| find(effects, &bytes[..end]).ok());
        let is_gone = above.any(|place| !matches!(effects[place].placed, PlacedEntry::Directory { .. }));
        if let (true, Err(place)) = (is_gone, find(effects, bytes)) {
            effects.insert(place, effect_at(path, PlacedEntry::Nothing));
        }
    }
}

/// Whether an error says that the effects of a command are over a limit. Then none of them is kept.
pub(super) fn is_over_limit(error: &Error) -> bool {
    error.kind() == ErrorKind::TooLarge
}

/// Whether both files and processes outside the sandbox are out of reach.
pub(super) fn is_isolated(enforced: &[GuardStatus]) -> bool {
    let holds = |guard| enforced.iter().any(|one| one.guard == guard && one.is_enforced);
    holds(Guard::Files) && holds(Guard::Processes)
}

/// The owner of the shared state of commands. Dropping it ends all processes of the workspace.
#[derive(Debug)]
pub(crate) struct ShellRuntimeOwner(pub(crate) Arc<ShellRuntime>);

impl Drop for ShellRuntimeOwner {
    fn drop(&mut self) {
        self.0.processes.abort_all();
        self.0.contexts.abort_all();
        let shell = self.0.clone();
        spawn_in_background(async move {
            // Effects that cannot be committed now are a leftover when the workspace is opened again.
            let _ = shell.close_shell().await;
        });
    }
}

/// Runs `work` on the present Tokio runtime. Without a runtime, `work` is dropped.
pub(super) fn spawn_in_background(work: impl Future<Output = ()> + Send + 'static) {
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        runtime.spawn(work);
    }
}

impl Workspace {
    /// Whether the workspace can run commands.
    pub fn has_shell(&self) -> bool {
        self.shared.shell.is_some()
    }

    /// Takes the notices on commands that were ended because they did not stop for a pause. Each notice is returned
    /// once, with the next answer to a tool call.
    pub fn take_pause_notices(&self) -> Vec<String> {
        let shell = self.shared.shell.as_ref();
        shell.map_or_else(Vec::new, |owned| owned.0.live.take_pause_notices(&self.files.view))
    }

    /// Commits the effects of the background processes so far, so that an operation sees them.
    pub(crate) async fn settle_live(&self) -> Result<()> {
        match &self.shared.shell {
            // Boxed, since every operation holds this future, and moving its 6 KiB takes longer than a read from memory.
            Some(owned) => {
                let settling = Box::pin(owned.0.settle_live_layer(SettleRequest::default()));
                settling.await.map(|_| ())
            }
            None => Ok(()),
        }
    }

    /// Returns the use of the home directory that commands of this view have.
    pub async fn command_home(&self) -> Result<CommandHomeReport> {
        let Some(owned) = &self.shared.shell else {
            return Ok(CommandHomeReport { home: None });
        };
        let scope = self.files.view.home_scope();
        let usage = owned.0.ask_host(move |host| host.home_usage(&scope)).await?;
        Ok(CommandHomeReport { home: usage })
    }

    /// Empties the home directories of the commands of the workspace and of all its scopes.
    pub async fn clear_command_homes(&self) -> Result<CommandHomeReport> {
        if let Some(owned) = &self.shared.shell {
            owned.0.ask_host(|host| host.clear_homes()).await?;
        }
        self.command_home().await
    }

    /// Ends all background processes and code contexts, commits their effects, and closes the sandboxes. A second call
    /// is fine; a command that is run afterwards opens a sandbox again.
    pub async fn close(&self) -> Result<()> {
        match &self.shared.shell {
            Some(owned) => owned.0.close_shell().await,
            None => Ok(()),
        }
    }
}
