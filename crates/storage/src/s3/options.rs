//! The options of an S3 storage, in both spellings, and their checks.

use garret_core::path::quote;
use garret_core::{Error, Result};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::secret::Secret;

/// How many processes may write below the prefix at once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WriterMode {
    /// Any number: the server must honour preconditions, and opening fails where it does not.
    #[default]
    Many,
    /// Only this handle: preconditions are checked before a write instead of with it.
    Single,
}

/// The options of an S3 storage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct S3Options {
    /// The bucket, which must exist.
    #[schemars(example = &"bucket")]
    pub bucket: String,
    /// Where in the bucket the workspace lies; `""` for all of it.
    #[schemars(example = &"team/notes")]
    pub prefix: String,
    /// The access key, or where it is found: `env:NAME`, `file:PATH`, `secret:NAME`. The default is the
    /// standard chain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"env:ACCESS_KEY_ID")]
    pub access_key_id: Option<Secret>,
    /// The secret of the access key, or where it is found. The default is the standard chain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"env:SECRET_ACCESS_KEY")]
    pub secret_access_key: Option<Secret>,
    /// The token of temporary credentials, or where it is found. The default is the standard chain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"env:SESSION_TOKEN")]
    pub session_token: Option<Secret>,
    /// The profile of the shared credentials file. The default is `AWS_PROFILE`, or `default`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"team")]
    pub profile: Option<String>,
    /// The URL of the server. The default is AWS in `region`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"http://127.0.0.1:9000")]
    pub endpoint: Option<String>,
    /// The region that requests are signed for.
    #[serde(default = "default_region")]
    #[schemars(example = &"eu-central-1")]
    pub region: String,
    /// Whether the bucket is part of the path and not of the host name.
    #[serde(default)]
    #[schemars(example = true)]
    pub force_path_style: bool,
    /// How many processes may write.
    #[serde(default)]
    #[schemars(example = &"single")]
    pub writers: WriterMode,
    /// The most bytes that a tool reads at once.
    #[serde(default = "default_max_read_bytes")]
    #[schemars(example = 1_048_576)]
    pub max_read_bytes: u64,
    /// Whether there are `grep` and `glob`.
    #[serde(default = "default_search_enabled")]
    #[schemars(example = false)]
    pub search_enabled: bool,
    /// The most objects that one search looks at. The default is all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = 100_000)]
    pub max_objects_scanned: Option<u64>,
    /// The most bytes of one object that a search reads. The default is all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = 1_048_576)]
    pub max_grep_bytes_per_object: Option<u64>,
    /// How many objects a search fetches at once.
    #[serde(default = "default_search_concurrency")]
    #[schemars(example = 32)]
    pub search_concurrency: usize,
    /// How long a request may go without an answer or another byte of one.
    #[serde(default = "default_request_timeout_ms")]
    #[schemars(example = 60_000)]
    pub request_timeout_ms: u64,
    /// How often a request that failed for a passing reason is tried again.
    #[serde(default = "default_max_retries")]
    #[schemars(example = 3)]
    pub max_retries: u32,
    /// About how long the first retry waits; each one waits longer, by a random part.
    #[serde(default = "default_retry_backoff_ms")]
    #[schemars(example = 200)]
    pub retry_backoff_ms: u64,
}

fn default_region() -> String {
    "us-east-1".into()
}

fn default_max_read_bytes() -> u64 {
    10 * 1024 * 1024
}

fn default_search_enabled() -> bool {
    true
}

fn default_search_concurrency() -> usize {
    16
}

fn default_request_timeout_ms() -> u64 {
    30_000
}

fn default_max_retries() -> u32 {
    6
}

fn default_retry_backoff_ms() -> u64 {
    100
}

impl S3Options {
    /// Returns options for the bucket and prefix on AWS, with every other option at its default.
    pub fn new(bucket: impl Into<String>, prefix: impl Into<String>) -> Self {
        Self {
            bucket: bucket.into(),
            prefix: prefix.into(),
            access_key_id: None,
            secret_access_key: None,
            session_token: None,
            profile: None,
            endpoint: None,
            region: default_region(),
            force_path_style: false,
            writers: WriterMode::default(),
            max_read_bytes: default_max_read_bytes(),
            search_enabled: true,
            max_objects_scanned: None,
            max_grep_bytes_per_object: None,
            search_concurrency: default_search_concurrency(),
            request_timeout_ms: default_request_timeout_ms(),
            max_retries: default_max_retries(),
            retry_backoff_ms: default_retry_backoff_ms(),
        }
    }

    /// Refuses options that cannot work, before any request is sent.
    pub fn check(&self) -> Result<()> {
        self.check_bucket()?;
        self.check_endpoint()?;
        self.check_keys()?;
        for (name, value) in [
            ("search_concurrency", self.search_concurrency as u64),
            ("request_timeout_ms", self.request_timeout_ms),
            ("max_read_bytes", self.max_read_bytes),
        ] {
            if value == 0 {
                return Err(Error::invalid(format!("`{name}` must be at least 1")));
            }
        }
        Ok(())
    }

    fn check_bucket(&self) -> Result<()> {
        let is_fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        if !self.bucket.is_empty() && self.bucket.chars().all(is_fine) {
            return Ok(());
        }
        Err(
            Error::invalid(format!("{} is not a valid bucket name", quote(&self.bucket)))
                .hint("a bucket has letters, digits, `.` and `-`; the part after it is the `prefix`"),
        )
    }

    fn check_endpoint(&self) -> Result<()> {
        let Some(endpoint) = &self.endpoint else { return Ok(()) };
        let rest = ["http://", "https://"]
            .iter()
            .find_map(|scheme| endpoint.strip_prefix(scheme));
        let wrong = |rest: &str| rest.is_empty() || rest.contains(['@', '?', '#', ' ']);
        if rest.is_none_or(wrong) {
            return Err(Error::invalid("`endpoint` is not a valid URL")
                .hint("write it as `http://host:port` or `https://host`, without user, query or fragment"));
        }
        Ok(())
    }

    fn check_keys(&self) -> Result<()> {
        let missing = match (&self.access_key_id, &self.secret_access_key, &self.session_token) {
            (Some(_), None, _) => "`access_key_id` is given without `secret_access_key`",
            (None, Some(_), _) => "`secret_access_key` is given without `access_key_id`",
            (None, None, Some(_)) => "`session_token` is given without the keys it belongs to",
            _ => return Ok(()),
        };
        Err(Error::invalid(missing).hint("give both keys, or neither for the standard credential chain"))
    }
}

#[cfg(test)]
mod tests {
    use garret_core::shape;
    use serde_json::json;

    use super::*;

    fn read(value: serde_json::Value) -> Result<S3Options> {
        shape::from_value::<S3Options>(value).and_then(|options| options.check().map(|()| options))
    }

    #[test]
    fn both_spellings_are_read() {
        let snake = read(json!({"bucket": "b", "prefix": "", "force_path_style": true, "max_read_bytes": 5})).unwrap();
        let camel = read(json!({"bucket": "b", "prefix": "", "forcePathStyle": true, "maxReadBytes": 5})).unwrap();
        assert_eq!(snake, camel);
        assert!(snake.force_path_style);
    }

    #[test]
    fn what_is_left_out_has_its_default() {
        let options = read(json!({"bucket": "b", "prefix": "p"})).unwrap();
        assert_eq!(options, S3Options::new("b", "p"));
        assert_eq!(
            (options.region.as_str(), options.max_read_bytes),
            ("us-east-1", 10 << 20)
        );
    }

    #[test]
    fn the_prefix_must_be_said() {
        let error = read(json!({"bucket": "b"})).unwrap_err();
        assert!(error.message().contains("prefix"), "{error}");
    }

    #[test]
    fn an_unknown_option_is_refused_with_the_nearest() {
        let error = read(json!({"bucket": "b", "prefix": "", "endpont": "http://x"})).unwrap_err();
        assert!(error.hint_text().contains("`endpoint`"), "{error}");
    }

    #[test]
    fn half_a_key_pair_is_refused() {
        let error = read(json!({"bucket": "b", "prefix": "", "accessKeyId": "AKIA"})).unwrap_err();
        assert!(error.message().contains("without `secret_access_key`"), "{error}");
        assert!(!format!("{error:?}").contains("AKIA"), "{error}");
    }

    #[test]
    fn an_endpoint_is_a_url_without_credentials() {
        for endpoint in ["127.0.0.1:9000", "ftp://x", "http://", "http://user:pass@host"] {
            let error = read(json!({"bucket": "b", "prefix": "", "endpoint": endpoint})).unwrap_err();
            assert!(error.message().contains("`endpoint`"), "{error}");
            assert!(!error.to_string().contains("pass"), "{error}");
        }
    }

    #[test]
    fn options_show_no_secret() {
        let options = read(json!({"bucket": "b", "prefix": "", "accessKeyId": "AKIA", "secretAccessKey": "hunter2", "sessionToken": "tok"})).unwrap();
        let shown = format!("{options:?} {}", serde_json::to_string(&options).unwrap());
        for secret in ["AKIA", "hunter2", "tok\""] {
            assert!(!shown.contains(secret), "{shown}");
        }
    }
}
