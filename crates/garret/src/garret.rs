//! The composition root: assembles storages, clock, ids, events and approver into a workspace with its tools.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use garret_core::path::quote;
use garret_core::{
    Actor, Clock, DeclaredCapability, Error, EventSink, Exclusions, FsPolicy, FsRestriction, FsRules, HistoryMode, Ids,
    MemoryFactory, NoEvents, OpenContext, OpenedStorage, RandomIds, Reference, Result, SandboxMount, StorageConfig,
    StorageFactory, StorageRegistry, SystemClock, WorkspaceConfig, shape,
};
use garret_depot::Depot;
use garret_storage::LocalFactory;
use garret_tools::{Toolbox, tool_names};
use garret_workspace::{Approver, Workspace};

use crate::anchored_local::{AnchoredLocalFactory, local_storage, not_utf8_error};
use crate::cached_s3::CachedS3Factory;
use crate::commands::{SandboxesByKind, default_sandboxes};
use crate::filestore::FilestoreFactory;
use crate::home::{self, Home};
use crate::host_user::HostUser;
use crate::journal::{branch_config, keep_without_history_error, no_location_error};
use crate::memory_with_history::MemoryWithHistoryFactory;

/// The name of a workspace that was given none.
pub const UNNAMED: &str = "workspace";

/// Opens workspaces. Cheap to clone; a clone can be changed without touching the original.
#[derive(Debug, Clone)]
pub struct Garret {
    storages: StorageRegistry,
    pub(crate) home: Option<Home>,
    pub(crate) sandboxes: SandboxesByKind,
    pub(crate) environment: BTreeMap<String, String>,
    pub(crate) user: Option<HostUser>,
    pub(crate) mounts: Vec<SandboxMount>,
    pub(crate) clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    events: Arc<dyn EventSink>,
    approver: Option<Arc<dyn Approver>>,
    actor: Actor,
}

impl Default for Garret {
    fn default() -> Self {
        Self::new()
    }
}

impl Garret {
    /// Creates a composition root with the storages `memory`, `local`, `filestore` and `s3`, the sandboxes `namespace`
    /// and `host`, the system's clock and random ids. Events are dropped, there is no approver, and there is no home:
    /// history ends with the process unless [`Garret::home`] sets one.
    pub fn new() -> Self {
        let mut storages = StorageRegistry::empty();
        storages.register(MemoryWithHistoryFactory);
        storages.register(LocalFactory);
        storages.register(FilestoreFactory::default());
        storages.register(CachedS3Factory::default());
        Self {
            storages,
            home: None,
            sandboxes: default_sandboxes(),
            environment: BTreeMap::new(),
            user: None,
            mounts: Vec::new(),
            clock: Arc::new(SystemClock::default()),
            ids: Arc::new(RandomIds),
            events: Arc::new(NoEvents),
            approver: None,
            actor: Actor::from_door("api"),
        }
    }

    /// Keeps workspaces, their history and their content in the directory `home`, which is made if it is missing.
    #[must_use]
    pub fn home(mut self, home: Home) -> Self {
        self.storages.register(FilestoreFactory {
            home: Some(home.clone()),
        });
        self.storages.register(CachedS3Factory::in_home(home.clone()));
        self.home = Some(home);
        self
    }

    /// Adds a storage under its kind; a storage of the same kind is replaced.
    #[must_use]
    pub fn register(mut self, factory: impl StorageFactory + 'static) -> Self {
        self.storages.register(factory);
        self
    }

    /// Takes relative directories of `local` from `directory`, as a configuration file means them, instead of from the
    /// current directory of the process.
    #[must_use]
    pub fn relative_to(self, directory: impl AsRef<Path>) -> Self {
        self.register(AnchoredLocalFactory::new(directory.as_ref()))
    }

    /// Takes relative directories of `local` from `directory`, and refuses as `denied` to open one that does not lie in
    /// it, whatever links lead there.
    #[must_use]
    pub fn confined_to(self, directory: impl AsRef<Path>) -> Self {
        self.register(AnchoredLocalFactory::new_confined(directory.as_ref()))
    }

    /// Sets the clock.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Sets the source of ids.
    #[must_use]
    pub fn ids(mut self, ids: Arc<dyn Ids>) -> Self {
        self.ids = ids;
        self
    }

    /// Sets the receiver of the events of every workspace that is opened from now on.
    #[must_use]
    pub fn events(mut self, events: Arc<dyn EventSink>) -> Self {
        self.events = events;
        self
    }

    /// Sets the approver that answers for the tools which a policy lists under `require_approval`.
    #[must_use]
    pub fn approver(mut self, approver: Arc<dyn Approver>) -> Self {
        self.approver = Some(approver);
        self
    }

    /// Removes the approver: an operation that needs approval is refused.
    #[must_use]
    pub fn without_approver(mut self) -> Self {
        self.approver = None;
        self
    }

    /// Sets the actor that operations are attributed to.
    #[must_use]
    pub fn actor(mut self, actor: Actor) -> Self {
        self.actor = actor;
        self
    }

    /// The storages it can open.
    pub fn storages(&self) -> &StorageRegistry {
        &self.storages
    }

    /// Opens a workspace on a storage URL, with everything at its default: `memory:`, `local:notes`.
    pub async fn open_url(&self, url: &str) -> Result<Toolbox> {
        let config = WorkspaceConfig::with_storage(StorageConfig::Url(url.to_owned()));
        self.open_config(UNNAMED, &config).await
    }

    /// Opens a workspace on an existing directory, with everything at its default.
    pub async fn open_dir(&self, directory: impl AsRef<Path>) -> Result<Toolbox> {
        self.open_config(UNNAMED, &Self::config_of_dir(directory)?).await
    }

    /// Returns the configuration by which [`Garret::open_dir`] opens, for a program that wants to change a part of it.
    pub fn config_of_dir(directory: impl AsRef<Path>) -> Result<WorkspaceConfig> {
        let directory = directory.as_ref().to_str().ok_or_else(not_utf8_error)?;
        Ok(WorkspaceConfig::with_storage(local_storage(directory)))
    }

    /// Checks a configuration as far as that is possible without opening its storage.
    pub fn check(&self, config: &WorkspaceConfig) -> Result<()> {
        self.storages.check_config(&config.storage)?;
        let policy = config.capabilities.fs.policy().unwrap_or_default();
        check_tools(&policy.require_approval)?;
        self.check_shell(config)?;
        if let Some(policy) = config.capabilities.code.policy() {
            policy.idle_timeout()?;
        }
        FsRules::new(policy).map(|_| ())
    }

    /// Checks a configuration as [`Garret::check`] does, and opens the storage if that needs neither a network nor a
    /// home: a directory of `local` must exist. Nothing is created.
    pub async fn check_with_storage(&self, config: &WorkspaceConfig) -> Result<()> {
        self.check(config)?;
        self.history_mode(config)?;
        Exclusions::new(&config.exclude)?;
        let kind = config.storage.kind();
        if kind == LocalFactory.kind() || kind == MemoryFactory.kind() {
            let context = self.open_context(HistoryMode::Off);
            self.storages.open(&config.storage, &context).await?;
        }
        Ok(())
    }

    /// Opens the workspace `name` as configured. This is the default stack, from the ground up:
    ///
    /// 1. the storage, which keeps every path below its root and every write whole;
    /// 2. its history: the depot's own if the files are in the depot, else a journal beside the files;
    /// 3. the workspace over both: each operation passes log, approval, policy and quota, in that order, so that
    ///    whatever is refused, and by whom, is logged, and nothing counts against the quota that the policy did not
    ///    admit;
    /// 4. the sandbox beside it, if commands or code are declared: the effects of a command pass the same policy and
    ///    quota;
    /// 5. the tools over the workspace: one for each operation of each declared capability, and none besides.
    pub async fn open_config(&self, name: &str, config: &WorkspaceConfig) -> Result<Toolbox> {
        self.open_restricted(name, config, &FsRestriction::default()).await
    }

    /// Opens the workspace `name` as [`Garret::open_config`] does, with rules that hold for its tools and its commands
    /// beside those of the configuration.
    pub async fn open_restricted(
        &self,
        name: &str,
        config: &WorkspaceConfig,
        restriction: &FsRestriction,
    ) -> Result<Toolbox> {
        self.check(config)?;
        let mut mode = self.history_mode(config)?;
        let context = self.open_context(mode);
        let opened = self.storages.open(&config.storage, &context).await?;
        // Files that end with the process have their history for as long, whatever the mode says.
        let outlives = opened.location_id.is_some() || opened.history.is_some() && opened.reference.is_some();
        if mode == HistoryMode::Durable && !outlives {
            mode = HistoryMode::Session;
        }
        if config.history == Some(HistoryMode::Durable) && opened.history.is_none() && opened.location_id.is_none() {
            return Err(no_location_error(&opened.storage.info().kind));
        }
        if config.keep.is_some() && mode != HistoryMode::Durable {
            return Err(keep_without_history_error());
        }
        let opened = self
            .add_history(opened, &context, config.keep, Exclusions::new(&config.exclude)?)
            .await?;
        self.assemble_toolbox(name, config, opened, mode, restriction)
    }

    /// Builds the workspace and its tools on an opened storage.
    pub(crate) fn assemble_toolbox(
        &self,
        name: &str,
        config: &WorkspaceConfig,
        opened: OpenedStorage,
        history: HistoryMode,
        restriction: &FsRestriction,
    ) -> Result<Toolbox> {
        let config = &restrict_config(config, restriction);
        let reference = opened.reference.clone().map(|payload| Reference {
            schema: Reference::SCHEMA,
            kind: opened.storage.info().kind,
            name: name.to_owned(),
            payload,
            capabilities: config.capabilities.clone(),
            history,
            exclude: config.exclude.clone(),
            derived: config.derived.clone(),
        });
        let declared = config.capabilities.fs.policy();
        let shell = self.shell_parts(config, &opened, history)?;
        // Commands can reach the files anyway, so a program that holds the workspace is not kept from them either.
        let undeclared = || match &shell {
            Some(_) => restriction.restrict_policy(FsPolicy::default()),
            None => deny_all_policy(),
        };
        let policy = declared.clone().unwrap_or_else(undeclared);
        let mut builder = Workspace::builder(opened)
            .reference(reference)
            .branch_config(branch_config(config)?)
            .name(name)
            .policy(policy)
            .exclusions(Exclusions::new(&config.exclude)?)
            .shell(shell)
            .code(config.capabilities.code.policy())
            .env(config.env.clone())
            .clock(self.clock.clone())
            .ids(self.ids.clone())
            .events(self.events.clone())
            .actor(self.actor.clone());
        if self.home.is_some() {
            builder = builder.neighbours(Arc::new(self.clone()));
        }
        if let Some(approver) = &self.approver {
            builder = builder.approver(approver.clone());
        }
        Ok(Toolbox::with_capabilities(
            builder.open()?,
            config.tools.clone(),
            &config.capabilities,
        ))
    }
}

impl Garret {
    /// Returns the clock, the ids and the history mode that a storage factory may use.
    pub(crate) fn open_context(&self, history: HistoryMode) -> OpenContext {
        OpenContext {
            clock: self.clock.clone(),
            ids: self.ids.clone(),
            history,
        }
    }

    /// Returns the history mode of a workspace: the configured one, else `durable` if there is a home and `session` if
    /// not.
    fn history_mode(&self, config: &WorkspaceConfig) -> Result<HistoryMode> {
        match (config.history, &self.home) {
            (Some(HistoryMode::Durable), None) => {
                Err(Error::invalid("a durable history needs a home, and no home was given")
                    .hint("give a directory for the home, or set `history` to `session`"))
            }
            (Some(mode), _) => Ok(mode),
            (None, Some(_)) => Ok(HistoryMode::Durable),
            (None, None) => Ok(HistoryMode::Session),
        }
    }

    /// Opens the depot of the home; without a home it is `invalid`.
    pub async fn depot(&self) -> Result<Depot> {
        home::require_depot(self.home.as_ref(), &self.open_context(HistoryMode::Durable)).await
    }

    /// Reopens the workspace of a ref. A ref of an unknown kind or a newer schema, or one that is not whole, is refused
    /// with the reason.
    pub async fn resolve(&self, reference: &Reference) -> Result<Toolbox> {
        reference.check_schema()?;
        let config = WorkspaceConfig {
            capabilities: reference.capabilities.clone(),
            history: Some(reference.history),
            exclude: reference.exclude.clone(),
            derived: reference.derived.clone(),
            ..WorkspaceConfig::with_storage(StorageConfig::table(&reference.kind, reference.payload.clone()))
        };
        self.open_config(&reference.name, &config).await
    }
}

/// Returns the configuration with the rules of `restriction` added to its policy.
fn restrict_config(config: &WorkspaceConfig, restriction: &FsRestriction) -> WorkspaceConfig {
    // Added to the configuration itself, so that its refs and branches have these rules, too.
    let mut config = config.clone();
    let policy = config.capabilities.fs.policy();
    if let Some(policy) = policy.filter(|_| *restriction != FsRestriction::default()) {
        config.capabilities.fs = DeclaredCapability::Options(restriction.restrict_policy(policy));
    }
    config
}

/// Refuses the name of a tool that does not exist.
fn check_tools(names: &[String]) -> Result<()> {
    // A misspelt name would never match a call, and the tool that was meant would run without approval.
    let is_unknown = |name: &&String| !tool_names().any(|tool| tool == name.as_str());
    let Some(unknown) = names.iter().find(is_unknown) else {
        return Ok(());
    };
    let names: Vec<_> = tool_names().collect();
    let hint = shape::known_names_hint(unknown, names.into_iter());
    let message = format!("`require_approval` names {}, which is not a tool", quote(unknown));
    Err(Error::invalid(message).hint(hint))
}

/// Returns the policy of a workspace that does not declare `fs`: nothing may be seen or changed, even by a program that
/// holds the workspace.
fn deny_all_policy() -> FsPolicy {
    FsPolicy {
        read_only: true,
        deny_read: vec!["**".into()],
        ..FsPolicy::default()
    }
}
