//! The source of the keys: the options, or the standard chain (environment, profile file, web identity, container,
//! instance).

#![allow(
    clippy::disallowed_methods,
    reason = "the standard credential chain is the environment and files that it names"
)]

use std::path::PathBuf;
use std::sync::Arc;

use garret_core::path::quote;
use garret_core::{Error, ErrorKind, Result};
use object_store::StaticCredentialProvider;
use object_store::aws::{AmazonS3Builder, AwsCredential, AwsCredentialProvider};

use super::options::S3Options;
use super::profile;
use super::secret::Secret;

/// Finds the credentials, without a request to a server.
pub(super) fn find_credentials(options: &S3Options) -> Result<AwsCredentialProvider> {
    if let (Some(key), Some(secret)) = (&options.access_key_id, &options.secret_access_key) {
        return Ok(static_provider(AwsCredential {
            key_id: resolve_secret("access_key_id", key)?,
            secret_key: resolve_secret("secret_access_key", secret)?,
            token: options
                .session_token
                .as_ref()
                .map(|token| resolve_secret("session_token", token))
                .transpose()?,
        }));
    }
    // A profile that the options name comes before the environment.
    if options.profile.is_none()
        && let Some(credential) = from_environment()?
    {
        return Ok(static_provider(credential));
    }
    if let Some(credential) = from_profile(options)? {
        return Ok(static_provider(credential));
    }
    issued_credentials(options)
}

fn static_provider(credential: AwsCredential) -> AwsCredentialProvider {
    Arc::new(StaticCredentialProvider::new(credential))
}

fn environment_variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Returns the value of a secret: from the environment, a file, the secrets of the machine, or the text itself. An
/// error names the option and never the value.
fn resolve_secret(option: &str, secret: &Secret) -> Result<String> {
    let text = secret.expose();
    let value = if let Some(name) = text.strip_prefix("env:") {
        environment_variable(name).ok_or_else(|| {
            unusable_option(option, &format!("the variable {} is not set", quote(name)))
                .hint(format!("set {} in the environment", quote(name)))
        })?
    } else if let Some(path) = text.strip_prefix("file:") {
        let unreadable = |_| unusable_option(option, "its file cannot be read");
        std::fs::read_to_string(path).map_err(unreadable)?.trim().to_owned()
    } else if let Some(name) = text.strip_prefix("secret:") {
        read_machine_secret(option, name)?
    } else {
        text.to_owned()
    };
    let is_sound = |c: char| c.is_ascii_graphic();
    if !value.is_empty() && value.chars().all(is_sound) {
        Ok(value)
    } else {
        Err(unusable_option(
            option,
            "its value is empty or has a character that no key can have",
        ))
    }
}

/// Reads a secret that the machine gives to its services: from `CREDENTIALS_DIRECTORY` of the service manager, then
/// from `/run/secrets`.
fn read_machine_secret(option: &str, name: &str) -> Result<String> {
    let is_name = !name.is_empty()
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
        && !name.starts_with('.');
    if !is_name {
        return Err(unusable_option(
            option,
            "a secret's name has letters, digits, `-`, `_` and `.`",
        ));
    }
    let given = environment_variable("GARRET_SECRETS_DIR").or_else(|| environment_variable("CREDENTIALS_DIRECTORY"));
    let places = given.into_iter().chain(["/run/secrets".to_owned()]);
    places
        .map(|place| PathBuf::from(place).join(name))
        .find_map(|path| std::fs::read_to_string(path).ok())
        .map(|value| value.trim().to_owned())
        .ok_or_else(|| unusable_option(option, &format!("there is no secret {}", quote(name))))
}

fn unusable_option(option: &str, why: &str) -> Error {
    Error::new(ErrorKind::Denied, format!("`{option}` cannot be used: {why}"))
        .hint("write `env:NAME`, `file:PATH` or `secret:NAME`, or leave both keys to the standard chain")
}

fn from_environment() -> Result<Option<AwsCredential>> {
    let (key, secret) = (
        environment_variable("AWS_ACCESS_KEY_ID"),
        environment_variable("AWS_SECRET_ACCESS_KEY"),
    );
    match (key, secret) {
        (Some(key_id), Some(secret_key)) => Ok(Some(AwsCredential {
            key_id,
            secret_key,
            token: environment_variable("AWS_SESSION_TOKEN"),
        })),
        (None, None) => Ok(None),
        _ => Err(Error::new(
            ErrorKind::Denied,
            "only one of AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY is set",
        )
        .hint("set both, or neither")),
    }
}

fn from_profile(options: &S3Options) -> Result<Option<AwsCredential>> {
    let wanted = options.profile.clone().or_else(|| environment_variable("AWS_PROFILE"));
    let name = wanted.as_deref().unwrap_or("default");
    let found = profile_files()
        .iter()
        .filter_map(|path| std::fs::read_to_string(path).ok())
        .find_map(|text| profile::read_credential(&text, name));
    if found.is_none() && wanted.is_some() {
        let message = format!(
            "the profile {} has no keys in the shared credentials files",
            quote(name)
        );
        return Err(Error::new(ErrorKind::Denied, message).hint("correct `profile` or AWS_PROFILE, or add its keys"));
    }
    Ok(found)
}

fn profile_files() -> Vec<PathBuf> {
    let home = environment_variable("HOME").map(PathBuf::from);
    let place = |name: &str, default: &str| {
        environment_variable(name)
            .map(PathBuf::from)
            .or_else(|| home.as_ref().map(|home| home.join(default)))
    };
    [
        place("AWS_SHARED_CREDENTIALS_FILE", ".aws/credentials"),
        place("AWS_CONFIG_FILE", ".aws/config"),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Returns credentials that are issued and renewed: to a web identity, a container, or the instance.
fn issued_credentials(options: &S3Options) -> Result<AwsCredentialProvider> {
    let failed = |_| Error::new(ErrorKind::Denied, "the credentials of this machine cannot be requested");
    // The HTTP client for these requests needs a crypto provider, as ours does.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let retry = object_store::RetryConfig {
        max_retries: 2,
        retry_timeout: std::time::Duration::from_millis(options.request_timeout_ms.min(10_000)),
        ..Default::default()
    };
    let store = AmazonS3Builder::from_env()
        .with_bucket_name(&options.bucket)
        .with_region(&options.region)
        .with_retry(retry)
        .build()
        .map_err(failed)?;
    Ok(store.credentials().clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_taken_from_a_file_without_its_line_end() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key");
        std::fs::write(&path, "hunter2\n").unwrap();
        let secret = Secret::new(format!("file:{}", path.display()));
        assert_eq!(resolve_secret("secret_access_key", &secret).unwrap(), "hunter2");
    }

    #[test]
    fn what_cannot_be_found_is_named_by_its_option() {
        for text in [
            "env:GARRET_NO_SUCH_VARIABLE",
            "file:/nonexistent/key",
            "secret:../x",
            "",
        ] {
            let error = resolve_secret("secret_access_key", &Secret::new(text)).unwrap_err();
            assert!(error.message().contains("`secret_access_key`"), "{error}");
            assert!(!error.to_string().contains("/nonexistent"), "{error}");
        }
    }

    #[test]
    fn a_key_with_a_line_break_is_refused_without_showing_it() {
        let error = resolve_secret("secret_access_key", &Secret::new("hunter2\nx: y")).unwrap_err();
        assert!(!format!("{error:?}").contains("hunter2"), "{error}");
    }
}
