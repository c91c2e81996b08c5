//! Parts of a request that the tools for commands share.

use std::collections::BTreeMap;
use std::time::Duration;

use garret_core::{Error, Result};
use garret_workspace::RunRequest;

/// Returns a request for the shell, with its directory and environment.
pub(crate) fn shell_request(command: String, cwd: Option<String>, env: Option<BTreeMap<String, String>>) -> RunRequest {
    RunRequest {
        cwd: cwd.unwrap_or_default(),
        env: env.unwrap_or_default(),
        ..RunRequest::shell(command)
    }
}

/// Parses a time in seconds; absent and 0 are none.
pub(crate) fn parse_seconds(name: &str, value: Option<f64>) -> Result<Option<Duration>> {
    // Models fill optional numbers with 0.
    let Some(value) = value.filter(|value| *value != 0.0) else {
        return Ok(None);
    };
    Duration::try_from_secs_f64(value).map(Some).map_err(|_| {
        Error::invalid(format!("`{name}` must be a number of seconds, not {value}"))
            .hint("pass a number such as 30 or 0.5")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_time_is_none() {
        assert_eq!(parse_seconds("wait_s", None).unwrap(), None);
        assert_eq!(parse_seconds("wait_s", Some(0.0)).unwrap(), None);
        assert_eq!(
            parse_seconds("wait_s", Some(0.5)).unwrap(),
            Some(Duration::from_millis(500))
        );
        assert!(parse_seconds("wait_s", Some(-1.0)).is_err());
    }
}
