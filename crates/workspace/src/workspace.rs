//! The workspace itself and its builder.

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use garret_core::{
    AccessLimits, Actor, Clock, CodePolicy, EntryKind, EntryPath, Error, ErrorKind, EventSink, FsPolicy, FsRules,
    History, Ids, LocalContent, NoEvents, RandomIds, Reference, Result, Storage, StorageInfo, SystemClock, Visibility,
    WsPath,
};
use tokio::sync::watch;

use crate::code::CodeRules;
use crate::hard_links::HardLinkMemo;
use crate::host_path::HostRoots;
use crate::quota::Quota;
use crate::shell::ShellParts;
use crate::shell::background::live_wrappers::LiveLayerWrapper;
use crate::shell::runtime::{ShellRuntime, ShellRuntimeOwner};
use crate::{Approver, NeighbourWorkspaces, TurnWaiting};

/// An agent's room: one tree of files, and the operations that its policies allow. Cheap to clone; clones share
/// everything but the actor.
#[derive(Debug, Clone)]
pub struct Workspace {
    pub(crate) shared: Arc<WorkspaceState>,
    pub(crate) view: Arc<WorkspaceView>,
    pub(crate) actor: Arc<Actor>,
    /// The channel that reports when an operation waits for its turn.
    pub(crate) turn_watch: Option<watch::Sender<Option<TurnWaiting>>>,
    /// The hard links that one operation met; `None` unless this is the workspace of a single operation.
    pub(crate) hard_links: Option<Arc<HardLinkMemo>>,
}

/// The state that all views of one workspace share.
#[derive(Debug)]
pub(crate) struct WorkspaceState {
    pub(crate) name: String,
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) history: Option<Arc<dyn History>>,
    pub(crate) reference: Option<Reference>,
    pub(crate) branch_config: Option<serde_json::Value>,
    pub(crate) neighbours: Option<Arc<dyn NeighbourWorkspaces>>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ids: Arc<dyn Ids>,
    pub(crate) events: Arc<dyn EventSink>,
    pub(crate) approver: Option<Arc<dyn Approver>>,
    pub(crate) approved: Arc<Mutex<HashSet<(WsPath, String)>>>,
    /// How much of the files is read and searched at once.
    pub(crate) reach: AccessLimits,
    /// Whether this is a view of the past from which files may be missing: those that the history had not captured by
    /// then.
    pub(crate) is_partial: bool,
    /// In a view of the past, the storage with the files as they are now.
    pub(crate) present: Option<Arc<dyn Storage>>,
    /// The local copies of content whose files are remote.
    pub(crate) near: Option<Arc<dyn LocalContent>>,
    /// The paths of the host directory that holds the files, if there is one.
    pub(crate) host_roots: HostRoots,
    /// The rules for running code; `None` if no code may run.
    pub(crate) code: Option<CodeRules>,
    /// The runtime of commands; `None` if no command may run.
    pub(crate) workshop: Option<ShellRuntimeOwner>,
}

/// A subdirectory with the policies that apply there: its own and those of every view around it.
#[derive(Debug)]
pub(crate) struct WorkspaceView {
    pub(crate) base: WsPath,
    pub(crate) layers: Vec<Arc<PolicyLayer>>,
    pub(crate) env: BTreeMap<String, String>,
}

/// One policy and the directory it applies to; its globs are relative to that directory.
#[derive(Debug)]
pub(crate) struct PolicyLayer {
    pub(crate) base: WsPath,
    pub(crate) rules: FsRules,
    pub(crate) quota: Option<Quota>,
}

impl WorkspaceView {
    /// Whether lists and searches show the entry of the storage at `path`.
    pub(crate) fn is_visible(&self, path: &WsPath, is_directory: bool) -> bool {
        self.layers.iter().all(|layer| {
            path.relative_to(&layer.base)
                .is_some_and(|relative| layer.rules.is_visible(&relative, is_directory))
        })
    }

    /// Whether a path of the storage, as bytes, is below the directory of this view.
    pub(crate) fn has_in_directory(&self, path: &[u8]) -> bool {
        let base = self.base.as_str().as_bytes();
        let below = path.strip_prefix(base);
        base.is_empty() || below.is_some_and(|below| below.first() == Some(&b'/'))
    }

    /// Whether some files are hidden from commands: the view is narrower than the storage, or a rule on reading depends
    /// on the path.
    pub(crate) fn hides_paths(&self) -> bool {
        let is_ruled = self.layers.iter().any(|layer| layer.rules.depends_on_path_to_read());
        is_ruled || !self.base.is_root()
    }

    /// Returns how much of an entry of the storage this view shows: entries that may be read, and the directories above
    /// them.
    pub(crate) fn visibility_of(&self, path: &EntryPath, kind: EntryKind) -> Visibility {
        // Visibility is asked for only if the view hides something, and no rule can judge a name that is not UTF-8.
        let Some(path) = path.as_path() else {
            return Visibility::Hidden;
        };
        let is_directory = kind == EntryKind::Directory;
        // A directory above the view is shown in part: it leads to the directory of the view.
        if self.base.is_within(path) && *path != self.base {
            return if is_directory {
                Visibility::Partial
            } else {
                Visibility::Hidden
            };
        }
        if !path.is_within(&self.base) || (*path != self.base && !self.is_visible(path, is_directory)) {
            return Visibility::Hidden;
        }
        if is_directory && !self.may_read_all_below(path) {
            Visibility::Partial
        } else {
            Visibility::Whole
        }
    }

    fn may_read_all_below(&self, directory: &WsPath) -> bool {
        self.layers.iter().all(|layer| {
            let relative = directory.relative_to(&layer.base);
            relative.is_some_and(|relative| layer.rules.may_read_all_below(&relative))
        })
    }

    /// Whether both views have the same directory and the same policies.
    pub(crate) fn has_same_rules(&self, other: &Self) -> bool {
        let mut layers = self.layers.iter().zip(&other.layers);
        self.layers.len() == other.layers.len() && layers.all(|(one, two)| one.has_same_rules(two))
    }
}

impl PolicyLayer {
    pub(crate) fn new(base: WsPath, policy: FsPolicy) -> Result<Self> {
        let rules = FsRules::new(policy)?;
        let quota = Quota::from_rules(&rules);
        Ok(Self { base, rules, quota })
    }

    /// Whether both layers apply the same policy to the same directory.
    pub(crate) fn has_same_rules(&self, other: &Self) -> bool {
        self.base == other.base && self.rules.policy() == other.rules.policy()
    }
}

impl Workspace {
    /// Starts a workspace on `storage`.
    pub fn builder(storage: Arc<dyn Storage>) -> WorkspaceBuilder {
        WorkspaceBuilder {
            name: "workspace".into(),
            storage,
            history: None,
            reference: None,
            branch_config: None,
            neighbours: None,
            policy: FsPolicy::default(),
            env: BTreeMap::new(),
            clock: None,
            ids: Arc::new(RandomIds),
            events: Arc::new(NoEvents),
            approver: None,
            reach: AccessLimits::default(),
            near: None,
            host_roots: HostRoots::default(),
            shell: None,
            code: None,
            actor: Actor {
                door: "api".into(),
                ..Actor::default()
            },
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// The policy of this view; the policies of the views around it apply as well.
    pub fn policy(&self) -> &FsPolicy {
        self.own_layer().rules.policy()
    }

    /// Returns a small, serialisable handle that reopens this workspace in another process. A workspace whose files end
    /// with this process has none, and neither has a narrowed view: `unsupported`.
    pub fn reference(&self) -> Result<Reference> {
        // A ref opens the whole workspace, so one made in a narrowed view would be wider than the view.
        let reference = self.shared.reference.clone().filter(|_| self.view.layers.len() == 1);
        reference.ok_or_else(|| {
            Error::new(ErrorKind::Unsupported, "no reference can reopen this workspace")
                .hint("references are for whole workspaces whose files are kept after the process ends: `filestore` and `local`")
        })
    }

    /// Describes its storage.
    pub fn storage_info(&self) -> StorageInfo {
        self.shared.storage.info()
    }

    /// Whether its files can be found by name and by content.
    pub fn has_search(&self) -> bool {
        self.shared.reach.is_searchable
    }

    /// Whether its files are remote, so that a search through them takes long.
    pub fn is_remote(&self) -> bool {
        self.shared.reach.is_remote
    }

    /// The environment variables of commands in this view.
    pub fn environment(&self) -> &BTreeMap<String, String> {
        &self.view.env
    }

    /// Returns this workspace with its operations attributed to `actor`.
    #[must_use]
    pub fn acting_as(&self, actor: Actor) -> Self {
        Self {
            actor: Arc::new(actor),
            ..self.clone()
        }
    }

    /// The source of its ids.
    pub fn ids(&self) -> &dyn Ids {
        self.shared.ids.as_ref()
    }

    /// The actor that its operations are attributed to.
    pub fn actor(&self) -> &Actor {
        &self.actor
    }

    pub(crate) fn storage(&self) -> &dyn Storage {
        self.shared.storage.as_ref()
    }

    pub(crate) fn own_layer(&self) -> &PolicyLayer {
        self.view.layers.last().expect("a view has its own policy")
    }
}

/// Builds a [`Workspace`].
#[derive(Debug)]
pub struct WorkspaceBuilder {
    name: String,
    storage: Arc<dyn Storage>,
    history: Option<Arc<dyn History>>,
    reference: Option<Reference>,
    branch_config: Option<serde_json::Value>,
    neighbours: Option<Arc<dyn NeighbourWorkspaces>>,
    policy: FsPolicy,
    env: BTreeMap<String, String>,
    clock: Option<Arc<dyn Clock>>,
    ids: Arc<dyn Ids>,
    events: Arc<dyn EventSink>,
    approver: Option<Arc<dyn Approver>>,
    reach: AccessLimits,
    near: Option<Arc<dyn LocalContent>>,
    host_roots: HostRoots,
    shell: Option<ShellParts>,
    code: Option<CodePolicy>,
    actor: Actor,
}

impl WorkspaceBuilder {
    /// The name that events and prefixed tools carry.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// The history of the same files.
    #[must_use]
    pub fn history(mut self, history: Option<Arc<dyn History>>) -> Self {
        self.history = history;
        self
    }

    /// The handle that reopens the workspace elsewhere.
    #[must_use]
    pub fn reference(mut self, reference: Option<Reference>) -> Self {
        self.reference = reference;
        self
    }

    /// The configuration that is kept for its branches, so that a branch allows no more than the workspace it was
    /// branched from.
    #[must_use]
    pub fn branch_config(mut self, config: serde_json::Value) -> Self {
        self.branch_config = Some(config);
        self
    }

    /// The access to the workspaces that are merged into this one; without it, a merge takes only changes that their
    /// histories have recorded.
    #[must_use]
    pub fn neighbours(mut self, neighbours: Arc<dyn NeighbourWorkspaces>) -> Self {
        self.neighbours = Some(neighbours);
        self
    }

    /// The policy of file operations.
    #[must_use]
    pub fn policy(mut self, policy: FsPolicy) -> Self {
        self.policy = policy;
        self
    }

    /// The environment variables of commands.
    #[must_use]
    pub fn env(mut self, env: BTreeMap<String, String>) -> Self {
        self.env = env;
        self
    }

    /// The clock; by default, the clock of the system.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// The source of ids.
    #[must_use]
    pub fn ids(mut self, ids: Arc<dyn Ids>) -> Self {
        self.ids = ids;
        self
    }

    /// The receiver of events; by default, events are dropped.
    #[must_use]
    pub fn events(mut self, events: Arc<dyn EventSink>) -> Self {
        self.events = events;
        self
    }

    /// The approver that answers for tools which need approval; without one, they are refused.
    #[must_use]
    pub fn approver(mut self, approver: Arc<dyn Approver>) -> Self {
        self.approver = Some(approver);
        self
    }

    /// How much of the files is read and searched at once.
    #[must_use]
    pub fn access_limits(mut self, reach: AccessLimits) -> Self {
        self.reach = reach;
        self
    }

    /// The local copies of content whose files are remote.
    #[must_use]
    pub fn local_content(mut self, near: Option<Arc<dyn LocalContent>>) -> Self {
        self.near = near;
        self
    }

    /// The absolute paths of the host directory that holds the files, if there is one: paths below it name files of the
    /// workspace. No message shows them.
    #[must_use]
    pub fn host_directories(mut self, directories: &[PathBuf]) -> Self {
        self.host_roots = HostRoots::new(directories);
        self
    }

    /// The sandbox, the bench and the policy of commands; without them, no command can run.
    #[must_use]
    pub fn shell(mut self, shell: Option<ShellParts>) -> Self {
        self.shell = shell;
        self
    }

    /// The policy of running code, in a workspace that has commands; without it, no code may run.
    #[must_use]
    pub fn code(mut self, code: Option<CodePolicy>) -> Self {
        self.code = code;
        self
    }

    /// The actor that operations are attributed to.
    #[must_use]
    pub fn actor(mut self, actor: Actor) -> Self {
        self.actor = actor;
        self
    }

    /// Checks the policy and opens the workspace.
    pub fn open(self) -> Result<Workspace> {
        let layer = PolicyLayer::new(WsPath::root(), self.policy)?;
        let shared = WorkspaceState {
            name: self.name,
            storage: self.storage,
            history: self.history,
            reference: self.reference,
            branch_config: self.branch_config,
            neighbours: self.neighbours,
            clock: self.clock.unwrap_or_else(|| Arc::new(SystemClock::default())),
            ids: self.ids,
            events: self.events,
            approver: self.approver,
            approved: Arc::default(),
            reach: self.reach,
            is_partial: false,
            present: None,
            near: self.near,
            host_roots: self.host_roots,
            code: self.code.map(CodeRules::new).transpose()?,
            workshop: None,
        };
        let view = WorkspaceView {
            base: WsPath::root(),
            layers: vec![Arc::new(layer)],
            env: self.env,
        };
        let workspace = Workspace {
            shared: Arc::new(shared),
            view: Arc::new(view),
            actor: Arc::new(self.actor),
            turn_watch: None,
            hard_links: None,
        };
        match self.shell {
            Some(parts) => workspace.with_shell(parts),
            None => Ok(workspace),
        }
    }
}

impl Workspace {
    /// Returns this workspace with commands. Its storage and history are wrapped: a change of the files is made while
    /// the processes in the background are paused.
    fn with_shell(self, parts: ShellParts) -> Result<Self> {
        let under = &self.shared;
        let shop = Arc::new(ShellRuntime::new(parts, self.clone())?);
        let benched = |history: &Arc<dyn History>| -> Arc<dyn History> {
            Arc::new(LiveLayerWrapper {
                shop: shop.clone(),
                inner: history.clone(),
            })
        };
        let shared = WorkspaceState {
            storage: Arc::new(LiveLayerWrapper {
                shop: shop.clone(),
                inner: under.storage.clone(),
            }),
            history: under.history.as_ref().map(benched),
            workshop: Some(ShellRuntimeOwner(shop)),
            ..under.without_shell()
        };
        Ok(Self {
            shared: Arc::new(shared),
            ..self
        })
    }
}

impl WorkspaceState {
    /// Returns a copy of this state without the runtime of commands.
    pub(crate) fn without_shell(&self) -> Self {
        Self {
            name: self.name.clone(),
            storage: self.storage.clone(),
            history: self.history.clone(),
            reference: self.reference.clone(),
            branch_config: self.branch_config.clone(),
            neighbours: self.neighbours.clone(),
            clock: self.clock.clone(),
            ids: self.ids.clone(),
            events: self.events.clone(),
            approver: self.approver.clone(),
            approved: self.approved.clone(),
            reach: self.reach.clone(),
            is_partial: self.is_partial,
            present: self.present.clone(),
            near: self.near.clone(),
            host_roots: self.host_roots.clone(),
            code: self.code.clone(),
            workshop: None,
        }
    }
}
