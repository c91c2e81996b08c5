//! What the commands of one open workspace share: the bench, the sandboxes that are open on it, whose turn it is, and what lives on.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use garret_core::{
    Bench, BenchState, Effect, EffectTally, Effects, Enforced, EntryPath, Error, ErrorKind, Exclusions, Guard, Layer,
    Limits, Mark, OpenSandbox, Placed, ReadFilter, Result, Sandbox, SandboxRequest, ShellPolicy, Taken, Timestamp,
    TurnGuard,
};
use tokio::sync::{Mutex, OwnedSemaphorePermit, RwLock, Semaphore};

use super::ShellRules;
use super::fence::{Fence, KnownFence};
use super::live::{LiveSlot, Taking};
use super::processes::Processes;
use super::turn::InProcessTurn;
use crate::Workspace;
use crate::code::Contexts;

/// The most sandboxes that are kept open for views with different rules.
const OPEN: usize = 4;

/// What a workspace needs for commands; whoever puts it together supplies it.
#[derive(Debug, Clone)]
pub struct ShellParts {
    /// Where commands run.
    pub sandbox: Arc<dyn Sandbox>,
    /// The directory in which they see the files.
    pub bench: Arc<dyn Bench>,
    /// Whether the bench is where the files themselves are.
    pub is_direct: bool,
    /// What they may do.
    pub policy: ShellPolicy,
    /// What history leaves out.
    pub exclusions: Exclusions,
    /// The environment of the program, of which a command has what the policy lets through by name.
    pub environment: BTreeMap<String, String>,
}

/// What the commands of one open workspace share.
#[derive(Debug)]
pub(crate) struct Workshop {
    sandbox: Arc<dyn Sandbox>,
    pub(super) bench: Arc<dyn Bench>,
    pub(super) is_direct: bool,
    pub(super) rules: ShellRules,
    pub(crate) exclusions: Exclusions,
    /// What a command has of the environment of the program.
    pub(super) inherited: BTreeMap<String, String>,
    /// One command in the foreground at a time.
    pub(super) turn: InProcessTurn,
    /// The turn between processes, where a command or a live layer of this process has it.
    pub(super) held_turn: std::sync::Mutex<Weak<TurnGuard>>,
    /// Held, shared, while the layer of a command is removed that nobody waits for any more.
    pub(super) clearing: Arc<RwLock<()>>,
    open: Mutex<Vec<Opened>>,
    /// What was last kept from the commands of a view.
    pub(super) fence: Mutex<Option<KnownFence>>,
    pub(super) live: LiveSlot,
    pub(super) processes: Processes,
    /// One for each process and context that may live in the background.
    rooms: Arc<Semaphore>,
    /// The contexts of code.
    pub(crate) contexts: Contexts,
    /// The same workspace without regard to what lives on: what is kept goes there.
    under: Workspace,
}

#[derive(Debug, Clone)]
struct Opened {
    fence: Fence,
    state: Place,
    sandbox: Arc<dyn OpenSandbox>,
    leftovers: Vec<String>,
}

/// Where a sandbox is open; a bench that was made anew may be elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    root: std::path::PathBuf,
    scratch: std::path::PathBuf,
}

/// A layer that was just laid, and the sandbox under it.
#[derive(Debug, Clone)]
pub(super) struct Laid {
    pub(super) sandbox: Arc<dyn OpenSandbox>,
    pub(super) layer: Arc<dyn Layer>,
    /// Layers that a crash left, found when the sandbox was opened.
    pub(super) leftovers: Vec<String>,
}

impl Laid {
    /// Whether the layer is a copy of the bench, and not laid over it.
    pub(super) fn is_copy(&self) -> bool {
        let layers = self.sandbox.enforced().iter().find(|one| one.guard == Guard::Layers);
        layers.is_none_or(|layers| !layers.is_enforced)
    }
}

impl Workshop {
    pub(crate) fn new(parts: ShellParts, under: Workspace) -> Result<Self> {
        let rules = ShellRules::new(parts.policy)?;
        let most = rules.policy().max_processes.min(Semaphore::MAX_PERMITS);
        let allowed = |name: &String| Some((name.clone(), parts.environment.get(name)?.clone()));
        Ok(Self {
            inherited: rules.policy().env_allow.iter().filter_map(allowed).collect(),
            sandbox: parts.sandbox,
            bench: parts.bench,
            is_direct: parts.is_direct,
            rules,
            exclusions: parts.exclusions,
            turn: InProcessTurn::default(),
            held_turn: std::sync::Mutex::default(),
            clearing: Arc::default(),
            open: Mutex::default(),
            fence: Mutex::default(),
            live: LiveSlot::default(),
            processes: Processes::default(),
            rooms: Arc::new(Semaphore::new(most)),
            contexts: Contexts::default(),
            under,
        })
    }

    /// Room for one more process in the background, kept until that is gone; refused where there are as many as may be.
    pub(super) fn take_room(&self) -> Result<OwnedSemaphorePermit> {
        self.rooms.clone().try_acquire_owned().map_err(|_| {
            let most = self.rules.policy().max_processes;
            Error::new(
                ErrorKind::QuotaExceeded,
                format!("{most} processes and contexts are running in the background, which is the limit"),
            )
            .rule(format!("max_processes = {most}"))
            .hint(match self.contexts.running() {
                0 => "end one of them first; `processes` lists them",
                _ => "end one of them first: `processes` lists the processes, `delete_code_context` ends a context",
            })
        })
    }

    /// The same view as `workspace` on what lies under the live layer.
    pub(super) fn under(&self, workspace: &Workspace) -> Workspace {
        Workspace {
            shared: self.under.shared.clone(),
            view: workspace.view.clone(),
            actor: workspace.actor.clone(),
            turn_watch: workspace.turn_watch.clone(),
            hard_links: None,
        }
    }

    /// The time on the clock of the workspace.
    pub(super) fn now(&self) -> Timestamp {
        self.under.shared.clock.now()
    }

    /// The time by which what others change from now on is told from what they changed before.
    pub(super) async fn file_time(&self) -> Result<Timestamp> {
        let told = self.bench.file_time().await?;
        Ok(told.unwrap_or_else(|| self.now()))
    }

    /// Brings the bench up to the newest change. It is this workspace's alone until what is given back with it says what to take.
    pub(super) async fn ready(&self) -> Result<(BenchState, Held)> {
        let state = self.bench.ready().await?;
        let held = Held {
            bench: self.bench.clone(),
            head: state.head,
            is_held: true,
        };
        Ok((state, held))
    }

    /// Whether commands have the rights of whoever runs Garret.
    pub(super) fn is_on_host(&self) -> bool {
        self.sandbox.kind() == "host"
    }

    /// The private directory of the bench.
    pub(super) fn scratch(&self) -> std::path::PathBuf {
        self.bench.scratch()
    }

    /// Lays a layer over the bench. A sandbox that died is opened again, once.
    pub(super) async fn lay(&self, fence: &Fence, state: &BenchState) -> Result<Laid> {
        let opened = self.opened(fence, state).await?;
        match opened.lay(state).await {
            Err(error) if error.kind() == ErrorKind::Unavailable => {
                self.forget(&opened.sandbox).await;
                self.opened(fence, state).await?.lay(state).await
            }
            laid => laid,
        }
    }

    /// The open sandbox for views with this fence; opened where there is none yet.
    async fn opened(&self, fence: &Fence, state: &BenchState) -> Result<Opened> {
        let place = Place {
            root: state.root.clone(),
            scratch: state.scratch.clone(),
        };
        let mut open = self.open.lock().await;
        if let Some(found) = open.iter().find(|one| one.fence == *fence && one.state == place) {
            return Ok(found.clone());
        }
        let sandbox = self.sandbox.open(self.request(fence, state)).await?;
        let left = sandbox.leftovers().await?;
        let opened = Opened {
            fence: fence.clone(),
            state: place,
            sandbox,
            leftovers: left.iter().map(|layer| layer.id().to_owned()).collect(),
        };
        open.push(opened.clone());
        if open.len() > OPEN {
            let in_use = self.live.sandbox().await;
            let is_free = |one: &Opened| in_use.as_ref().is_none_or(|used| !Arc::ptr_eq(used, &one.sandbox));
            if let Some(oldest) = open.iter().position(is_free) {
                open.remove(oldest).sandbox.close().await?;
            }
        }
        Ok(opened)
    }

    /// The open sandbox for this fence, for whoever looks after what a crash left.
    pub(super) async fn sandbox_for(&self, fence: &Fence, state: &BenchState) -> Result<Arc<dyn OpenSandbox>> {
        Ok(self.opened(fence, state).await?.sandbox)
    }

    /// Forgets which layers a crash left; whoever has dealt with one calls this.
    pub(super) async fn forget_leftover(&self, id: &str) {
        for opened in self.open.lock().await.iter_mut() {
            opened.leftovers.retain(|one| one != id);
        }
    }

    fn request(&self, fence: &Fence, state: &BenchState) -> SandboxRequest {
        let policy = self.rules.policy();
        SandboxRequest {
            bench: state.root.clone(),
            scratch: state.scratch.clone(),
            read_filter: fence.filter.clone().map(|filter| filter as Arc<dyn ReadFilter>),
            read_only: fence.read_only.clone(),
            network: policy.network,
            limits: Limits {
                // Times are those of single commands: what lives on has none.
                wall: None,
                cpu: None,
                ..self.rules.limits().clone()
            },
            system: policy.system_directories.clone(),
            require: policy.required(),
        }
    }

    /// What was done on a layer over the bench `state`. More than the limits allow is `too_large`, whichever sandbox read it.
    pub(super) async fn effects_of(
        &self,
        layer: &dyn Layer,
        state: &BenchState,
        since: Option<&Mark>,
    ) -> Result<Effects> {
        let mut effects = layer.effects(since).await?;
        EffectTally::check(self.rules.limits().effects(), &effects)?;
        add_corrupt_below_gone(&mut effects.effects, &state.corrupt);
        Ok(effects)
    }

    async fn forget(&self, sandbox: &Arc<dyn OpenSandbox>) {
        let mut open = self.open.lock().await;
        open.retain(|one| !Arc::ptr_eq(&one.sandbox, sandbox));
        // It is dead; what can still be given back is.
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

/// A bench that is this workspace's alone. Dropped, it takes nothing.
#[derive(Debug)]
pub(super) struct Held {
    bench: Arc<dyn Bench>,
    head: u64,
    is_held: bool,
}

impl Held {
    /// Has the bench take over what a layer left, and lets others have it.
    pub(super) async fn take(mut self, taken: Taken<'_>) -> Result<()> {
        self.is_held = false;
        self.bench.take(taken).await
    }

    /// Lets others have it.
    pub(super) async fn release(self) -> Result<()> {
        let head = self.head;
        self.take(nothing(head)).await
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.is_held {
            let (bench, head) = (self.bench.clone(), self.head);
            in_background(async move {
                // What cannot be given back now is with the end of the process.
                let _ = bench.take(nothing(head)).await;
            });
        }
    }
}

fn nothing(head: u64) -> Taken<'static> {
    Taken {
        committed: &[],
        excluded: &[],
        head,
    }
}

impl Opened {
    async fn lay(&self, state: &BenchState) -> Result<Laid> {
        let layer = match &state.stands {
            Some(stands) => self.sandbox.lay_on(stands).await?,
            None => self.sandbox.lay().await?,
        };
        Ok(Laid {
            sandbox: self.sandbox.clone(),
            layer,
            leftovers: self.leftovers.clone(),
        })
    }
}

/// Adds that a damaged file is gone where the directory that holds it is: the bench does not have the file, so that no layer can tell.
fn add_corrupt_below_gone(effects: &mut Vec<Effect>, corrupt: &[EntryPath]) {
    let find = |effects: &[Effect], path: &[u8]| effects.binary_search_by(|one| one.path.as_bytes().cmp(path));
    for path in corrupt {
        let bytes = path.as_bytes();
        let slashes = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        let mut above = slashes.filter_map(|(end, _)| find(effects, &bytes[..end]).ok());
        let is_gone = above.any(|place| !matches!(effects[place].placed, Placed::Directory { .. }));
        if let (true, Err(place)) = (is_gone, find(effects, bytes)) {
            let gone = Effect {
                path: path.clone(),
                placed: Placed::Nothing,
                modified: None,
                is_lost_below: false,
            };
            effects.insert(place, gone);
        }
    }
}

/// Whether an error says that what a command left is over a limit: then nothing of it is kept.
pub(super) fn is_over_limit(error: &Error) -> bool {
    error.kind() == ErrorKind::TooLarge
}

/// Whether neither files nor processes outside are in reach.
pub(super) fn is_isolated(enforced: &[Enforced]) -> bool {
    let holds = |guard| enforced.iter().any(|one| one.guard == guard && one.is_enforced);
    holds(Guard::Files) && holds(Guard::Processes)
}

/// The workshop of an open workspace: what lives in it ends with it.
#[derive(Debug)]
pub(crate) struct Owned(pub(crate) Arc<Workshop>);

impl Drop for Owned {
    fn drop(&mut self) {
        self.0.processes.abandon();
        self.0.contexts.abandon();
        let shop = self.0.clone();
        in_background(async move {
            // Whatever cannot be kept now is found when the workspace is opened again.
            let _ = shop.close().await;
        });
    }
}

/// Does `work` on the runtime that is there; without one, it is left undone.
pub(super) fn in_background(work: impl Future<Output = ()> + Send + 'static) {
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        runtime.spawn(work);
    }
}

impl Workspace {
    /// Whether commands can run in it.
    pub fn has_shell(&self) -> bool {
        self.shared.workshop.is_some()
    }

    /// What its commands share; `unsupported` where it has none.
    pub(crate) fn workshop(&self) -> Result<&Arc<Workshop>> {
        let owned = self.shared.workshop.as_ref().ok_or_else(|| {
            Error::new(ErrorKind::Unsupported, "this workspace does not run commands")
                .hint("declare the capability `shell` for it")
        })?;
        Ok(&owned.0)
    }

    /// Takes what is to be said of commands that were ended because they did not stand still. Each is told once, with the next answer.
    pub fn take_pause_notices(&self) -> Vec<String> {
        let workshop = self.shared.workshop.as_ref();
        workshop.map_or_else(Vec::new, |owned| owned.0.live.take_pause_notices(self))
    }

    /// Takes over what the processes in the background did, so that an operation sees it.
    pub(crate) async fn settle_live(&self) -> Result<()> {
        match &self.shared.workshop {
            Some(owned) => owned.0.settle(Taking::default()).await.map(|_| ()),
            None => Ok(()),
        }
    }

    /// Ends everything that lives in the workspace, keeps what it did, and gives back what it holds. Doing so twice is fine; a command
    /// that is run afterwards opens it again.
    pub async fn close(&self) -> Result<()> {
        match &self.shared.workshop {
            Some(owned) => owned.0.close().await,
            None => Ok(()),
        }
    }
}
