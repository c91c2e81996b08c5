//! The workspace itself and its builder.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use garret_core::{
    AccessLimits, Actor, Clock, CodePolicy, Error, ErrorKind, EventSink, Exclusions, FsPolicy, History, Ids, NoEvents,
    OpenedStorage, RandomIds, Reference, Result, StorageInfo, SystemClock, WsPath,
};
use tokio::sync::watch;

use crate::code::CodeRules;
use crate::file_access::{FileAccess, FileSource, OperationContext};
use crate::host_path::HostRoots;
use crate::shell::ShellParts;
use crate::shell::runtime::{ShellRuntime, ShellRuntimeOwner};
use crate::view::{PolicyLayer, WorkspaceView};
use crate::{Approver, NeighbourWorkspaces, TurnWaiting};

/// An agent's room: one tree of files, and the operations that its policies allow. Cheap to clone; clones share
/// everything but the actor.
///
/// This type is the list of the operations. Each of them is an event around the work of a type that has only the state
/// which the work needs: `FileAccess`, `HistoryAccess`, `CommandAccess` or `CodeAccess`.
#[derive(Debug, Clone)]
pub struct Workspace {
    pub(crate) files: FileAccess,
    pub(crate) shared: Arc<WorkspaceState>,
    /// The channel that reports when an operation waits for its turn.
    pub(crate) turn_watch: Option<watch::Sender<Option<TurnWaiting>>>,
}

/// The state besides the files that all views of one workspace share.
#[derive(Debug, Default)]
pub(crate) struct WorkspaceState {
    pub(crate) reference: Option<Reference>,
    pub(crate) neighbours: Option<Arc<dyn NeighbourWorkspaces>>,
    /// The rules for running code; `None` if no code may run.
    pub(crate) code: Option<CodeRules>,
    /// The runtime of commands; `None` if no command may run.
    pub(crate) shell: Option<ShellRuntimeOwner>,
}

impl Workspace {
    /// Starts a workspace on a storage, or on one that a factory opened, with everything that the factory knows about it.
    pub fn builder(opened: impl Into<OpenedStorage>) -> WorkspaceBuilder {
        WorkspaceBuilder {
            name: "workspace".into(),
            opened: opened.into(),
            reference: None,
            branch_config: None,
            neighbours: None,
            policy: FsPolicy::default(),
            env: BTreeMap::new(),
            clock: None,
            ids: Arc::new(RandomIds),
            events: Arc::new(NoEvents),
            approver: None,
            exclusions: Exclusions::default(),
            shell: None,
            code: None,
            actor: Actor::from_door("api"),
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.files.context.name
    }

    /// The policy of this view; the policies of the views around it apply as well.
    pub fn policy(&self) -> &FsPolicy {
        self.files.view.own_layer().rules.policy()
    }

    /// Returns a small, serialisable handle that reopens this workspace in another process. A workspace whose files end
    /// with this process has none, and neither has a narrowed view: `unsupported`.
    pub fn reference(&self) -> Result<Reference> {
        // A ref opens the whole workspace, so one made in a narrowed view would be wider than the view.
        let reference = self
            .shared
            .reference
            .clone()
            .filter(|_| self.files.view.layers.len() == 1);
        reference.ok_or_else(|| {
            Error::new(ErrorKind::Unsupported, "no reference can reopen this workspace")
                .hint("references are for whole workspaces whose files are kept after the process ends: `filestore` and `local`")
        })
    }

    /// Describes its storage.
    pub fn storage_info(&self) -> StorageInfo {
        self.files.source.storage.info()
    }

    /// Whether its files can be found by name and by content.
    pub fn has_search(&self) -> bool {
        self.files.source.access_limits.is_searchable
    }

    /// Whether its files are remote, so that a search through them takes long.
    pub fn is_remote(&self) -> bool {
        self.files.source.access_limits.is_remote
    }

    /// The environment variables of commands in this view.
    pub fn environment(&self) -> &BTreeMap<String, String> {
        &self.files.view.env
    }

    /// Returns this workspace with its operations attributed to `actor`.
    #[must_use]
    pub fn acting_as(&self, actor: Actor) -> Self {
        let files = FileAccess {
            actor: Arc::new(actor),
            ..self.files.clone()
        };
        Self { files, ..self.clone() }
    }

    /// The source of its ids.
    pub fn ids(&self) -> &dyn Ids {
        self.files.context.ids.as_ref()
    }

    /// The actor that its operations are attributed to.
    pub fn actor(&self) -> &Actor {
        &self.files.actor
    }
}

/// Builds a [`Workspace`].
#[derive(Debug)]
pub struct WorkspaceBuilder {
    name: String,
    opened: OpenedStorage,
    reference: Option<Reference>,
    branch_config: Option<serde_json::Value>,
    neighbours: Option<Arc<dyn NeighbourWorkspaces>>,
    policy: FsPolicy,
    env: BTreeMap<String, String>,
    clock: Option<Arc<dyn Clock>>,
    ids: Arc<dyn Ids>,
    events: Arc<dyn EventSink>,
    approver: Option<Arc<dyn Approver>>,
    exclusions: Exclusions,
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
        self.opened.history = history;
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
    pub fn access_limits(mut self, limits: AccessLimits) -> Self {
        self.opened.access_limits = limits;
        self
    }

    /// The paths that are excluded from history. Only commands write there.
    #[must_use]
    pub fn exclusions(mut self, exclusions: Exclusions) -> Self {
        self.exclusions = exclusions;
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
        let opened = self.opened;
        // Absolute paths below the directory that holds the files name files of the workspace.
        let host_directories: Vec<_> = opened.directory.into_iter().chain(opened.given_directory).collect();
        let source = FileSource {
            storage: opened.storage,
            history: opened.history,
            branch_config: self.branch_config,
            is_partial: false,
            present: None,
            access_limits: opened.access_limits,
            local_content: opened.local_content,
            host_roots: HostRoots::new(&host_directories),
            exclusions: Exclusions::default(),
            derived: self
                .shell
                .as_ref()
                .map(|parts| parts.derived.clone())
                .unwrap_or_default(),
            shell: None,
        };
        let context = OperationContext {
            name: self.name,
            clock: self.clock.unwrap_or_else(|| Arc::new(SystemClock::default())),
            ids: self.ids,
            events: self.events,
            approver: self.approver,
            consents: Mutex::default(),
        };
        let view = WorkspaceView {
            base: WsPath::root(),
            layers: vec![Arc::new(layer)],
            env: self.env,
        };
        let plain = FileAccess {
            source: Arc::new(source),
            context: Arc::new(context),
            view: Arc::new(view),
            actor: Arc::new(self.actor),
            hard_links: None,
        };
        let exclusions = self.exclusions;
        let shell = self
            .shell
            .map(|parts| ShellRuntime::new(parts, exclusions.clone(), plain.clone()));
        let shell = shell.transpose()?.map(Arc::new);
        // A change of the files is made while the processes in the background are paused, and no operation writes at
        // excluded paths.
        let files = plain.on_source(Arc::new(FileSource {
            shell: shell.clone(),
            exclusions,
            ..(*plain.source).clone()
        }));
        let shared = WorkspaceState {
            reference: self.reference,
            neighbours: self.neighbours,
            code: self.code.map(CodeRules::new).transpose()?,
            shell: shell.map(ShellRuntimeOwner),
        };
        Ok(Workspace {
            files,
            shared: Arc::new(shared),
            turn_watch: None,
        })
    }
}
