//! Keys in a bucket that no path names.

use garret_core::{HistoryMode, Result, StorageConfig, StorageFactory, shape};
use garret_storage::s3::{Finding, S3Factory, S3Options, S3Storage};
use serde_json::Value;

use crate::Garret;

impl Garret {
    /// Looks in the bucket of the workspace `name` for keys that no path names, or that stand in each other's way: no list shows them and
    /// no operation reaches them. A workspace that is in no bucket has none.
    pub async fn stray_keys(&self, name: &str) -> Result<Vec<Finding>> {
        let StorageConfig::Table { kind, options } = self.config_of(name).await?.storage else {
            return Ok(Vec::new());
        };
        if kind != S3Factory.kind() {
            return Ok(Vec::new());
        }
        let options: S3Options = shape::from_value(Value::Object(options))?;
        let storage = S3Storage::open(options, &self.context(HistoryMode::Off)).await?;
        storage.check().await
    }
}
