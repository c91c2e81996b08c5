//! The way from the global options to an open workspace.

#![allow(
    clippy::disallowed_methods,
    reason = "the command line opens the events file, looks for the directory it was given, and knows its environment"
)]

use std::cell::Cell;
use std::collections::BTreeMap;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use garret::path::escape_unprintable;
use garret::sandboxes::namespace::{self, NamespaceSandbox, SupervisorProgram};
use garret::sandboxes::supervisor;
use garret::{
    Actor, CommandChanges, DeclaredCapability, Depot, DepotWorkspace, EntryPath, Error, ErrorKind, EventFormat,
    EventSink, EventWriter, FsRestriction, Garret, HistoryMode, Home, HostUser, NoEvents, Result, Sandbox, ShellPolicy,
    StorageConfig, ToolNaming, Toolbox, Workspace, WorkspaceConfig,
};

use crate::arguments::GlobalArgs;
use crate::commands::run::NetworkArgs;
use crate::config_file::ConfigFile;
use crate::home::HomeChoice;
use crate::mounts::MountArgs;
use crate::output::CliFailure;
use crate::trust::{self, TrustStore};
use crate::workspace_choice::{self, KnownWorkspaces, WorkspaceChoice};
use crate::{approval, config_file, home, render};

/// The destination of events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum EventsChoice {
    /// Nowhere.
    None,
    /// A line for a person each, to standard error.
    Console,
    /// A JSON object a line, to standard error or to the end of a file.
    JsonLines(Option<PathBuf>),
}

impl EventsChoice {
    /// Reads the option.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "none" => Ok(Self::None),
            None if text == "console" => Ok(Self::Console),
            None if text == "jsonl" => Ok(Self::JsonLines(None)),
            Some(("jsonl", file)) if !file.is_empty() => Ok(Self::JsonLines(Some(file.into()))),
            _ => Err("use none, console, jsonl or jsonl:FILE".into()),
        }
    }

    /// Whether events are printed to standard error.
    pub(crate) fn goes_to_stderr(&self) -> bool {
        matches!(self, Self::Console | Self::JsonLines(None))
    }

    fn open_sink(&self) -> Result<Arc<dyn EventSink>> {
        let stderr = std::io::stderr;
        Ok(match self {
            Self::None => Arc::new(NoEvents),
            Self::Console => Arc::new(EventWriter::new(stderr(), EventFormat::Console)),
            Self::JsonLines(None) => Arc::new(EventWriter::new(stderr(), EventFormat::JsonLines)),
            Self::JsonLines(Some(file)) => Arc::new(EventWriter::new(open_log(file)?, EventFormat::JsonLines)),
        })
    }
}

fn open_log(file: &Path) -> Result<std::fs::File> {
    std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        // Events name paths, which other users of the machine need not see.
        .mode(0o600)
        .open(file)
        .map_err(|_| {
            Error::invalid("the events file cannot be opened")
                .hint("name a file in a directory that exists and that you may write")
        })
}

/// Makes the sandbox of the kernel, with this program as its own supervisor.
fn namespace_sandbox() -> Arc<dyn Sandbox> {
    let own = |path| SupervisorProgram {
        path,
        arguments: vec![supervisor::WORD.into()],
    };
    Arc::new(NamespaceSandbox::new(namespace::NamespaceOptions {
        supervisor: std::env::current_exe().ok().map(own),
        ..namespace::NamespaceOptions::default()
    }))
}

/// Returns the environment of this program; a policy can pass single variables of it to commands.
fn program_environment() -> BTreeMap<String, String> {
    let all = std::env::vars_os();
    all.filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

/// The state of one run of the program: the global options, the home and the composition root.
pub(crate) struct Session {
    global: GlobalArgs,
    garret: Garret,
    home: Option<HomeChoice>,
    /// The reason why the changes of the command cannot be undone later, if they cannot.
    no_way_back: Cell<Option<fn() -> Error>>,
}

impl Session {
    /// Builds the parts that every workspace of this run shares.
    pub(crate) fn new(global: GlobalArgs) -> Result<Self, CliFailure> {
        let events = global.events.open_sink().map_err(CliFailure::wrong_usage)?;
        let home = HomeChoice::find_home(global.home.as_deref());
        let mut garret = Garret::new().events(events).actor(Actor::from_door("cli"));
        if let Some(home) = &home {
            garret = garret.home(Home::new(&home.directory));
        }
        let environment = program_environment();
        let user = HostUser::with_home(environment.get("HOME").map(PathBuf::from));
        garret = garret
            .sandbox(namespace_sandbox())
            .environment(environment)
            .host_user(user);
        if let Some(approver) = approval::terminal_approver() {
            garret = garret.approver(approver);
        }
        Ok(Self {
            global,
            garret,
            home,
            no_way_back: Cell::new(None),
        })
    }

    /// Returns the composition root with the additions of the command line.
    pub(crate) fn garret(&self) -> &Garret {
        &self.garret
    }

    /// Returns the global options.
    pub(crate) fn global(&self) -> &GlobalArgs {
        &self.global
    }

    /// Returns the program with the options that chose the home and the workspace, for a command line that the user can
    /// type.
    pub(crate) fn typed_program(&self) -> String {
        let GlobalArgs {
            workspace,
            config,
            home,
            ..
        } = &self.global;
        let home = home.as_deref().map(|home| ("--home", home.to_string_lossy()));
        let config = config.as_deref().map(|config| ("--config", config.to_string_lossy()));
        let workspace = workspace.as_deref().map(|workspace| ("-w", workspace.into()));
        let options = [home, config, workspace].into_iter().flatten();
        let words = options.map(|(option, value)| format!(" {option} {}", render::shell_word(&value)));
        format!("garret{}", words.collect::<String>())
    }

    /// Returns the name that `-w` gives, if it is that of a workspace of the home.
    pub(crate) fn name_in_home(&self) -> Option<String> {
        let text = self.global.workspace.as_deref()?;
        let file = self.find_config_file(text).ok()?;
        match workspace_choice::choose_workspace(text, file.as_ref().map(|file| &file.config)) {
            WorkspaceChoice::HomeOrDirectory { name, directory, .. } if !Path::new(&directory).is_dir() => name,
            _ => None,
        }
    }

    /// Returns the name of a workspace of the home: the argument, or `-w`.
    pub(crate) fn workspace_name(&self, argument: Option<&str>) -> Result<String, CliFailure> {
        workspace_choice::required_name(self.global.workspace.as_deref(), argument).map_err(CliFailure::wrong_usage)
    }

    /// Returns the name of a workspace of the home, from the first argument or `-w`, and the argument after the name.
    pub(crate) fn name_and_rest<'a>(
        &'a self,
        first: Option<&'a str>,
        second: Option<&'a str>,
    ) -> Result<(&'a str, Option<&'a str>), CliFailure> {
        workspace_choice::name_and_rest(self.global.workspace.as_deref(), first, second)
            .map_err(CliFailure::wrong_usage)
    }

    /// Returns the home; `None` if no directory for it is known.
    pub(crate) fn home(&self) -> Option<&HomeChoice> {
        self.home.as_ref()
    }

    /// Returns the records of trusted files; `None` if no directory for the home is known.
    pub(crate) fn trust_store(&self) -> Option<TrustStore> {
        self.home.as_ref().map(TrustStore::of_home)
    }

    /// Returns the composition root for an operation on the home; fails with the hint about --home if there is no home,
    /// since the root itself does not know that option.
    pub(crate) fn garret_with_home(&self) -> Result<&Garret, CliFailure> {
        match self.home {
            Some(_) => Ok(&self.garret),
            None => Err(CliFailure::wrong_usage(home::missing_home_error())),
        }
    }

    /// Opens the depot of the home; a missing one is made.
    pub(crate) async fn open_depot(&self) -> Result<Depot, CliFailure> {
        Ok(self.garret_with_home()?.depot().await?)
    }

    /// Opens the chosen workspace with its tools.
    pub(crate) async fn open_toolbox(&self) -> Result<Toolbox, CliFailure> {
        self.choose_by_option().await?.open(self).await
    }

    /// Opens the chosen workspace with its tools, for a command that changes files.
    pub(crate) async fn open_toolbox_to_change(&self) -> Result<Toolbox, CliFailure> {
        let chosen = self.choose_by_option().await?;
        self.note_undo_limits(&chosen);
        chosen.open(self).await
    }

    /// Opens the chosen workspace for a command that changes files; one that does not declare `fs` refuses.
    pub(crate) async fn open_workspace(&self) -> Result<Workspace, CliFailure> {
        let chosen = self.choose_by_option().await?;
        chosen.check_declares(&["fs"])?;
        self.note_undo_limits(&chosen);
        Ok(chosen.open(self).await?.workspace().clone())
    }

    /// Returns a note for the user if the changes of the command cannot be undone later.
    pub(crate) fn undo_remark(&self) -> Option<Error> {
        self.no_way_back.get().map(|why| why())
    }

    /// Drops the note about undo if what ran has kept no changes.
    pub(crate) fn settle_undo_remark(&self, changed: &CommandChanges) {
        if changed.discarded || changed.is_nothing() {
            self.no_way_back.set(None);
        }
    }

    /// Remembers whether changes in `chosen` can be undone later.
    fn note_undo_limits(&self, chosen: &ChosenWorkspace) {
        let keeps_history = chosen.config.history != Some(HistoryMode::Off);
        let is_lasting = chosen.config.storage.kind() != "memory";
        let why: Option<fn() -> Error> = if chosen.holds_home {
            Some(home::home_inside_error)
        } else if self.home.is_none() && keeps_history && is_lasting {
            Some(home::missing_for_undo)
        } else {
            None
        };
        self.no_way_back.set(why);
    }

    /// Opens the chosen workspace for a command that reads files, as it was at `point`.
    pub(crate) async fn open_workspace_at(&self, point: Option<&str>) -> Result<Workspace, CliFailure> {
        let mut chosen = self.choose_by_option().await?;
        chosen.check_declares(&["fs"])?;
        chosen.set_point(point)?;
        // No history is kept of a workspace that contains the home, so it has no earlier points.
        if chosen.holds_home && chosen.point.is_some() {
            return Err(home::home_inside_error().into());
        }
        Ok(chosen.open(self).await?.workspace().clone())
    }

    /// Opens the chosen workspace for a command on its history, which needs any one of the capabilities.
    pub(crate) async fn open_history(&self, capabilities: &[&str]) -> Result<Workspace, CliFailure> {
        let chosen = self.choose_by_option().await?;
        chosen.check_declares(capabilities)?;
        chosen.check_present()?;
        self.note_undo_limits(&chosen);
        if chosen.holds_home {
            return Err(home::home_inside_error().into());
        }
        Ok(chosen.open(self).await?.workspace().clone())
    }

    /// Opens the chosen workspace to run something in it, which needs any one of the capabilities.
    pub(crate) async fn open_workspace_for(&self, capabilities: &[&str]) -> Result<Workspace, CliFailure> {
        let chosen = self.choose_to_run(capabilities).await?;
        Ok(chosen.open(self).await?.workspace().clone())
    }

    /// Opens the chosen workspace to run something in it that sees more parts of this machine, or has another network.
    pub(crate) async fn open_workspace_with(
        &self,
        capabilities: &[&str],
        mounts: &MountArgs,
        network: &NetworkArgs,
    ) -> Result<Workspace, CliFailure> {
        let mounts = mounts.parse_mounts().map_err(CliFailure::wrong_usage)?;
        let mut chosen = self.choose_to_run(capabilities).await?;
        chosen.set_network(network)?;
        self.note_undo_limits(&chosen);
        let garret = self.garret.clone().mounts(mounts);
        Ok(chosen.open_with(self, &garret).await?.workspace().clone())
    }

    async fn choose_to_run(&self, capabilities: &[&str]) -> Result<ChosenWorkspace, CliFailure> {
        let mut chosen = self.choose_by_option().await?;
        chosen.declare_for_user();
        chosen.check_declares(capabilities)?;
        chosen.check_present()?;
        Ok(chosen)
    }

    async fn choose_by_option(&self) -> Result<ChosenWorkspace, CliFailure> {
        self.choose_workspace(self.global.workspace.as_deref()).await
    }

    /// Finds the workspace that `text` names, or the current directory, without opening it.
    pub(crate) async fn choose_workspace(&self, text: Option<&str>) -> Result<ChosenWorkspace, CliFailure> {
        let mut chosen = self.resolve_choice(text).await?;
        if let Some(home) = &self.home {
            chosen.hide_home(home);
        }
        if let Some(path) = &self.global.config {
            chosen.protect_file(path);
        }
        Ok(chosen)
    }

    async fn resolve_choice(&self, text: Option<&str>) -> Result<ChosenWorkspace, CliFailure> {
        let Some(text) = text else {
            return match &self.global.config {
                None => ChosenWorkspace::from_directory("."),
                // The current directory does not have the policy of that file: to open it would silently drop the rules
                // that the user asked for.
                Some(path) => Err(CliFailure::wrong_usage(
                    config_file::load_given(path).err().unwrap_or_else(|| {
                        Error::invalid("--config is given, but no workspace of that file is chosen")
                            .hint("name a workspace with -w")
                    }),
                )),
            };
        };
        let file = self
            .find_config_file(text)
            .map_err(CliFailure::wrong_usage)?
            .map(Arc::new);
        match (
            workspace_choice::choose_workspace(text, file.as_ref().map(|file| &file.config)),
            &file,
        ) {
            (WorkspaceChoice::Url(url), file) => {
                if let Some(name) = workspace_choice::filestore_name(&url) {
                    self.check_in_home(name, file.as_deref()).await?;
                }
                Ok(ChosenWorkspace::from_config(WorkspaceConfig::with_storage(
                    StorageConfig::Url(url),
                )))
            }
            (WorkspaceChoice::Configured(name, point), Some(file)) => {
                self.check_clash(&name, file).await?;
                let chosen = ChosenWorkspace::from_file(name, point, file);
                chosen.check_trust(&self.garret, file)?;
                Ok(chosen)
            }
            (WorkspaceChoice::HomeOrDirectory { name, point, directory }, file) => {
                if let Some(chosen) = self.find_in_home(name, point).await? {
                    return Ok(chosen);
                }
                if Path::new(&directory).is_dir() {
                    ChosenWorkspace::from_directory(&directory)
                } else {
                    let known = self.known_workspaces(file.as_deref()).await;
                    Err(CliFailure::wrong_usage(workspace_choice::unknown_workspace_error(
                        text, &known,
                    )))
                }
            }
            (WorkspaceChoice::Configured(..), None) => unreachable!("names are configured in a file"),
        }
    }

    /// Returns the configuration file that could have the workspace `text`. For a path or a URL no file is searched.
    fn find_config_file(&self, text: &str) -> Result<Option<ConfigFile>> {
        if let Some(path) = &self.global.config {
            return config_file::load_given(path).map(Some);
        }
        // A found file may be anybody's, and must not decide about a path or a URL that the user wrote.
        if !workspace_choice::may_be_configured(text) {
            return Ok(None);
        }
        let found = config_file::load_found()?;
        let Some(store) = self.trust_store() else {
            // Without a home nothing is recorded as trusted, so the file stays untrusted.
            return Ok(found);
        };
        let candidates = config_file::candidate_paths();
        let is_trusted = trust::is_trusted(found.as_ref(), &candidates, text, |path| store.record_of(path))?;
        Ok(found.map(|file| ConfigFile { is_trusted, ..file }))
    }

    /// Refuses a name for a new workspace of the home that a found file has for another one: `-w` would be an error for
    /// both.
    pub(crate) fn check_unconfigured(&self, name: &str) -> Result<(), CliFailure> {
        // A file that cannot be read keeps nobody from making a workspace.
        let file = config_file::load_found().ok().flatten();
        let is_other = |file: &ConfigFile| file.config.workspaces.contains_key(name) && !file.is_of_home(name);
        match file.filter(is_other) {
            None => Ok(()),
            Some(file) => {
                let (shown, file) = (garret::path::quote(name), garret::path::quote(&file.shown));
                let message = format!("{shown} is a workspace of {file}");
                let error = Error::new(ErrorKind::AlreadyExists, message);
                Err(error.hint("choose another name, or go to another directory").into())
            }
        }
    }

    /// Refuses to configure a workspace that a found file defines: its options are those of the file.
    pub(crate) fn check_configured_in_home(&self, name: &str) -> Result<(), CliFailure> {
        let file = config_file::load_found().ok().flatten();
        match file.filter(|file| file.config.workspaces.contains_key(name)) {
            None => Ok(()),
            Some(file) => {
                let (shown, file) = (garret::path::quote(name), garret::path::quote(&file.shown));
                let error = Error::invalid(format!("the options of {shown} are those of {file}"));
                Err(error.hint("edit that file; `garret config check` checks it").into())
            }
        }
    }

    /// Refuses a name that a found file and the home both have, unless the file means that workspace of the home.
    async fn check_clash(&self, name: &str, file: &ConfigFile) -> Result<(), CliFailure> {
        if !file.is_found || file.is_of_home(name) {
            return Ok(());
        }
        match self.find_in_home(Some(name.to_owned()), None).await? {
            None => Ok(()),
            Some(_) => Err(CliFailure::wrong_usage(clash_error(name, &file.shown))),
        }
    }

    /// Returns the workspace `name` of the home, if there is one. A missing home is not made.
    async fn find_in_home(
        &self,
        name: Option<String>,
        point: Option<String>,
    ) -> Result<Option<ChosenWorkspace>, CliFailure> {
        let (Some(name), true) = (name, self.home.as_ref().is_some_and(HomeChoice::is_made)) else {
            return Ok(None);
        };
        match self.garret.config_of(&name).await {
            Ok(config) => Ok(Some(ChosenWorkspace {
                name,
                point,
                is_named: true,
                ..ChosenWorkspace::from_config(config)
            })),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the chosen workspace as the home knows it, without opening its files; `None` if the home does not know
    /// it.
    pub(crate) async fn history_in_home(&self) -> Result<Option<DepotWorkspace>, CliFailure> {
        if !self.home.as_ref().is_some_and(HomeChoice::is_made) {
            return Ok(None);
        }
        let chosen = self.choose_by_option().await?;
        let depot = self.open_depot().await?;
        let name = match &chosen.config.storage {
            _ if chosen.is_named => Some(chosen.name.as_str()),
            StorageConfig::Url(url) => workspace_choice::filestore_name(url),
            StorageConfig::Table { .. } => None,
        };
        if let Some(name) = name {
            return Ok(Some(depot.workspace(name).await?));
        }
        match chosen
            .local_directory()
            .and_then(|directory| directory.canonicalize().ok())
        {
            Some(directory) => {
                let place = EntryPath::from_bytes(directory.into_os_string().into_vec()).to_token();
                Ok(depot.workspace_at("local", &place).await?)
            }
            None => Ok(None),
        }
    }

    /// Refuses a name that no workspace of the home has. A missing home is not made.
    async fn check_in_home(&self, name: &str, file: Option<&ConfigFile>) -> Result<(), CliFailure> {
        if self.home.is_none() {
            return Err(CliFailure::wrong_usage(home::missing_home_error()));
        }
        match self.find_in_home(Some(name.to_owned()), None).await? {
            Some(_) => Ok(()),
            None => Err(CliFailure::wrong_usage(workspace_choice::unknown_filestore_error(
                name,
                &self.known_workspaces(file).await,
            ))),
        }
    }

    /// Returns the workspaces of `file` and of the home.
    pub(crate) async fn known_workspaces<'a>(&self, file: Option<&'a ConfigFile>) -> KnownWorkspaces<'a> {
        let mut known = KnownWorkspaces {
            config: file.map(|file| &file.config),
            ..KnownWorkspaces::default()
        };
        if self.home.as_ref().is_some_and(HomeChoice::is_made) {
            // The names only help with a hint or a completion, so a home that cannot be read gives none.
            let all = match self.garret.depot().await {
                Ok(depot) => depot.workspaces().await.unwrap_or_default(),
                Err(_) => Vec::new(),
            };
            let (deleted, live): (Vec<_>, Vec<_>) = all.into_iter().partition(|one| one.deleted.is_some());
            known.home = live.into_iter().filter_map(|one| one.name).collect();
            known.deleted = deleted.into_iter().filter_map(|one| one.name).collect();
        }
        known
    }
}

/// A workspace that is found and not yet open.
pub(crate) struct ChosenWorkspace {
    pub(crate) name: String,
    /// The point of the past that is meant; `None` for the workspace as it is.
    point: Option<String>,
    pub(crate) config: WorkspaceConfig,
    /// The rules that apply in addition to its configuration.
    restriction: FsRestriction,
    /// The directory at which its relative paths start, if not the current one.
    base: Option<PathBuf>,
    /// The file with its configuration.
    file: Option<Arc<ConfigFile>>,
    /// Whether it is a workspace of the home.
    is_named: bool,
    /// Whether the home lies inside it.
    holds_home: bool,
}

impl ChosenWorkspace {
    fn from_config(config: WorkspaceConfig) -> Self {
        Self {
            name: garret::UNNAMED.to_owned(),
            point: None,
            config,
            restriction: FsRestriction::default(),
            base: None,
            file: None,
            is_named: false,
            holds_home: false,
        }
    }

    fn from_file(name: String, point: Option<String>, file: &Arc<ConfigFile>) -> Self {
        let config = file.config.workspaces[&name].clone();
        let mut chosen = Self {
            name,
            point,
            base: Some(file.directory.clone()),
            file: Some(file.clone()),
            ..Self::from_config(config)
        };
        chosen.protect_file(&file.path);
        chosen
    }

    /// Refuses settings that only a trusted file may have, before anything is opened.
    fn check_trust(&self, garret: &Garret, file: &ConfigFile) -> Result<(), CliFailure> {
        if file.is_trusted {
            return Ok(());
        }
        // An invalid configuration is reported as invalid, and not as untrusted.
        garret
            .check(&self.config)
            .map_err(|error| self.opening_failure(error))?;
        let settings = self.config.widening_settings(&file.directory);
        if !settings.is_empty() {
            return Err(CliFailure::wrong_usage(trust::too_wide_error(
                file, &self.name, &settings,
            )));
        }
        if config_file::is_outside(&self.config, &file.directory) {
            return Err(CliFailure::wrong_usage(outside_error(&self.name, &file.shown)));
        }
        if self.is_directory_elsewhere() {
            return Err(CliFailure::wrong_usage(misleading_name_error(&self.name, &file.shown)));
        }
        Ok(())
    }

    /// Whether a directory of its name is here, and the workspace is on another one.
    fn is_directory_elsewhere(&self) -> bool {
        let Ok(here) = Path::new(&self.name).canonicalize() else {
            return false;
        };
        let own = self
            .local_directory()
            .and_then(|directory| directory.canonicalize().ok());
        here.is_dir() && own.as_deref() != Some(&here)
    }

    fn from_directory(path: &str) -> Result<Self, CliFailure> {
        Garret::config_of_dir(path)
            .map(Self::from_config)
            .map_err(CliFailure::wrong_usage)
    }

    /// Whether it is a directory that neither a configuration nor the home describes.
    fn is_plain_directory(&self) -> bool {
        !self.is_named && self.file.is_none() && self.local_directory().is_some()
    }

    /// Returns the directory of a workspace on `local`.
    pub(crate) fn local_directory(&self) -> Option<PathBuf> {
        config_file::local_directory(&self.config, self.base.as_deref().unwrap_or(Path::new("")))
    }

    /// Names the workspace on a plain directory after the directory, if the names of its tools contain the name.
    pub(crate) fn take_directory_name(&mut self) {
        let is_carried = self.config.tools.naming == ToolNaming::Prefixed;
        if !is_carried || !self.is_plain_directory() {
            return;
        }
        let directory = self
            .local_directory()
            .and_then(|directory| directory.canonicalize().ok());
        if let Some(name) = directory.as_deref().and_then(Path::file_name) {
            self.name = name.to_string_lossy().into_owned();
        }
    }

    /// Denies writes to the configuration file, so that tools and commands cannot change their own rules.
    fn protect_file(&mut self, file: &Path) {
        if let Some(directory) = self.local_directory() {
            for glob in config_file::globs_within(file, &directory) {
                if !self.restriction.deny_write.contains(&glob) {
                    self.restriction.deny_write.push(glob);
                }
            }
        }
    }

    /// Hides the home in a workspace that contains it, and keeps no history of that workspace.
    fn hide_home(&mut self, home: &HomeChoice) {
        let within = self
            .local_directory()
            .and_then(|directory| home.glob_within(&directory));
        if let Some(glob) = within {
            self.restriction.deny_read.push(glob.clone());
            self.restriction.deny_write.push(glob);
            // The history lives in the home, and would become a part of itself.
            self.config.history = Some(HistoryMode::Off);
            self.holds_home = true;
        }
    }

    /// Declares the requested capabilities with their defaults, unless the configuration declares them.
    pub(crate) fn declare_capabilities(&mut self, shell: bool, code: bool) {
        let capabilities = &mut self.config.capabilities;
        if shell && !capabilities.shell.is_declared() {
            capabilities.shell = DeclaredCapability::Switch(true);
        }
        if code && !capabilities.code.is_declared() {
            capabilities.code = DeclaredCapability::Switch(true);
        }
    }

    /// Declares commands and code in a plain directory: a user who types the command there allows it to run.
    fn declare_for_user(&mut self) {
        if self.is_plain_directory() {
            self.declare_capabilities(true, true);
        }
    }

    /// Gives commands the network that an option names, if one does.
    pub(crate) fn set_network(&mut self, network: &NetworkArgs) -> Result<(), CliFailure> {
        let Some(network) = &network.network else { return Ok(()) };
        let shell = &mut self.config.capabilities.shell;
        let Some(policy) = shell.policy() else {
            return Err(CliFailure::wrong_usage(
                Error::invalid("`--network` is given, but the workspace does not run commands")
                    .hint("declare the capability `shell`"),
            ));
        };
        *shell = DeclaredCapability::Options(ShellPolicy {
            network: network.clone(),
            ..policy
        });
        Ok(())
    }

    /// Withdraws `shell` and `code` if a file that is not trusted declares them and the user did not ask for them.
    /// Returns a note that says so.
    pub(crate) fn withhold_untrusted(&mut self, is_shell_asked: bool, is_code_asked: bool) -> Option<String> {
        // Withdrawn and not refused: the options `--shell` and `--code` say the same, and their absence is an answer.
        let file = self.file.as_ref().filter(|file| !file.is_trusted)?;
        let capabilities = &mut self.config.capabilities;
        let (mut names, mut options) = (Vec::new(), Vec::new());
        if capabilities.shell.is_declared() && !is_shell_asked {
            capabilities.shell = DeclaredCapability::Switch(false);
            names.push("`shell`");
            options.push("--shell");
        }
        if capabilities.code.is_declared() && !is_code_asked {
            capabilities.code = DeclaredCapability::Switch(false);
            names.push("`code`");
            options.push("--code");
        }
        let (names, options) = (names.join(" and "), options.join(" and "));
        (!names.is_empty()).then(|| {
            format!(
                "{} is not trusted, so its settings for {names} are ignored; use {options}, or see `garret trust`",
                escape_unprintable(&file.shown)
            )
        })
    }

    /// Refuses every mutation from now on. Commands are not offered if their sandbox cannot enforce that; the note says
    /// so.
    pub(crate) fn make_read_only(&mut self) -> Option<String> {
        self.restriction.read_only = true;
        let shell = &mut self.config.capabilities.shell;
        let policy = shell
            .policy()
            .filter(|policy| policy.sandbox != ShellPolicy::default().sandbox)?;
        *shell = DeclaredCapability::Switch(false);
        Some(format!(
            "--read-only: commands are not offered, because the sandbox {} cannot keep them from changing files",
            garret::path::quote(&policy.sandbox)
        ))
    }

    /// Refuses a command if none of the capabilities is declared; the error names the first of them.
    pub(crate) fn check_declares(&self, capabilities: &[&str]) -> Result<(), CliFailure> {
        let declared = self.config.capabilities.declared_names();
        let missing = match capabilities {
            [first, ..] if !capabilities.iter().any(|one| declared.contains(one)) => Some(*first),
            _ => None,
        };
        match missing {
            None => Ok(()),
            Some(capability) => Err(Error::new(
                ErrorKind::Denied,
                format!("this workspace does not declare the capability `{capability}`"),
            )
            .hint(self.how_to_declare(capability))
            .into()),
        }
    }

    /// Returns a hint that says how to declare a capability.
    fn how_to_declare(&self, capability: &str) -> String {
        if self.base.is_some() {
            return format!("set `{capability} = true` under its capabilities in the configuration");
        }
        let storage = match self.config.storage.kind() {
            "local" => " --storage local:DIR",
            _ => "",
        };
        let mut wanted: Vec<&str> = self.config.capabilities.declared_names();
        wanted.push(capability);
        let wanted = wanted.join(",");
        if self.is_named {
            format!(
                "declare it: `garret capabilities {} {wanted}`",
                escape_unprintable(&self.name)
            )
        } else {
            format!(
                "make a workspace that does, with a name of your choice: `garret create NAME{storage} --capability {wanted}`"
            )
        }
    }

    /// Refuses an earlier point for a command that needs the current workspace.
    fn check_present(&self) -> Result<(), CliFailure> {
        match &self.point {
            None => Ok(()),
            Some(point) => Err(CliFailure::wrong_usage(
                Error::invalid("this command needs the current workspace, not an earlier point of it").hint(format!(
                    "leave out `@{}` after its name",
                    garret::path::escape_unprintable(point)
                )),
            )),
        }
    }

    /// Chooses the workspace as it was at `point`, if one is given.
    fn set_point(&mut self, point: Option<&str>) -> Result<(), CliFailure> {
        match (point, &self.point) {
            (Some(_), Some(_)) => Err(CliFailure::wrong_usage(
                Error::invalid("the point is given twice").hint("leave out --at, or the point after the `@`"),
            )),
            (Some(point), None) => {
                self.point = Some(point.to_owned());
                Ok(())
            }
            (None, _) => Ok(()),
        }
    }

    /// Makes the failure for an error of opening. A wrong configuration is wrong usage, and the error names its file; a
    /// workspace that cannot be reached is a plain failure.
    fn opening_failure(&self, error: Error) -> CliFailure {
        match (error.kind(), &self.file) {
            (ErrorKind::Invalid, Some(file)) => CliFailure::wrong_usage(file.locate_error(&self.name, error)),
            (ErrorKind::Invalid, None) => CliFailure::wrong_usage(error),
            _ => error.into(),
        }
    }

    /// Opens the workspace with its tools.
    pub(crate) async fn open(&self, session: &Session) -> Result<Toolbox, CliFailure> {
        self.open_with(session, session.garret()).await
    }

    /// Opens the workspace with its tools, by another composition root than that of the session.
    pub(crate) async fn open_with(&self, session: &Session, garret: &Garret) -> Result<Toolbox, CliFailure> {
        if self.config.storage.kind() == "filestore" {
            session.garret_with_home()?;
        }
        let garret = match &self.file {
            Some(file) if file.is_trusted => garret.clone().relative_to(&file.directory),
            // An untrusted file may only choose directories in its own; opening checks that at the handle.
            Some(file) => garret.clone().confined_to(&file.directory),
            None => garret.clone(),
        };
        let opened = garret
            .open_restricted(&self.name, &self.config, &self.restriction)
            .await;
        let toolbox = opened.map_err(|error| self.opening_failure(error))?;
        match &self.point {
            Some(point) => Ok(garret.open_at(&toolbox, point).await?),
            None => Ok(toolbox),
        }
    }
}

/// Makes the error for a name that means two workspaces.
fn clash_error(name: &str, file: &str) -> Error {
    let (shown, file) = (garret::path::quote(name), garret::path::quote(file));
    Error::invalid(format!("{shown} is the name of a workspace in {file} and of another one in the home"))
        .hint(format!(
            "give the file with --config FILE to use its workspace; to use the one in the home, write `-w filestore:{}`, or rename it with `garret rename`",
            escape_unprintable(name)
        ))
}

/// Makes the error for a workspace whose directory lies outside that of its file, by way of a link.
fn outside_error(name: &str, file: &str) -> Error {
    let (shown, file) = (garret::path::quote(name), garret::path::quote(file));
    let message = format!(
        "{file} is not trusted, and the directory of its workspace {shown} lies outside the directory of the file"
    );
    Error::new(ErrorKind::Denied, message).hint("check where the link leads, then run `garret trust`")
}

/// Makes the error for a name that an untrusted file gives to another directory than the one of that name here.
fn misleading_name_error(name: &str, file: &str) -> Error {
    let (shown, file_shown) = (garret::path::quote(name), garret::path::quote(file));
    let message =
        format!("{shown} is a directory here, but the name of another workspace in {file_shown}, which is not trusted");
    Error::new(ErrorKind::Denied, message).hint(format!(
        "write ./{} for the directory, or see `garret trust`",
        escape_unprintable(name)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sink_is_named_with_its_file() {
        assert_eq!(
            EventsChoice::parse("jsonl:a:b"),
            Ok(EventsChoice::JsonLines(Some("a:b".into())))
        );
        assert_eq!(EventsChoice::parse("console"), Ok(EventsChoice::Console));
        assert!(EventsChoice::parse("jsonl:").is_err());
        assert!(EventsChoice::parse("json").is_err());
    }
}
