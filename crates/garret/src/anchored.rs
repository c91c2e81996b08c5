//! Local directories that are relative to a directory of the caller's choice, not to that of the process.

use std::path::{Path, PathBuf};

use async_trait::async_trait;
use garret_core::{Error, OpenContext, Opened, Result, StorageFactory};
use garret_storage::LocalFactory;
use serde_json::{Map, Value};

/// Opens `local` with its `dir` below `base`, as a configuration file means it.
#[derive(Debug, Clone)]
pub(crate) struct AnchoredLocal {
    base: PathBuf,
}

impl AnchoredLocal {
    pub(crate) fn new(base: &Path) -> Self {
        Self { base: base.to_owned() }
    }
}

#[async_trait]
impl StorageFactory for AnchoredLocal {
    fn kind(&self) -> &'static str {
        LocalFactory.kind()
    }

    fn options_of_url(&self, rest: &str) -> Result<Map<String, Value>> {
        LocalFactory.options_of_url(rest)
    }

    fn check(&self, options: &Map<String, Value>) -> Result<()> {
        LocalFactory.check(options)
    }

    async fn open(&self, mut options: Map<String, Value>, context: &OpenContext) -> Result<Opened> {
        let Some(Value::String(written)) = options.get("dir").cloned() else {
            return LocalFactory.open(options, context).await;
        };
        let directory = self.base.join(&written);
        let directory = directory.to_str().ok_or_else(not_utf8)?.to_owned();
        options.insert("dir".into(), directory.clone().into());
        // The host's path is nobody's business: the error speaks of the directory as it was written.
        let as_written = |error: Error| error.map_text(|text| text.replace(&directory, &written));
        LocalFactory.open(options, context).await.map_err(as_written)
    }
}

/// The error for a directory that no configuration could write down.
pub(crate) fn not_utf8() -> Error {
    Error::invalid("the name of this directory is not UTF-8").hint("go through a link with a plain name")
}
