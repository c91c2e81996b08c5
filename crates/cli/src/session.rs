//! From the global options to an open workspace.

#![allow(
    clippy::disallowed_methods,
    reason = "the command line opens the events file and looks for the directory it was given"
)]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use garret::{
    Actor, Declared, Error, ErrorKind, EventFormat, EventSink, FsPolicy, Garret, NoEvents, Result, StorageConfig,
    Toolbox, Workspace, WorkspaceConfig, WrittenEvents,
};

use crate::arguments::Global;
use crate::choice::{self, Choice};
use crate::config_file::ConfigFile;
use crate::output::Failure;
use crate::{approval, config_file};

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

/// What is open while one command runs.
pub(crate) struct Session {
    global: Global,
    garret: Garret,
}

impl Session {
    /// Puts together what every workspace of this run shares.
    pub(crate) fn new(global: Global) -> Result<Self, Failure> {
        let events = global.events.sink().map_err(Failure::usage)?;
        let garret = Garret::new().events(events).actor(Actor {
            door: "cli",
            ..Actor::default()
        });
        let garret = match approval::terminal() {
            Some(approver) => garret.approver(approver),
            None => garret,
        };
        Ok(Self { global, garret })
    }

    /// The composition root with what the command line added to it.
    pub(crate) fn garret(&self) -> &Garret {
        &self.garret
    }

    /// The global options.
    pub(crate) fn global(&self) -> &Global {
        &self.global
    }

    /// Opens the chosen workspace with its tools.
    pub(crate) async fn toolbox(&self) -> Result<Toolbox, Failure> {
        self.chosen(self.global.workspace.as_deref())?.open(&self.garret).await
    }

    /// Opens the chosen workspace for a command on files; one that does not declare `fs` refuses.
    pub(crate) async fn workspace(&self) -> Result<Workspace, Failure> {
        let chosen = self.chosen(self.global.workspace.as_deref())?;
        if chosen.config.capabilities.fs.policy().is_none() {
            return Err(
                Error::new(ErrorKind::Denied, "this workspace does not declare the capability `fs`")
                    .hint("set `fs = true` under its capabilities")
                    .into(),
            );
        }
        Ok(chosen.open(&self.garret).await?.workspace().clone())
    }

    /// Finds what `text` names, or the current directory, without opening it.
    pub(crate) fn chosen(&self, text: Option<&str>) -> Result<Chosen, Failure> {
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
        let config = file.as_ref().map(|file| &file.config);
        match (choice::choose(text, config), &file) {
            (Choice::Url(url), _) => Ok(Chosen::unnamed(WorkspaceConfig::on(StorageConfig::Url(url)))),
            (Choice::Name(name), Some(file)) => {
                let (config, base) = (file.config.workspaces[&name].clone(), Some(file.directory.clone()));
                let mut chosen = Chosen { name, config, base };
                chosen.protect(file);
                Ok(chosen)
            }
            (Choice::Directory(path), _) if Path::new(&path).is_dir() => Chosen::directory(&path),
            _ => Err(Failure::usage(choice::unknown(text, config))),
        }
    }
}

/// A workspace that is found and not yet open.
pub(crate) struct Chosen {
    pub(crate) name: String,
    pub(crate) config: WorkspaceConfig,
    /// Where its relative directories start, if not at the current one.
    base: Option<PathBuf>,
}

impl Chosen {
    fn unnamed(config: WorkspaceConfig) -> Self {
        Self {
            name: garret::UNNAMED.to_owned(),
            config,
            base: None,
        }
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

    /// Refuses every mutation from here on.
    pub(crate) fn make_read_only(&mut self) {
        if let Some(policy) = self.config.capabilities.fs.policy() {
            self.config.capabilities.fs = Declared::Options(FsPolicy {
                read_only: true,
                ..policy
            });
        }
    }

    /// Opens it.
    pub(crate) async fn open(&self, garret: &Garret) -> Result<Toolbox, Failure> {
        let garret = match &self.base {
            Some(base) => garret.clone().relative_to(base),
            None => garret.clone(),
        };
        garret.open_config(&self.name, &self.config).await.map_err(opening)
    }
}

/// A workspace that is described wrongly is wrong usage; one that cannot be reached is a failure.
fn opening(error: Error) -> Failure {
    match error.kind() {
        ErrorKind::Invalid => Failure::usage(error),
        _ => error.into(),
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
