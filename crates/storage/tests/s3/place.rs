//! Where a test's files lie, and how they are opened.

use std::sync::Arc;

use garret_core::{HistoryMode, OpenContext, RandomIds, Result, Storage, StorageFactory, SystemClock};
use garret_storage::s3::S3Factory;
use garret_testkit::s3::{Keys, Proxy, Server};
use garret_testkit::{Fixture, Probe};
use serde_json::{Map, Value, json};

/// A prefix in a bucket, seen by somebody from somewhere.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) endpoint: String,
    pub(crate) keys: Keys,
    pub(crate) bucket: String,
    pub(crate) prefix: String,
    pub(crate) options: Map<String, Value>,
}

impl Place {
    /// A new prefix on `server`.
    pub(crate) fn on(server: &Server) -> Self {
        Self {
            endpoint: server.endpoint(),
            keys: server.keys(),
            bucket: server.bucket().to_owned(),
            prefix: server.prefix(),
            options: Map::new(),
        }
    }

    /// A prefix of the tests' bucket that another process has chosen.
    pub(crate) fn elsewhere(endpoint: &str, prefix: &str) -> Self {
        Self {
            endpoint: endpoint.to_owned(),
            keys: Keys::admin(),
            bucket: Server::BUCKET.to_owned(),
            prefix: prefix.to_owned(),
            options: Map::new(),
        }
    }

    /// The same through a proxy, with little patience.
    pub(crate) fn through(&self, proxy: &Proxy) -> Self {
        Self {
            endpoint: proxy.endpoint(),
            ..self.clone()
        }
        .with("retry_backoff_ms", 1)
    }

    /// The same with one option more.
    pub(crate) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.options.insert(name.to_owned(), value.into());
        self
    }

    pub(crate) async fn try_open(&self) -> Result<Arc<dyn Storage>> {
        let given = json!({
            "bucket": self.bucket,
            "prefix": self.prefix,
            "access_key_id": self.keys.access_key_id,
            "secret_access_key": self.keys.secret_access_key,
            "endpoint": self.endpoint,
            "force_path_style": true,
        });
        let Value::Object(mut options) = given else {
            unreachable!("it is an object")
        };
        options.extend(self.options.clone());
        S3Factory.open(options, &context()).await.map(|opened| opened.storage)
    }

    pub(crate) async fn open(&self) -> Probe {
        self.fixture().await.probe()
    }

    /// No error may show the secret.
    pub(crate) async fn fixture(&self) -> Fixture {
        let storage = self
            .try_open()
            .await
            .unwrap_or_else(|error| panic!("it opens: {error:?}"));
        Fixture::new(storage).hiding(self.keys.secret_access_key.clone())
    }

    /// The key of a path, or what all keys of the place begin with.
    pub(crate) fn key(&self, path: &str) -> String {
        format!("{}/{path}", self.prefix)
    }
}

fn context() -> OpenContext {
    OpenContext {
        clock: Arc::new(SystemClock::default()),
        ids: Arc::new(RandomIds),
        history: HistoryMode::Durable,
    }
}
