//! Decides which requests of commands are allowed, and by which rule.

use std::fmt;
use std::net::IpAddr;

use serde::Serialize;

use super::address_class::AddressClass;
use super::host_rule::{HostName, HostRule, RequestedHost};
use super::network_choice::NamedNetwork;

/// The setting that a rule comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub enum RuleSource {
    /// `network.allow`.
    Allow,
    /// `network.registries`.
    Registries,
    /// `network.secrets`.
    Secrets,
}

impl RuleSource {
    /// Returns the key of the setting.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Allow => "network.allow",
            Self::Registries => "network.registries",
            Self::Secrets => "network.secrets",
        }
    }
}

/// All rules on the requests of commands.
#[derive(Debug, Clone, Default)]
pub struct NetworkRules {
    rules: Vec<(RuleSource, HostRule)>,
}

/// The rule that allows a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleMatch {
    /// The setting.
    pub source: RuleSource,
    /// The rule.
    pub rule: HostRule,
}

/// Shows the rule with its setting: `network.allow: *.example.org`.
impl fmt::Display for RuleMatch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.source.key(), self.rule)
    }
}

impl RuleMatch {
    /// Returns whether the rule allows this address of its host; the class of the address if not.
    pub fn check_address(&self, address: IpAddr, is_own_address: bool) -> Result<(), AddressClass> {
        let class = match AddressClass::of_address(address) {
            AddressClass::Public if is_own_address => AddressClass::Loopback,
            class => class,
        };
        let is_group = matches!(class, AddressClass::Multicast);
        if class == AddressClass::Public || (self.rule.is_private && !is_group) {
            Ok(())
        } else {
            Err(class)
        }
    }
}

/// The reason why a request is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NetworkRefusal {
    /// No rule names the host.
    UnknownHost,
    /// A rule names the host, and none the port.
    UnknownPort,
    /// The host has only addresses that the rule does not allow.
    Address(AddressClass),
    /// A TLS connection names another server than the tunnel; the name, if it has one.
    ServerName(Option<String>),
    /// A tunnel carries another protocol than TLS.
    PlainTunnel,
    /// The response of a host that gets a secret is encoded, so that the secret could not be found in it.
    EncodedResponse,
    /// The request is not one that a proxy takes.
    Malformed(&'static str),
}

impl NetworkRefusal {
    /// Says in words why the request to `host` is refused.
    pub fn describe(&self, host: &str) -> String {
        match self {
            Self::UnknownHost => format!("no rule in `network.allow` names {host}"),
            Self::UnknownPort => format!("no rule in `network.allow` names the port of {host}"),
            Self::Address(class) => format!(
                "{host} is {}; a rule of `network.allow` with `private = true` allows that",
                class.as_words()
            ),
            Self::ServerName(Some(name)) => {
                format!("the TLS connection to {host} names another server (`{name}`)")
            }
            Self::ServerName(None) => format!("the TLS connection to {host} names no server (SNI)"),
            Self::PlainTunnel => {
                format!("the tunnel to {host} is not TLS; a rule of `network.allow` with `plain = true` allows that")
            }
            Self::EncodedResponse => {
                format!("the response of {host} is encoded, and a secret of `network.secrets` could not be found in it")
            }
            Self::Malformed(what) => format!("the request to {host} is not one for a proxy: {what}"),
        }
    }
}

impl NetworkRules {
    /// Makes the rules of a configuration; `registries` are the package registries that this machine reports.
    pub fn new(named: &NamedNetwork, registries: &[RequestedHost]) -> Self {
        let allow = named.allow.iter().map(|rule| (RuleSource::Allow, rule.clone()));
        let secrets = named.secrets.iter();
        let secrets = secrets.map(|secret| (RuleSource::Secrets, HostRule::for_host(secret.host.clone())));
        let registries = registries.iter().filter(|_| named.registries);
        let registries = registries.map(|host| (RuleSource::Registries, HostRule::for_registry(host.clone())));
        Self {
            rules: allow.chain(secrets).chain(registries).collect(),
        }
    }

    /// Returns the rule that allows requests to a host. Among several, one that allows more comes first.
    pub fn find_rule(&self, host: &RequestedHost) -> Result<RuleMatch, NetworkRefusal> {
        let fitting = self.rules.iter().filter(|(_, rule)| rule.names_host(&host.name));
        let on_port = fitting.clone().filter(|(_, rule)| rule.names_port(host.port));
        let widest = on_port.max_by_key(|(_, rule)| (rule.is_private, rule.is_plain));
        match widest {
            Some((source, rule)) => Ok(RuleMatch {
                source: *source,
                rule: rule.clone(),
            }),
            None if fitting.count() > 0 => Err(NetworkRefusal::UnknownPort),
            None => Err(NetworkRefusal::UnknownHost),
        }
    }

    /// Compares the server that a TLS connection names with the host of its tunnel. A connection to an address names
    /// none.
    pub fn check_server_name(host: &HostName, server_name: Option<&str>) -> Result<(), NetworkRefusal> {
        let is_same = match (host, server_name) {
            (HostName::Address(_), None) => true,
            (host, Some(name)) => HostName::parse(name).is_ok_and(|name| name == *host),
            (HostName::Name(_), None) => false,
        };
        if is_same {
            Ok(())
        } else {
            Err(NetworkRefusal::ServerName(server_name.map(str::to_owned)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(json: &str, registries: &[&str]) -> NetworkRules {
        let registries: Vec<_> = registries
            .iter()
            .map(|host| RequestedHost::parse(host, None).unwrap())
            .collect();
        NetworkRules::new(&serde_json::from_str(json).unwrap(), &registries)
    }

    fn decide(rules: &NetworkRules, host: &str) -> Result<String, NetworkRefusal> {
        let host = RequestedHost::parse(host, None).unwrap();
        rules.find_rule(&host).map(|found| found.to_string())
    }

    #[test]
    fn a_request_is_allowed_by_a_rule_with_its_setting() {
        let rules = rules(
            r#"{"allow": ["example.org", "*.example.net"], "registries": true, "secrets": [{"host": "api.example.org:443", "value": "env:T"}]}"#,
            &["mirror.example:8080"],
        );
        assert_eq!(decide(&rules, "example.org:443").unwrap(), "network.allow: example.org");
        assert_eq!(
            decide(&rules, "a.example.net:80").unwrap(),
            "network.allow: *.example.net"
        );
        assert_eq!(
            decide(&rules, "mirror.example:8080").unwrap(),
            "network.registries: mirror.example:8080"
        );
        assert_eq!(
            decide(&rules, "api.example.org:443").unwrap(),
            "network.secrets: api.example.org:443"
        );
        assert_eq!(decide(&rules, "mirror.example:80"), Err(NetworkRefusal::UnknownPort));
        assert_eq!(decide(&rules, "evil.example:443"), Err(NetworkRefusal::UnknownHost));
        assert_eq!(decide(&rules, "127.0.0.1:443"), Err(NetworkRefusal::UnknownHost));
    }

    #[test]
    fn reported_registries_count_only_if_the_configuration_says_so() {
        let rules = rules(r#"{"allow": ["example.org"]}"#, &["mirror.example:8080"]);
        assert_eq!(decide(&rules, "mirror.example:8080"), Err(NetworkRefusal::UnknownHost));
    }

    #[test]
    fn a_name_leads_to_a_private_address_only_if_its_rule_says_so() {
        let found = |json: &str, host: &str| {
            let host = RequestedHost::parse(host, None).unwrap();
            rules(json, &[]).find_rule(&host).unwrap()
        };
        let public = found(r#"{"allow": ["example.org"]}"#, "example.org:443");
        assert_eq!(public.check_address([8, 8, 8, 8].into(), false), Ok(()));
        assert_eq!(
            public.check_address([8, 8, 8, 8].into(), true),
            Err(AddressClass::Loopback)
        );
        assert_eq!(
            public.check_address([10, 0, 0, 1].into(), false),
            Err(AddressClass::Private)
        );
        let private = found(
            r#"{"allow": ["*.example.org", {"host": "a.example.org", "private": true}]}"#,
            "a.example.org:443",
        );
        assert_eq!(private.check_address([10, 0, 0, 1].into(), false), Ok(()));
        assert_eq!(
            private.check_address([224, 0, 0, 1].into(), false),
            Err(AddressClass::Multicast)
        );
        let local = found(r#"{"allow": ["localhost:8080"]}"#, "localhost:8080");
        assert_eq!(local.check_address([127, 0, 0, 1].into(), false), Ok(()));
    }

    #[test]
    fn a_tls_connection_must_name_the_host_of_its_tunnel() {
        let check = |host: &str, name| NetworkRules::check_server_name(&HostName::parse(host).unwrap(), name);
        assert_eq!(check("example.org", Some("EXAMPLE.org")), Ok(()));
        assert!(check("example.org", Some("evil.example")).is_err() && check("example.org", None).is_err());
        assert!(check("10.0.0.1", None).is_ok() && check("10.0.0.1", Some("evil.example")).is_err());
    }
}
