//! The workspace itself and how one is put together.

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use garret_core::{
    Actor, Clock, CodePolicy, EntryKind, EntryPath, Error, ErrorKind, EventSink, FsPolicy, FsRules, History, Ids,
    NearContent, NoEvents, RandomIds, Reach, Reference, Result, Storage, StorageInfo, SystemClock, Visibility, WsPath,
};
use tokio::sync::watch;

use crate::code::CodeRules;
use crate::hard_links::HardLinkMemo;
use crate::host_path::HostRoots;
use crate::quota::Quota;
use crate::shell::ShellParts;
use crate::shell::benched::Benched;
use crate::shell::workshop::{Owned, Workshop};
use crate::{Approver, Neighbours, TurnWaiting};

/// An agent's room: one tree of files, and what may be done there. Cheap to clone; clones share everything but the actor.
#[derive(Debug, Clone)]
pub struct Workspace {
    pub(crate) shared: Arc<Shared>,
    pub(crate) view: Arc<View>,
    pub(crate) actor: Arc<Actor>,
    /// Where it is shown that an operation waits for its turn.
    pub(crate) turn_watch: Option<watch::Sender<Option<TurnWaiting>>>,
    /// Where this is the workspace of one operation: the hard links that the operation met.
    pub(crate) hard_links: Option<Arc<HardLinkMemo>>,
}

/// What all views of one workspace have in common.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) name: String,
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) history: Option<Arc<dyn History>>,
    pub(crate) reference: Option<Reference>,
    pub(crate) branch_config: Option<serde_json::Value>,
    pub(crate) neighbours: Option<Arc<dyn Neighbours>>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ids: Arc<dyn Ids>,
    pub(crate) events: Arc<dyn EventSink>,
    pub(crate) approver: Option<Arc<dyn Approver>>,
    pub(crate) approved: Arc<Mutex<HashSet<(WsPath, String)>>>,
    /// How much of the files is read and searched at once.
    pub(crate) reach: Reach,
    /// Whether the files are a view of the past that may lack some: those that the history had not met by then.
    pub(crate) is_partial: bool,
    /// In a view of the past, the files as they are now.
    pub(crate) present: Option<Arc<dyn Storage>>,
    /// Where content of files that are far away lies at hand.
    pub(crate) near: Option<Arc<dyn NearContent>>,
    /// The directory of the host in which the files lie, where they lie in one.
    pub(crate) host_roots: HostRoots,
    /// What code may run, where it may.
    pub(crate) code: Option<CodeRules>,
    /// Where commands run, where they may.
    pub(crate) workshop: Option<Owned>,
}

/// A subdirectory with the policies that hold there: its own and those of every view around it.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) base: WsPath,
    pub(crate) layers: Vec<Arc<Layer>>,
    pub(crate) env: BTreeMap<String, String>,
}

/// One policy and the directory it speaks of; its globs are relative to that directory.
#[derive(Debug)]
pub(crate) struct Layer {
    pub(crate) base: WsPath,
    pub(crate) rules: FsRules,
    pub(crate) quota: Option<Quota>,
}

impl View {
    /// Whether an entry of the storage shows in lists and searches.
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

    /// Whether commands may not see everything: the view is narrower than the storage, or a rule on reading depends on the path.
    pub(crate) fn hides_paths(&self) -> bool {
        let is_ruled = self.layers.iter().any(|layer| layer.rules.depends_on_path_to_read());
        is_ruled || !self.base.is_root()
    }

    /// What this view shows of an entry of the storage: what may be read, and the way to its directory.
    pub(crate) fn visibility(&self, path: &EntryPath, kind: EntryKind) -> Visibility {
        // A name that is no path is asked about only where not everything shows, and no rule can judge it.
        let Some(path) = path.as_path() else {
            return Visibility::Hidden;
        };
        let is_directory = kind == EntryKind::Directory;
        if self.base.is_within(path) && *path != self.base {
            return match is_directory {
                true => Visibility::Partial,
                false => Visibility::Hidden,
            };
        }
        if !path.is_within(&self.base) || (*path != self.base && !self.is_visible(path, is_directory)) {
            return Visibility::Hidden;
        }
        match is_directory && !self.may_read_all_below(path) {
            true => Visibility::Partial,
            false => Visibility::Whole,
        }
    }

    fn may_read_all_below(&self, directory: &WsPath) -> bool {
        self.layers.iter().all(|layer| {
            let relative = directory.relative_to(&layer.base);
            relative.is_some_and(|relative| layer.rules.may_read_all_below(&relative))
        })
    }

    /// Whether both look at the same directory under the same policies.
    pub(crate) fn has_rules_of(&self, other: &Self) -> bool {
        let mut layers = self.layers.iter().zip(&other.layers);
        self.layers.len() == other.layers.len() && layers.all(|(one, two)| one.has_rules_of(two))
    }
}

impl Layer {
    pub(crate) fn new(base: WsPath, policy: FsPolicy) -> Result<Self> {
        let rules = FsRules::new(policy)?;
        let quota = Quota::of(&rules);
        Ok(Self { base, rules, quota })
    }

    /// Whether both say the same of the same directory.
    pub(crate) fn has_rules_of(&self, other: &Self) -> bool {
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
            reach: Reach::default(),
            near: None,
            host_roots: HostRoots::default(),
            shell: None,
            code: None,
            actor: Actor {
                door: "api",
                ..Actor::default()
            },
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// The policy of this view: its own; those of the views around it hold besides.
    pub fn policy(&self) -> &FsPolicy {
        self.own_layer().rules.policy()
    }

    /// A small, serialisable handle that reopens this workspace in another process. One whose files end with this process has none:
    /// `unsupported`. So has a narrowed view, since a ref opens the whole.
    pub fn reference(&self) -> Result<Reference> {
        let reference = self.shared.reference.clone().filter(|_| self.view.layers.len() == 1);
        reference.ok_or_else(|| {
            Error::new(ErrorKind::Unsupported, "no reference can reopen this workspace")
                .hint("references are for whole workspaces whose files are kept after the process ends: `filestore` and `local`")
        })
    }

    /// What its storage is.
    pub fn storage_info(&self) -> StorageInfo {
        self.shared.storage.info()
    }

    /// Whether its files can be found by name and by content.
    pub fn has_search(&self) -> bool {
        self.shared.reach.is_searched
    }

    /// Whether its files are far away, so that looking through them takes its time.
    pub fn is_far(&self) -> bool {
        self.shared.reach.is_far
    }

    /// What commands in it find in their environment.
    pub fn environment(&self) -> &BTreeMap<String, String> {
        &self.view.env
    }

    /// The same workspace, with its operations attributed to `actor`.
    #[must_use]
    pub fn acting_as(&self, actor: Actor) -> Self {
        Self {
            actor: Arc::new(actor),
            ..self.clone()
        }
    }

    /// Where its ids come from.
    pub fn ids(&self) -> &dyn Ids {
        self.shared.ids.as_ref()
    }

    /// Who its operations are attributed to.
    pub fn actor(&self) -> &Actor {
        &self.actor
    }

    pub(crate) fn storage(&self) -> &dyn Storage {
        self.shared.storage.as_ref()
    }

    pub(crate) fn own_layer(&self) -> &Layer {
        self.view.layers.last().expect("a view has its own policy")
    }
}

/// Puts a [`Workspace`] together.
#[derive(Debug)]
pub struct WorkspaceBuilder {
    name: String,
    storage: Arc<dyn Storage>,
    history: Option<Arc<dyn History>>,
    reference: Option<Reference>,
    branch_config: Option<serde_json::Value>,
    neighbours: Option<Arc<dyn Neighbours>>,
    policy: FsPolicy,
    env: BTreeMap<String, String>,
    clock: Option<Arc<dyn Clock>>,
    ids: Arc<dyn Ids>,
    events: Arc<dyn EventSink>,
    approver: Option<Arc<dyn Approver>>,
    reach: Reach,
    near: Option<Arc<dyn NearContent>>,
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

    /// The configuration that is kept for its branches, so that one allows no more than what it was branched off.
    #[must_use]
    pub fn branch_config(mut self, config: serde_json::Value) -> Self {
        self.branch_config = Some(config);
        self
    }

    /// Who reaches the workspaces that are merged into this one; without one, a merge takes what their histories know.
    #[must_use]
    pub fn neighbours(mut self, neighbours: Arc<dyn Neighbours>) -> Self {
        self.neighbours = Some(neighbours);
        self
    }

    /// What may be done with the files.
    #[must_use]
    pub fn policy(mut self, policy: FsPolicy) -> Self {
        self.policy = policy;
        self
    }

    /// What commands find in their environment.
    #[must_use]
    pub fn env(mut self, env: BTreeMap<String, String>) -> Self {
        self.env = env;
        self
    }

    /// The clock; the system's where none is given.
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

    /// Where events go; nowhere where none is given.
    #[must_use]
    pub fn events(mut self, events: Arc<dyn EventSink>) -> Self {
        self.events = events;
        self
    }

    /// Who answers for the tools that need approval; without one they are refused.
    #[must_use]
    pub fn approver(mut self, approver: Arc<dyn Approver>) -> Self {
        self.approver = Some(approver);
        self
    }

    /// How much of the files is read and searched at once.
    #[must_use]
    pub fn reach(mut self, reach: Reach) -> Self {
        self.reach = reach;
        self
    }

    /// Where content of files that are far away lies at hand.
    #[must_use]
    pub fn near(mut self, near: Option<Arc<dyn NearContent>>) -> Self {
        self.near = near;
        self
    }

    /// The absolute paths by which the host knows the directory of the files, where they lie in one: paths beneath it name files of the
    /// workspace. No message shows them.
    #[must_use]
    pub fn host_directories(mut self, directories: &[PathBuf]) -> Self {
        self.host_roots = HostRoots::new(directories);
        self
    }

    /// Where commands run, and what they may do; without it none can.
    #[must_use]
    pub fn shell(mut self, shell: Option<ShellParts>) -> Self {
        self.shell = shell;
        self
    }

    /// What code may run, where commands can; without it none may.
    #[must_use]
    pub fn code(mut self, code: Option<CodePolicy>) -> Self {
        self.code = code;
        self
    }

    /// Who the operations are attributed to.
    #[must_use]
    pub fn actor(mut self, actor: Actor) -> Self {
        self.actor = actor;
        self
    }

    /// Checks the policy and opens the workspace.
    pub fn open(self) -> Result<Workspace> {
        let layer = Layer::new(WsPath::root(), self.policy)?;
        let shared = Shared {
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
        let view = View {
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
    /// The same workspace with commands: what lives in it and what others do to its files are kept in step.
    fn with_shell(self, parts: ShellParts) -> Result<Self> {
        let under = &self.shared;
        let shop = Arc::new(Workshop::new(parts, self.clone())?);
        let benched = |history: &Arc<dyn History>| -> Arc<dyn History> {
            Arc::new(Benched {
                shop: shop.clone(),
                inner: history.clone(),
            })
        };
        let shared = Shared {
            storage: Arc::new(Benched {
                shop: shop.clone(),
                inner: under.storage.clone(),
            }),
            history: under.history.as_ref().map(benched),
            workshop: Some(Owned(shop)),
            ..under.without_shell()
        };
        Ok(Self {
            shared: Arc::new(shared),
            ..self
        })
    }
}

impl Shared {
    /// The same, in which nothing runs.
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
