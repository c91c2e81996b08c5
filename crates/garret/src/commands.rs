//! The parts that commands of a workspace need: its sandbox by kind, and the bench that fits its storage.

#![allow(
    clippy::disallowed_methods,
    reason = "this file makes the private directories of benches, in the home or for the life of a workspace"
)]

use std::collections::BTreeMap;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use garret_core::path::quote;
use garret_core::{
    Bench, BenchState, DerivedFiles, Error, ErrorKind, Exclusions, History, HistoryMode, LayerOutcome, MountAccess,
    NetworkLog, OpenedStorage, Point, Result, Sandbox, SandboxMount, ShellPolicy, Timestamp, TurnAttempt,
    WorkspaceConfig,
};
use garret_network::FilteredSandbox;
use garret_sandbox::bench::{CheckoutBench, CheckoutOptions, DirectoryBench, DirectoryOptions, TurnFile};
use garret_sandbox::host::{HostOptions, HostSandbox};
use garret_sandbox::namespace::NamespaceSandbox;
use garret_sandbox::toolchains::CommandPrograms;
use garret_workspace::{ShellParts, ShellRules};
use tempfile::TempDir;

use crate::host_user::HostUser;
use crate::host_view::{CommandHomeDirectory, WorkspaceHostView};
use crate::{Garret, network_settings};

/// The sandboxes that a program knows, by kind.
pub(crate) type SandboxesByKind = BTreeMap<&'static str, Arc<dyn Sandbox>>;

/// A sandbox, and the record of its requests to the network if there is a proxy.
type RecordedSandbox = (Arc<dyn Sandbox>, Option<Arc<NetworkLog>>);

/// Returns the sandbox `namespace`. The sandbox `host`, without isolation, is made for each workspace from its policy.
pub(crate) fn default_sandboxes() -> SandboxesByKind {
    let namespace: Arc<dyn Sandbox> = Arc::new(NamespaceSandbox::default());
    BTreeMap::from([(namespace.kind(), namespace)])
}

impl Garret {
    /// Adds a sandbox under its kind; a sandbox of the same kind is replaced.
    #[must_use]
    pub fn sandbox(mut self, sandbox: Arc<dyn Sandbox>) -> Self {
        self.sandboxes.insert(sandbox.kind(), sandbox);
        self
    }

    /// The environment of the program. Commands get only the variables that a policy allows by name (`env_allow`).
    #[must_use]
    pub fn environment(mut self, environment: BTreeMap<String, String>) -> Self {
        self.environment = environment;
        self
    }

    /// Opens workspaces for the user who runs this program on his own machine: commands see his toolchains, his
    /// directory at its own path, and his name as the author of commits, unless a policy turns it off. `PATH` and other
    /// variables come from [`Garret::environment`]. Without a user, commands see nothing of the host but the system.
    #[must_use]
    pub fn host_user(mut self, user: HostUser) -> Self {
        self.user = Some(user);
        self
    }

    /// Shows more parts of the machine to the commands of every workspace that is opened from now on.
    #[must_use]
    pub fn mounts(mut self, mounts: Vec<SandboxMount>) -> Self {
        self.mounts = mounts;
        self
    }

    /// Returns the sandbox that a policy names, with a proxy if the policy names the hosts that commands reach.
    pub fn sandbox_of(&self, policy: &ShellPolicy) -> Result<Arc<dyn Sandbox>> {
        Ok(self.recorded_sandbox(policy, Vec::new())?.0)
    }

    /// Returns the sandbox that a policy names, and the record of requests to the network if there is a proxy.
    fn recorded_sandbox(&self, policy: &ShellPolicy, private: Vec<PathBuf>) -> Result<RecordedSandbox> {
        let sandbox = self.bare_sandbox(policy)?;
        let Some(named) = policy.network.named() else {
            return Ok((sandbox, None));
        };
        let log = Arc::new(NetworkLog::default());
        let (environment, settings_of) = (self.environment.clone(), named.clone());
        let find = Arc::new(move || network_settings::find_settings(&settings_of, &environment, &private));
        let filtered = FilteredSandbox::new(sandbox, named.clone(), log.clone(), find);
        Ok((Arc::new(filtered), Some(log)))
    }

    fn bare_sandbox(&self, policy: &ShellPolicy) -> Result<Arc<dyn Sandbox>> {
        if let Some(sandbox) = self.sandboxes.get(policy.sandbox.as_str()) {
            return Ok(sandbox.clone());
        }
        match policy.sandbox.as_str() {
            "host" => Ok(Arc::new(HostSandbox::new(HostOptions {
                as_root: policy.host_as_root,
                ..HostOptions::default()
            }))),
            unknown => {
                let known: Vec<_> = self.sandboxes.keys().chain([&"host"]).map(|kind| quote(kind)).collect();
                Err(Error::invalid(format!("unknown sandbox {}", quote(unknown)))
                    .hint(format!("known: {}", known.join(", "))))
            }
        }
    }

    /// Checks the part of a configuration that is about commands, as far as that is possible without running one.
    pub(crate) fn check_shell(&self, config: &WorkspaceConfig) -> Result<()> {
        Exclusions::new(&config.exclude)?;
        DerivedFiles::new(&config.derived)?;
        match policy_of(config) {
            Some(policy) => {
                self.sandbox_of(&policy)?;
                ShellRules::new(policy).map(|_| ())
            }
            None => Ok(()),
        }
    }

    /// Returns the parts that a workspace needs for commands; `None` if it declares neither commands nor code.
    pub(crate) fn shell_parts(
        &self,
        config: &WorkspaceConfig,
        opened: &OpenedStorage,
        history: HistoryMode,
    ) -> Result<Option<ShellParts>> {
        let Some(policy) = policy_of(config) else {
            return Ok(None);
        };
        let host = self.host_view(&policy, opened, history)?;
        let (sandbox, network_log) = self.recorded_sandbox(&policy, host.private.clone())?;
        Ok(Some(ShellParts {
            sandbox,
            network_log,
            bench: self.bench_of(config, opened, history)?,
            is_direct: opened.directory.is_some(),
            host: Arc::new(host),
            policy,
            derived: DerivedFiles::new(&config.derived)?,
            environment: self.environment.clone(),
        }))
    }

    fn host_view(
        &self,
        policy: &ShellPolicy,
        opened: &OpenedStorage,
        history: HistoryMode,
    ) -> Result<WorkspaceHostView> {
        let mut policy = policy.clone();
        policy.mounts.extend(self.mounts.iter().cloned());
        let directories = [&opened.directory, &opened.given_directory];
        let workspace: Vec<_> = match opened.directory {
            Some(_) => directories.into_iter().flatten().cloned().collect(),
            None => Vec::new(),
        };
        // The next process finds the home again under the same conditions as the bench.
        let kept = self.node_directory("homes", opened);
        self.view_of(policy, workspace, kept.filter(|_| history == HistoryMode::Durable))
    }

    /// Returns the programs that commands find outside the system, and those on the user's search path that they do not,
    /// for a workspace on `directory` or on none.
    pub fn command_programs(&self, policy: &ShellPolicy, directory: Option<&Path>) -> Result<CommandPrograms> {
        let workspace = directory.and_then(|directory| directory.canonicalize().ok());
        let view = self.view_of(policy.clone(), workspace.into_iter().collect(), None)?;
        view.list_programs()
    }

    fn view_of(
        &self,
        policy: ShellPolicy,
        workspace: Vec<PathBuf>,
        directory_in_home: Option<PathBuf>,
    ) -> Result<WorkspaceHostView> {
        let home = self.home.as_ref().map(|home| home.directory().to_owned());
        let own: Vec<_> = home
            .map(|home| home.canonicalize().unwrap_or(home))
            .into_iter()
            .collect();
        // Commands write there, too, so that nothing in them may choose what else commands see.
        let written = policy.mounts.iter().filter(|mount| mount.access == MountAccess::Write);
        let user_home = self.user.as_ref().and_then(|user| user.home.as_deref());
        let written = written.filter_map(|mount| match (mount.source.strip_prefix("~"), user_home) {
            (Ok(below), Some(home)) => home.join(below).canonicalize().ok(),
            _ => mount.source.canonicalize().ok(),
        });
        let private = workspace.iter().chain(&own).cloned().chain(written).collect();
        Ok(WorkspaceHostView {
            user: self.user.clone(),
            environment: self.environment.clone(),
            private,
            workspace,
            own,
            homes: CommandHomeDirectory {
                directory_in_home,
                limit: policy.limits.to_limits()?.home,
                temporary: Mutex::default(),
            },
            policy,
        })
    }

    /// Builds the bench: on the directory of the files if they are in one, else on a checkout of them.
    fn bench_of(
        &self,
        config: &WorkspaceConfig,
        opened: &OpenedStorage,
        history: HistoryMode,
    ) -> Result<Arc<dyn Bench>> {
        let (directory, temporary) = self.bench_location(opened, history)?;
        let bench: Arc<dyn Bench> = match &opened.directory {
            Some(root) => {
                let scratch = directory.join("scratch");
                make_private(&scratch)?;
                Arc::new(DirectoryBench::new(DirectoryOptions {
                    root: root.clone(),
                    scratch,
                    history: opened.history.clone(),
                }))
            }
            None => Arc::new(CheckoutBench::new(CheckoutOptions {
                directory,
                files: opened.storage.clone(),
                history: opened.history.clone(),
                exclude: config.exclude.clone(),
            })?),
        };
        Ok(Arc::new(WorkspaceBench {
            bench,
            turns: self.turn_file(opened)?,
            remote_history: opened.history.clone().filter(|_| opened.access_limits.is_remote),
            _temporary: temporary,
        }))
    }

    /// Returns the directory of a bench: in the home if the next process can find these files again, else a temporary
    /// one, which is removed with the second value.
    fn bench_location(&self, opened: &OpenedStorage, history: HistoryMode) -> Result<(PathBuf, Option<TempDir>)> {
        match self.bench_directory(opened) {
            Some(directory) if history == HistoryMode::Durable => {
                make_private(&directory)?;
                Ok((directory, None))
            }
            _ => {
                let made = tempfile::Builder::new().prefix("garret-bench-").tempdir();
                let made = made.map_err(|_| bench_directory_error())?;
                Ok((made.path().to_owned(), Some(made)))
            }
        }
    }

    /// Returns the directory of the bench in the home. Every process that opens these files gets the same directory.
    fn bench_directory(&self, opened: &OpenedStorage) -> Option<PathBuf> {
        self.node_directory("benches", opened)
    }

    /// Returns the directory of these files among those of one kind in the home.
    fn node_directory(&self, kind: &str, opened: &OpenedStorage) -> Option<PathBuf> {
        let name = match (&opened.location_id, &opened.history) {
            (Some(place), _) => format!("place-{}", &blake3::hash(place.as_bytes()).to_hex()[..32]),
            (None, Some(history)) => history.id().to_owned(),
            (None, None) => return None,
        };
        Some(self.home.as_ref()?.directory().join(kind).join(name))
    }

    /// Returns the lock file by which processes take turns with commands on these files; `None` if no other process can
    /// open the files.
    fn turn_file(&self, opened: &OpenedStorage) -> Result<Option<TurnFile>> {
        // It does not depend on the history: a history may end with the program while its files stay.
        let is_shared = opened.location_id.is_some() || opened.reference.is_some();
        let Some(directory) = self.bench_directory(opened).filter(|_| is_shared) else {
            return Ok(None);
        };
        make_private(&directory)?;
        Ok(Some(TurnFile::new(directory.join("turn"))))
    }
}

/// Returns the policy of commands: that of `shell`, or the default if only code is declared.
fn policy_of(config: &WorkspaceConfig) -> Option<ShellPolicy> {
    let capabilities = &config.capabilities;
    let code = || capabilities.code.is_declared().then(ShellPolicy::default);
    capabilities.shell.policy().or_else(code)
}

/// The bench of an open workspace. A temporary directory is removed together with it.
#[derive(Debug)]
struct WorkspaceBench {
    bench: Arc<dyn Bench>,
    /// The lock file that keeps the turns of commands apart, if other processes can open the same files.
    turns: Option<TurnFile>,
    /// The history of remote files, which other programs change, too. Before the bench is used, the history compares
    /// the files, so that the journal, which the bench follows, has the changes of others. Files with a version that
    /// the journal knows are not fetched.
    remote_history: Option<Arc<dyn History>>,
    _temporary: Option<TempDir>,
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl Bench for WorkspaceBench {
    async fn bring_up_to_date(&self) -> Result<BenchState> {
        if self.remote_history.is_some() {
            self.record_outside_changes().await?;
        }
        self.bench.bring_up_to_date().await
    }

    async fn record_outside_changes(&self) -> Result<()> {
        match &self.remote_history {
            // To open the present state, a history first records the changes of other programs.
            Some(history) => history.open_view(&Point::Now).await.map(drop),
            None => self.bench.record_outside_changes().await,
        }
    }

    fn try_turn(&self, command: &str, now: Timestamp) -> Result<TurnAttempt> {
        match &self.turns {
            Some(turns) => turns.try_take(command, now),
            None => self.bench.try_turn(command, now),
        }
    }

    async fn file_time(&self) -> Result<Option<Timestamp>> {
        self.bench.file_time().await
    }

    fn scratch_directory(&self) -> PathBuf {
        self.bench.scratch_directory()
    }

    async fn take_effects(&self, taken: LayerOutcome<'_>) -> Result<()> {
        self.bench.take_effects(taken).await
    }
}

fn make_private(directory: &Path) -> Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    let made = builder.recursive(true).mode(0o700).create(directory);
    made.map_err(|_| bench_directory_error())
}

fn bench_directory_error() -> Error {
    Error::new(ErrorKind::Unavailable, "the directory for commands cannot be made")
        .hint("check that the home and the directory for temporary files can be written and have free space")
}
