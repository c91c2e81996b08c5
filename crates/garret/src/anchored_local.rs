//! Local directories that are relative to a directory of the caller's choice, not to the current directory of the
//! process.

use std::path::{Path, PathBuf};

use async_trait::async_trait;
use garret_core::path::quote;
use garret_core::{Error, ErrorKind, OpenContext, OpenedStorage, Result, StorageConfig, StorageFactory};
use garret_storage::LocalFactory;
use serde_json::{Map, Value};

/// Opens `local` with its `dir` relative to `base`, as a configuration file means it.
#[derive(Debug, Clone)]
pub(crate) struct AnchoredLocalFactory {
    base: PathBuf,
    is_confined: bool,
}

impl AnchoredLocalFactory {
    pub(crate) fn new(base: &Path) -> Self {
        Self {
            base: base.to_owned(),
            is_confined: false,
        }
    }

    /// Returns a factory that refuses every directory outside of `base`.
    pub(crate) fn new_confined(base: &Path) -> Self {
        Self {
            is_confined: true,
            ..Self::new(base)
        }
    }

    /// Refuses an opened directory that is outside of the base.
    async fn check_inside(&self, opened: &OpenedStorage, written: &str, context: &OpenContext) -> Result<()> {
        if !self.is_confined {
            return Ok(());
        }
        let base = self.base.to_str().ok_or_else(not_utf8_error)?;
        let options = directory_options(base);
        // Both paths come from open handles, so a link that is swapped after the opening cannot deceive the check.
        let base = LocalFactory.open(options, context).await?.directory;
        match (&opened.directory, &base) {
            (Some(directory), Some(base)) if directory.starts_with(base) => Ok(()),
            _ => Err(Error::new(
                ErrorKind::Denied,
                format!(
                    "the directory {} lies outside the directory of the configuration file",
                    quote(written)
                ),
            )
            .hint("a file that is not trusted can only use directories below its own directory")),
        }
    }
}

#[async_trait]
impl StorageFactory for AnchoredLocalFactory {
    fn kind(&self) -> &'static str {
        LocalFactory.kind()
    }

    fn parse_url(&self, rest: &str) -> Result<Map<String, Value>> {
        LocalFactory.parse_url(rest)
    }

    fn check_options(&self, options: &Map<String, Value>) -> Result<()> {
        LocalFactory.check_options(options)
    }

    async fn open(&self, mut options: Map<String, Value>, context: &OpenContext) -> Result<OpenedStorage> {
        let Some(Value::String(written)) = options.get("dir").cloned() else {
            return LocalFactory.open(options, context).await;
        };
        let directory = self.base.join(&written);
        let directory = directory.to_str().ok_or_else(not_utf8_error)?.to_owned();
        options.insert("dir".into(), directory.clone().into());
        // The error must not show the absolute path of the host: it names the directory as it was written.
        let as_written = |error: Error| error.map_text(|text| text.replace(&directory, &written));
        let opened = LocalFactory.open(options, context).await.map_err(as_written)?;
        self.check_inside(&opened, &written, context).await?;
        Ok(opened)
    }
}

/// Returns the storage `local` on a directory.
pub(crate) fn local_storage(directory: &str) -> StorageConfig {
    StorageConfig::table(LocalFactory.kind(), directory_options(directory))
}

fn directory_options(directory: &str) -> Map<String, Value> {
    Map::from_iter([("dir".to_owned(), directory.into())])
}

/// The error for a directory whose path is not UTF-8, which no configuration can contain.
pub(crate) fn not_utf8_error() -> Error {
    Error::invalid("the name of this directory is not UTF-8").hint("use a symbolic link with a UTF-8 name")
}
