//! The environment of a command: a few fixed variables, and those that the policy, the workspace and the request give
//! it. A command never has the whole environment that Garret itself was started with.

use std::collections::BTreeMap;

use garret_core::{Error, NetworkChoice, Result, Secrets, ShellPolicy};

/// The variables that every command has at least, besides those of its sandbox.
const BASE: [(&str, &str); 1] = [("TERM", "dumb")];
/// The variables of a command without a network: package managers would try again for many seconds what cannot work.
const WITHOUT_NETWORK: [(&str, &str); 3] = [
    ("PIP_RETRIES", "0"),
    ("npm_config_fetch_retries", "0"),
    ("CARGO_NET_RETRY", "0"),
];

/// The variables of a command, and the secrets among their values.
#[derive(Debug, Clone)]
pub(in crate::shell) struct Environment {
    pub(in crate::shell) variables: BTreeMap<String, String>,
    pub(in crate::shell) secrets: Secrets,
}

impl Environment {
    /// Builds the environment from the fixed variables and from `parts`; a later part overrides the parts before it.
    pub(in crate::shell) fn new(policy: &ShellPolicy, parts: &[&BTreeMap<String, String>]) -> Result<Self> {
        let is_offline = policy.network == NetworkChoice::None && policy.sandbox != ShellPolicy::HOST;
        let base = BASE
            .into_iter()
            .chain(WITHOUT_NETWORK.into_iter().filter(|_| is_offline))
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
        let mut variables: BTreeMap<String, String> = base.collect();
        for part in parts {
            part.iter().try_for_each(|(name, value)| check_variable(name, value))?;
            variables.extend(part.iter().map(|(name, value)| (name.clone(), value.clone())));
        }
        let values = policy
            .secrets
            .iter()
            .filter_map(|name| Some((name, variables.get(name)?)));
        let secrets = Secrets::new(values);
        Ok(Self { variables, secrets })
    }
}

fn check_variable(name: &str, value: &str) -> Result<()> {
    let is_name = !name.is_empty() && !name.contains(['=', '\0']);
    if is_name && !value.contains('\0') {
        return Ok(());
    }
    // The value is not shown: it may be a secret.
    let message = format!(
        "{} is not valid as an environment variable",
        garret_core::path::quote(name)
    );
    Err(Error::invalid(message).hint("a name cannot have `=`, and neither name nor value can have a NUL byte"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        let pairs = pairs.iter();
        pairs
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn package_managers_do_not_try_again_where_there_is_no_network() {
        let retries = |policy: &ShellPolicy| {
            let environment = Environment::new(policy, &[]).unwrap();
            environment.variables.get("PIP_RETRIES").cloned()
        };
        let full = ShellPolicy {
            network: NetworkChoice::Full,
            ..ShellPolicy::default()
        };
        assert_eq!(retries(&ShellPolicy::default()).as_deref(), Some("0"));
        assert_eq!(retries(&full), None);
    }

    #[test]
    fn later_parts_win_over_earlier_ones() {
        let (workspace, call) = (map(&[("A", "1"), ("PATH", "/x")]), map(&[("A", "2")]));
        let environment = Environment::new(&ShellPolicy::default(), &[&workspace, &call]).unwrap();
        assert_eq!(environment.variables["A"], "2");
        assert_eq!(environment.variables["PATH"], "/x");
        assert_eq!(environment.variables["TERM"], "dumb");
    }

    #[test]
    fn what_is_named_secret_is_known_wherever_it_comes_from() {
        let policy = ShellPolicy {
            secrets: vec!["TOKEN".into(), "ABSENT".into()],
            ..ShellPolicy::default()
        };
        let environment = Environment::new(&policy, &[&map(&[("TOKEN", "hunter2")])]).unwrap();
        assert_eq!(environment.secrets.mask_text("is hunter2"), "is [TOKEN]");
    }

    #[test]
    fn a_name_that_is_none_is_refused_without_its_value() {
        for name in ["", "A=B", "A\0"] {
            let error = Environment::new(&ShellPolicy::default(), &[&map(&[(name, "hunter2")])]).unwrap_err();
            assert!(!error.to_string().contains("hunter2"), "{error}");
        }
    }
}
