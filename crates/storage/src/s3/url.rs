//! `s3://bucket/prefix?endpoint=…&force_path_style=true` as options.

use garret_core::path::quote;
use garret_core::{Error, Result};
use serde_json::{Map, Value};

use super::wire::encode;

/// Options whose value in a URL is a number or a switch.
const TYPED: [&str; 9] = [
    "force_path_style",
    "search_enabled",
    "max_read_bytes",
    "max_objects_scanned",
    "max_grep_bytes_per_object",
    "search_concurrency",
    "request_timeout_ms",
    "max_retries",
    "retry_backoff_ms",
];
const SECRET: [&str; 3] = ["access_key_id", "secret_access_key", "session_token"];

/// Reads the part of a URL after `s3:`. A secret in a URL must be a reference, because URLs are logged and shown.
pub(super) fn options_of_url(rest: &str) -> Result<Map<String, Value>> {
    let shape = || {
        Error::invalid("the URL of an S3 storage has the form `s3://bucket/prefix`")
            .hint("for example `s3://bucket/notes?endpoint=http://127.0.0.1:9000&force_path_style=true`")
    };
    let rest = rest.strip_prefix("//").ok_or_else(shape)?;
    let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (bucket, prefix) = place.split_once('/').unwrap_or((place, ""));
    if bucket.is_empty() {
        return Err(shape());
    }
    let mut options = Map::new();
    options.insert("bucket".into(), decode_text(bucket)?.into());
    options.insert("prefix".into(), decode_text(prefix)?.into());
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, "true"));
        let (name, value) = (decode_text(name)?, decode_text(value)?);
        let known = garret_core::shape::snake_case(&name);
        refuse_secret(&known, &value)?;
        if options.insert(name.clone(), typed_value(&known, value)).is_some() {
            return Err(Error::invalid(format!("{} is given twice in the URL", quote(&name))));
        }
    }
    Ok(options)
}

fn decode_text(part: &str) -> Result<String> {
    let bytes = encode::percent_decode(part, encode::PlusSign::Kept);
    String::from_utf8(bytes).map_err(|_| Error::invalid("the URL of an S3 storage is not UTF-8"))
}

fn typed_value(name: &str, value: String) -> Value {
    if !TYPED.contains(&name) {
        return value.into();
    }
    match value.as_str() {
        "true" => true.into(),
        "false" => false.into(),
        number => number.parse::<u64>().map_or_else(|_| value.clone().into(), Value::from),
    }
}

fn refuse_secret(name: &str, value: &str) -> Result<()> {
    if !SECRET.contains(&name) || super::Secret::new(value).is_reference() {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "`{name}` must not be in a URL, because URLs are shown in logs and messages"
    ))
    .hint("take it from the environment, or write `env:NAME`, `file:PATH` or `secret:NAME`"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_url_and_a_table_mean_the_same() {
        let options = options_of_url("//bucket/a/b?endpoint=http://127.0.0.1:9000&force_path_style=true&maxRetries=3");
        let table = json!({"bucket": "bucket", "prefix": "a/b", "endpoint": "http://127.0.0.1:9000", "force_path_style": true, "maxRetries": 3});
        assert_eq!(Value::Object(options.unwrap()), table);
    }

    #[test]
    fn a_bucket_alone_is_its_root() {
        for rest in ["//bucket", "//bucket/"] {
            assert_eq!(options_of_url(rest).unwrap()["prefix"], "");
        }
        assert!(options_of_url("bucket").is_err());
        assert!(options_of_url("///x").is_err());
    }

    #[test]
    fn escapes_are_read() {
        let options = options_of_url("//b/a%20b?endpoint=http%3A%2F%2Fhost").unwrap();
        assert_eq!(options["prefix"], "a b");
        assert_eq!(options["endpoint"], "http://host");
    }

    #[test]
    fn a_secret_in_a_url_is_refused_without_showing_it() {
        for name in ["secret_access_key", "secretAccessKey", "access_key_id"] {
            let error = options_of_url(&format!("//b/p?{name}=hunter2")).unwrap_err();
            assert!(!format!("{error:?}").contains("hunter2"), "{error}");
        }
        assert!(options_of_url("//b/p?secret_access_key=env:KEY").is_ok());
    }

    #[test]
    fn an_option_given_twice_is_refused() {
        assert!(options_of_url("//b/p?region=x&region=y").is_err());
    }
}
