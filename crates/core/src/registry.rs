//! Storages by kind, so that an embedding program can add its own.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Map, Value};

use crate::config::StorageConfig;
use crate::memory::MemoryStorage;
use crate::path::quote;
use crate::time::{Clock, Ids};
use crate::{AccessLimits, Durability, Error, History, HistoryMode, LocalContent, Result, Storage, shape};

/// The services that a factory may use while it opens a storage.
#[derive(Debug, Clone)]
pub struct OpenContext {
    /// The clock of the workspace.
    pub clock: Arc<dyn Clock>,
    /// The ids of the workspace.
    pub ids: Arc<dyn Ids>,
    /// How long the history is to be kept, for a storage that keeps it itself.
    pub history: HistoryMode,
}

/// An opened storage, and the facts that its factory knows about it.
#[derive(Debug, Clone)]
pub struct OpenedStorage {
    /// The files.
    pub storage: Arc<dyn Storage>,
    /// Their history, if the storage keeps one itself.
    pub history: Option<Arc<dyn History>>,
    /// An id of the location, different from every other of its kind on this machine, so that a journal kept elsewhere
    /// finds its files again; `None` if the files do not outlive the handle. It is never shown to a user.
    pub location_id: Option<String>,
    /// The options by which another process on this machine opens the same files, if it can.
    pub reference: Option<Map<String, Value>>,
    /// The failures that its changes survive.
    pub durability: Durability,
    /// The directory that holds the files in plain form, if there is one: commands work on it. It is never shown to a
    /// user.
    pub directory: Option<PathBuf>,
    /// The absolute path by which that directory was given, which may lead through links. It is never shown to a user.
    pub given_directory: Option<PathBuf>,
    /// The limits on reading and searching the files.
    pub access_limits: AccessLimits,
    /// The content of listed files, if it can be read without the storage.
    pub local_content: Option<Arc<dyn LocalContent>>,
}

impl<S: Storage + 'static> From<Arc<S>> for OpenedStorage {
    fn from(storage: Arc<S>) -> Self {
        Self::from(storage as Arc<dyn Storage>)
    }
}

impl From<Arc<dyn Storage>> for OpenedStorage {
    fn from(storage: Arc<dyn Storage>) -> Self {
        Self {
            storage,
            history: None,
            location_id: None,
            reference: None,
            durability: Durability::Full,
            directory: None,
            given_directory: None,
            access_limits: AccessLimits::default(),
            local_content: None,
        }
    }
}

/// Opens storages of one kind.
#[async_trait]
pub trait StorageFactory: Send + Sync + fmt::Debug {
    /// The word before the colon of a storage URL, and the `kind` of a storage table.
    fn kind(&self) -> &'static str;

    /// Parses the text after the colon of a URL into options, so that a URL and a table have the same meaning.
    fn parse_url(&self, rest: &str) -> Result<Map<String, Value>>;

    /// Checks options as far as possible without touching anything; opening finds the other mistakes.
    fn check_options(&self, _options: &Map<String, Value>) -> Result<()> {
        Ok(())
    }

    /// Opens the storage. Unknown options are refused.
    async fn open(&self, options: Map<String, Value>, context: &OpenContext) -> Result<OpenedStorage>;
}

/// The storages that a program knows.
#[derive(Debug, Clone, Default)]
pub struct StorageRegistry {
    factories: BTreeMap<&'static str, Arc<dyn StorageFactory>>,
}

impl StorageRegistry {
    /// Makes a registry that knows no storage.
    pub fn empty() -> Self {
        Self::default()
    }

    /// Adds a factory; it replaces an earlier one of the same kind.
    pub fn register(&mut self, factory: impl StorageFactory + 'static) {
        self.factories.insert(factory.kind(), Arc::new(factory));
    }

    /// Checks, by its kind and options and without touching it, that the storage could be opened.
    pub fn check_config(&self, config: &StorageConfig) -> Result<()> {
        let (factory, options) = self.resolve_config(config)?;
        factory.check_options(&options)
    }

    /// Opens a storage by its URL or table.
    pub async fn open(&self, config: &StorageConfig, context: &OpenContext) -> Result<OpenedStorage> {
        let (factory, options) = self.resolve_config(config)?;
        factory.open(options, context).await
    }

    fn resolve_config(&self, config: &StorageConfig) -> Result<(&dyn StorageFactory, Map<String, Value>)> {
        match config {
            // Both forms become options, so that a factory opens only one form.
            StorageConfig::Url(url) => {
                let (kind, rest) = url.split_once(':').unwrap_or((url, ""));
                let factory = self.find_factory(kind)?;
                Ok((factory, factory.parse_url(rest)?))
            }
            StorageConfig::Table { kind, options } => Ok((self.find_factory(kind)?, options.clone())),
        }
    }

    fn find_factory(&self, kind: &str) -> Result<&dyn StorageFactory> {
        self.factories
            .get(kind)
            .map(Arc::as_ref)
            .ok_or_else(|| self.unknown_kind_error(kind))
    }

    fn unknown_kind_error(&self, kind: &str) -> Error {
        let hint = shape::known_names_hint(kind, self.factories.keys().copied());
        Error::invalid(format!("unknown storage kind {}", quote(kind))).hint(hint)
    }
}

/// Opens [`MemoryStorage`] as `memory:`.
#[derive(Debug, Clone, Copy, Default)]
pub struct MemoryFactory;

#[async_trait]
impl StorageFactory for MemoryFactory {
    fn kind(&self) -> &'static str {
        "memory"
    }

    fn parse_url(&self, rest: &str) -> Result<Map<String, Value>> {
        match rest {
            "" => Ok(Map::new()),
            _ => Err(Error::invalid(format!(
                "`memory:` takes no value after the colon; found {}",
                quote(rest)
            ))
            .hint("write `memory:`")),
        }
    }

    fn check_options(&self, options: &Map<String, Value>) -> Result<()> {
        match options.keys().next() {
            None => Ok(()),
            Some(key) => Err(Error::invalid(format!(
                "the storage `memory` has no option {}",
                quote(key)
            ))),
        }
    }

    async fn open(&self, options: Map<String, Value>, context: &OpenContext) -> Result<OpenedStorage> {
        self.check_options(&options)?;
        Ok(Arc::new(MemoryStorage::new(context.clock.clone())).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_kind_names_the_nearest() {
        let mut registry = StorageRegistry::empty();
        registry.register(MemoryFactory);
        let error = registry
            .check_config(&StorageConfig::Url("memroy:".into()))
            .unwrap_err();
        assert_eq!(error.hint_text(), "did you mean `memory`? Known: `memory`");
    }

    #[test]
    fn options_are_checked_by_the_storage_that_takes_them() {
        let mut registry = StorageRegistry::empty();
        registry.register(MemoryFactory);
        let of = |options: Map<String, Value>| StorageConfig::Table {
            kind: "memory".into(),
            options,
        };
        assert!(registry.check_config(&of(Map::new())).is_ok());
        let wrong = Map::from_iter([("dir".to_owned(), Value::Null)]);
        let error = registry.check_config(&of(wrong)).unwrap_err();
        assert_eq!(error.message(), "the storage `memory` has no option `dir`");
    }
}
