//! The options of a local storage: `local:DIR`, or a table with `dir` and `durability`.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use garret_core::{Durability, EntryPath, Error, OpenContext, OpenedStorage, Result, StorageFactory, shape};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::LocalStorage;

/// The options of a local storage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LocalOptions {
    /// The directory that becomes the root; relative to the current directory of the process at opening.
    #[schemars(example = &"notes")]
    pub dir: String,
    /// Whether a write that returned survives a crash of the machine.
    #[serde(default)]
    #[schemars(example = &"relaxed")]
    pub durability: Durability,
}

impl LocalOptions {
    /// Returns options for the directory `dir` with the default durability.
    pub fn new(dir: impl Into<String>) -> Self {
        Self {
            dir: dir.into(),
            durability: Durability::Full,
        }
    }
}

/// Opens local storages as `local:DIR`.
#[derive(Debug, Clone, Copy, Default)]
pub struct LocalFactory;

#[async_trait]
impl StorageFactory for LocalFactory {
    fn kind(&self) -> &'static str {
        "local"
    }

    fn parse_url(&self, rest: &str) -> Result<Map<String, Value>> {
        if rest.is_empty() {
            return Err(Error::invalid("`local:` needs a directory").hint("write `local:.` for the current directory"));
        }
        Ok(Map::from_iter([("dir".to_owned(), Value::from(rest))]))
    }

    fn check_options(&self, options: &Map<String, Value>) -> Result<()> {
        shape::from_value::<LocalOptions>(Value::Object(options.clone())).map(|_| ())
    }

    async fn open(&self, options: Map<String, Value>, context: &OpenContext) -> Result<OpenedStorage> {
        let options: LocalOptions = shape::from_value(Value::Object(options))?;
        let storage = LocalStorage::open(&options, context)?;
        let place = storage.host_path();
        let reference = place.as_deref().and_then(|place| absolute_options(place, &options));
        Ok(OpenedStorage {
            directory: place.as_deref().and_then(directory_of_place),
            given_directory: std::path::absolute(&options.dir).ok(),
            location_id: place,
            reference,
            durability: options.durability,
            ..Arc::new(storage).into()
        })
    }
}

/// Returns the directory of a place.
fn directory_of_place(place: &str) -> Option<PathBuf> {
    let below = EntryPath::from_token(place.strip_prefix('/')?).ok()?;
    Some(Path::new("/").join(OsStr::from_bytes(below.as_bytes())))
}

/// Returns the options that open the same directory from anywhere on this machine; `None` if its path is not UTF-8.
fn absolute_options(place: &str, options: &LocalOptions) -> Option<Map<String, Value>> {
    let place = EntryPath::from_token(place.strip_prefix('/')?).ok()?;
    let absolute = LocalOptions {
        dir: format!("/{}", place.as_path()?),
        ..options.clone()
    };
    match serde_json::to_value(absolute) {
        Ok(Value::Object(options)) => Some(options),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_unknown_durability_is_refused_with_the_right_shape() {
        let error = shape::from_value::<LocalOptions>(json!({"dir": ".", "durability": "none"})).unwrap_err();
        assert!(error.hint_text().contains("full"), "{error}");
    }

    #[test]
    fn the_default_is_durable() {
        let options: LocalOptions = shape::from_value(json!({"dir": "."})).unwrap();
        assert_eq!(options, LocalOptions::new("."));
    }

    #[test]
    fn a_url_without_a_directory_is_refused() {
        assert!(LocalFactory.parse_url("").is_err());
    }
}
