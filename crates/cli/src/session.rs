//! From the global options to an open workspace.

#![allow(
    clippy::disallowed_methods,
    reason = "the command line opens the events file, looks for the directory it was given, and knows its environment"
)]

use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use garret::path::printable;
use garret::sandboxes::namespace::{self, NamespaceSandbox, SupervisorProgram};
use garret::sandboxes::supervisor;
use garret::{
    Actor, Declared, Depot, Error, ErrorKind, EventFormat, EventSink, FsPolicy, Garret, HistoryMode, Home, NoEvents,
    Result, Sandbox, StorageConfig, Toolbox, Workspace, WorkspaceConfig, WrittenEvents,
};

use crate::arguments::Global;
use crate::choice::{self, Choice, Known};
use crate::config_file::ConfigFile;
use crate::home::HomeChoice;
use crate::output::Failure;
use crate::{approval, config_file, home};

/// Where events go.
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

    fn sink(&self) -> Result<Arc<dyn EventSink>> {
        let stderr = std::io::stderr;
        Ok(match self {
            Self::None => Arc::new(NoEvents),
            Self::Console => Arc::new(WrittenEvents::new(stderr(), EventFormat::Console)),
            Self::JsonLines(None) => Arc::new(WrittenEvents::new(stderr(), EventFormat::JsonLines)),
            Self::JsonLines(Some(file)) => Arc::new(WrittenEvents::new(open_log(file)?, EventFormat::JsonLines)),
        })
    }
}

fn open_log(file: &Path) -> Result<std::fs::File> {
    std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(file)
        .map_err(|_| {
            Error::invalid("the events file cannot be opened")
                .hint("name a file in a directory that exists and that you may write")
        })
}

/// The sandbox of the kernel, with this program as its own supervisor.
fn namespace() -> Arc<dyn Sandbox> {
    let own = |path| SupervisorProgram {
        path,
        arguments: vec![supervisor::WORD.into()],
    };
    Arc::new(NamespaceSandbox::new(namespace::Options {
        supervisor: std::env::current_exe().ok().map(own),
        ..namespace::Options::default()
    }))
}

/// What this program was started with, of which a policy may let commands have some by name.
fn environment() -> BTreeMap<String, String> {
    let all = std::env::vars_os();
    all.filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

/// What is open while one command runs.
pub(crate) struct Session {
    global: Global,
    garret: Garret,
    home: Option<HomeChoice>,
    /// Whether something was changed in a workspace that keeps no history because the home lies in it.
    is_without_way_back: Cell<bool>,
}

impl Session {
    /// Puts together what every workspace of this run shares.
    pub(crate) fn new(global: Global) -> Result<Self, Failure> {
        let events = global.events.sink().map_err(Failure::usage)?;
        let home = HomeChoice::found(global.home.as_deref());
        let mut garret = Garret::new().events(events).actor(Actor {
            door: "cli",
            ..Actor::default()
        });
        if let Some(home) = &home {
            garret = garret.home(Home::new(&home.directory));
        }
        garret = garret.sandbox(namespace()).environment(environment());
        if let Some(approver) = approval::terminal() {
            garret = garret.approver(approver);
        }
        Ok(Self {
            global,
            garret,
            home,
            is_without_way_back: Cell::new(false),
        })
    }

    /// The composition root with what the command line added to it.
    pub(crate) fn garret(&self) -> &Garret {
        &self.garret
    }

    /// The global options.
    pub(crate) fn global(&self) -> &Global {
        &self.global
    }

    /// The name of a workspace of the home: the argument, or `-w`.
    pub(crate) fn name(&self, argument: Option<&str>) -> Result<String, Failure> {
        choice::name_of(self.global.workspace.as_deref(), argument).map_err(Failure::usage)
    }

    /// The same, with what follows the name.
    pub(crate) fn name_and_rest<'a>(
        &'a self,
        first: Option<&'a str>,
        second: Option<&'a str>,
    ) -> Result<(&'a str, Option<&'a str>), Failure> {
        choice::name_and_rest(self.global.workspace.as_deref(), first, second).map_err(Failure::usage)
    }

    /// The home, where there is a place for one.
    pub(crate) fn home(&self) -> Option<&HomeChoice> {
        self.home.as_ref()
    }

    /// The depot of the home, made where it is missing.
    pub(crate) async fn depot(&self) -> Result<Depot, Failure> {
        match self.home {
            Some(_) => Ok(self.garret.depot().await?),
            None => Err(Failure::usage(home::missing())),
        }
    }

    /// Opens the chosen workspace with its tools.
    pub(crate) async fn toolbox(&self) -> Result<Toolbox, Failure> {
        self.chosen_by_option().await?.open(self).await
    }

    /// The same, for a command that changes files.
    pub(crate) async fn toolbox_to_change(&self) -> Result<Toolbox, Failure> {
        let chosen = self.chosen_by_option().await?;
        self.is_without_way_back.set(chosen.holds_home);
        chosen.open(self).await
    }

    /// Opens the chosen workspace for a command that changes files; one that does not declare `fs` refuses.
    pub(crate) async fn workspace(&self) -> Result<Workspace, Failure> {
        let chosen = self.chosen_by_option().await?;
        chosen.check_declares(&["fs"])?;
        self.is_without_way_back.set(chosen.holds_home);
        Ok(chosen.open(self).await?.workspace().clone())
    }

    /// What is to be said of what the command changed, beside what it says itself.
    pub(crate) fn remark(&self) -> Option<Error> {
        self.is_without_way_back.get().then(home::inside)
    }

    /// Opens the chosen workspace for a command that reads files, as it was at `point`.
    pub(crate) async fn workspace_at(&self, point: Option<&str>) -> Result<Workspace, Failure> {
        let mut chosen = self.chosen_by_option().await?;
        chosen.check_declares(&["fs"])?;
        chosen.go_to(point)?;
        if chosen.holds_home && chosen.point.is_some() {
            return Err(home::inside().into());
        }
        Ok(chosen.open(self).await?.workspace().clone())
    }

    /// Opens the chosen workspace for a command on its history, which is that of its capability `capability`.
    pub(crate) async fn with_history(&self, capability: &str) -> Result<Workspace, Failure> {
        self.with_history_of(&[capability]).await
    }

    /// The same, where each of several capabilities would do.
    pub(crate) async fn with_history_of(&self, capabilities: &[&str]) -> Result<Workspace, Failure> {
        let chosen = self.chosen_by_option().await?;
        chosen.check_declares(capabilities)?;
        chosen.check_present()?;
        if chosen.holds_home {
            return Err(home::inside().into());
        }
        Ok(chosen.open(self).await?.workspace().clone())
    }

    /// Opens the chosen workspace for something that runs in it.
    pub(crate) async fn workspace_for(&self, capability: &str) -> Result<Workspace, Failure> {
        self.workspace_for_any(&[capability]).await
    }

    /// The same, where each of several capabilities would do.
    pub(crate) async fn workspace_for_any(&self, capabilities: &[&str]) -> Result<Workspace, Failure> {
        let chosen = self.chosen_by_option().await?;
        chosen.check_declares(capabilities)?;
        chosen.check_present()?;
        Ok(chosen.open(self).await?.workspace().clone())
    }

    async fn chosen_by_option(&self) -> Result<Chosen, Failure> {
        self.chosen(self.global.workspace.as_deref()).await
    }

    /// Finds what `text` names, or the current directory, without opening it.
    pub(crate) async fn chosen(&self, text: Option<&str>) -> Result<Chosen, Failure> {
        let mut chosen = self.named(text).await?;
        if let Some(home) = &self.home {
            chosen.leave_out(home);
        }
        Ok(chosen)
    }

    async fn named(&self, text: Option<&str>) -> Result<Chosen, Failure> {
        let Some(text) = text else {
            return match &self.global.config {
                None => Chosen::directory("."),
                // The current directory has no policy of that file; to take it all the same would weaken silently what was asked.
                Some(_) => Err(Failure::usage(
                    Error::invalid("--config is given, and no workspace of it is chosen").hint("name one with -w"),
                )),
            };
        };
        let file = config_file::load(self.global.config.as_deref()).map_err(Failure::usage)?;
        let file = file.map(Arc::new);
        match (choice::choose(text, file.as_ref().map(|file| &file.config)), &file) {
            (Choice::Url(url), _) => Ok(Chosen::unnamed(WorkspaceConfig::on(StorageConfig::Url(url)))),
            (Choice::Name(name, point), Some(file)) => Ok(Chosen::configured(name, point, file)),
            (Choice::Other { name, point, directory }, file) => {
                if let Some(chosen) = self.in_home(name, point).await? {
                    return Ok(chosen);
                }
                match Path::new(&directory).is_dir() {
                    true => Chosen::directory(&directory),
                    false => Err(self.unknown(text, file.as_deref()).await),
                }
            }
            (Choice::Name(..), None) => unreachable!("names are configured in a file"),
        }
    }

    /// The workspace `name` of the home, where there is one. To look for it does not make a home.
    async fn in_home(&self, name: Option<String>, point: Option<String>) -> Result<Option<Chosen>, Failure> {
        let (Some(name), true) = (name, self.home.as_ref().is_some_and(HomeChoice::is_made)) else {
            return Ok(None);
        };
        match self.garret.config_of(&name).await {
            Ok(config) => Ok(Some(Chosen {
                name,
                point,
                config,
                base: None,
                file: None,
                is_named: true,
                holds_home: false,
            })),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    async fn unknown(&self, text: &str, file: Option<&ConfigFile>) -> Failure {
        let mut known = Known {
            config: file.map(|file| &file.config),
            ..Known::default()
        };
        if self.home.as_ref().is_some_and(HomeChoice::is_made) {
            let all = match self.garret.depot().await {
                Ok(depot) => depot.workspaces().await.unwrap_or_default(),
                Err(_) => Vec::new(),
            };
            let (deleted, live): (Vec<_>, Vec<_>) = all.into_iter().partition(|one| one.deleted.is_some());
            known.home = live.into_iter().filter_map(|one| one.name).collect();
            known.deleted = deleted.into_iter().filter_map(|one| one.name).collect();
        }
        Failure::usage(choice::unknown(text, &known))
    }
}

/// A workspace that is found and not yet open.
pub(crate) struct Chosen {
    pub(crate) name: String,
    /// The point of the past that is meant; `None` for the workspace as it is.
    point: Option<String>,
    pub(crate) config: WorkspaceConfig,
    /// Where its relative directories start, if not at the current one.
    base: Option<PathBuf>,
    /// The file that it is configured in.
    file: Option<Arc<ConfigFile>>,
    /// Whether it is one of the home.
    is_named: bool,
    /// Whether the home lies inside it.
    holds_home: bool,
}

impl Chosen {
    fn unnamed(config: WorkspaceConfig) -> Self {
        Self {
            name: garret::UNNAMED.to_owned(),
            point: None,
            config,
            base: None,
            file: None,
            is_named: false,
            holds_home: false,
        }
    }

    fn configured(name: String, point: Option<String>, file: &Arc<ConfigFile>) -> Self {
        let mut chosen = Self {
            config: file.config.workspaces[&name].clone(),
            base: Some(file.directory.clone()),
            file: Some(file.clone()),
            is_named: false,
            holds_home: false,
            name,
            point,
        };
        chosen.protect(file);
        chosen
    }

    fn directory(path: &str) -> Result<Self, Failure> {
        Garret::config_of_dir(path).map(Self::unnamed).map_err(Failure::usage)
    }

    /// The directory of a workspace on `local`.
    pub(crate) fn local_directory(&self) -> Option<PathBuf> {
        let written = match &self.config.storage {
            StorageConfig::Url(url) => url.strip_prefix("local:")?,
            StorageConfig::Table { kind, options } if kind == "local" => options.get("dir")?.as_str()?,
            StorageConfig::Table { .. } => return None,
        };
        Some(self.base.as_deref().unwrap_or(Path::new("")).join(written))
    }

    /// Keeps the file that sets the rules from being written by those whom they bind.
    fn protect(&mut self, file: &ConfigFile) {
        let within = self
            .local_directory()
            .and_then(|directory| file.glob_within(&directory));
        if let (Some(glob), Some(mut policy)) = (within, self.config.capabilities.fs.policy()) {
            policy.deny_write.push(glob);
            self.config.capabilities.fs = Declared::Options(policy);
        }
    }

    /// Keeps the home out of a workspace that it lies in: it is not a file of the workspace, and cannot be part of its own history.
    fn leave_out(&mut self, home: &HomeChoice) {
        let within = self
            .local_directory()
            .and_then(|directory| home.glob_within(&directory));
        if let (Some(glob), Some(mut policy)) = (within, self.config.capabilities.fs.policy()) {
            policy.deny_read.push(glob.clone());
            policy.deny_write.push(glob);
            self.config.capabilities.fs = Declared::Options(policy);
            self.config.history = Some(HistoryMode::Off);
            self.holds_home = true;
        }
    }

    /// Declares the capabilities that are asked for, with their defaults, where the configuration does not.
    pub(crate) fn declare(&mut self, shell: bool, code: bool) {
        let capabilities = &mut self.config.capabilities;
        if shell && !capabilities.shell.is_declared() {
            capabilities.shell = Declared::Switch(true);
        }
        if code && !capabilities.code.is_declared() {
            capabilities.code = Declared::Switch(true);
        }
    }

    /// Refuses every mutation from here on.
    pub(crate) fn make_read_only(&mut self) {
        if let Some(policy) = self.config.capabilities.fs.policy() {
            self.config.capabilities.fs = Declared::Options(FsPolicy {
                read_only: true,
                ..policy
            });
        }
    }

    /// Refuses a command where none of the capabilities that would do is declared; it speaks of the first.
    fn check_declares(&self, capabilities: &[&str]) -> Result<(), Failure> {
        let declared = self.config.capabilities.declared();
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

    /// How somebody who may decide it declares a capability.
    fn how_to_declare(&self, capability: &str) -> String {
        if self.base.is_some() {
            return format!("set `{capability} = true` under its capabilities in the configuration");
        }
        let storage = match self.config.storage.kind() {
            "local" => " --storage local:DIR",
            _ => "",
        };
        let mut wanted: Vec<&str> = self.config.capabilities.declared();
        wanted.push(capability);
        let wanted = wanted.join(",");
        match self.is_named {
            true => format!("declare it: `garret capabilities {} {wanted}`", printable(&self.name)),
            false => format!(
                "make a workspace that does, with a name of your choice: `garret create NAME{storage} --capability {wanted}`"
            ),
        }
    }

    /// Refuses a point of the past where the workspace itself is needed.
    fn check_present(&self) -> Result<(), Failure> {
        match &self.point {
            None => Ok(()),
            Some(point) => Err(Failure::usage(
                Error::invalid("this needs the workspace itself, not a point of its past").hint(format!(
                    "leave out `@{}` after its name",
                    garret::path::printable(point)
                )),
            )),
        }
    }

    /// Means the workspace as it was at `point`, where one is given.
    fn go_to(&mut self, point: Option<&str>) -> Result<(), Failure> {
        match (point, &self.point) {
            (Some(_), Some(_)) => Err(Failure::usage(
                Error::invalid("the point is given twice").hint("leave out --at, or what follows the `@`"),
            )),
            (Some(point), None) => {
                self.point = Some(point.to_owned());
                Ok(())
            }
            (None, _) => Ok(()),
        }
    }

    /// A workspace that is described wrongly is wrong usage, of the file that describes it; one that cannot be reached is a failure.
    fn opening(&self, error: Error) -> Failure {
        match (error.kind(), &self.file) {
            (ErrorKind::Invalid, Some(file)) => Failure::usage(file.blame(&self.name, error)),
            (ErrorKind::Invalid, None) => Failure::usage(error),
            _ => error.into(),
        }
    }

    /// Opens it.
    pub(crate) async fn open(&self, session: &Session) -> Result<Toolbox, Failure> {
        self.open_with(session, session.garret()).await
    }

    /// Opens it by another root than that of the session.
    pub(crate) async fn open_with(&self, session: &Session, garret: &Garret) -> Result<Toolbox, Failure> {
        if self.config.storage.kind() == "filestore" && session.home().is_none() {
            return Err(Failure::usage(home::missing()));
        }
        let garret = match &self.base {
            Some(base) => garret.clone().relative_to(base),
            None => garret.clone(),
        };
        let opened = garret.open_config(&self.name, &self.config).await;
        let toolbox = opened.map_err(|error| self.opening(error))?;
        match &self.point {
            Some(point) => Ok(garret.open_at(&toolbox, point).await?),
            None => Ok(toolbox),
        }
    }
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
