//! A rule that allows hosts by name: `example.org`, `*.example.net:443`, `localhost:8080`, `10.1.2.3`.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::path::quote;
use crate::{Error, Result};

/// The ports of a rule that names none: those of HTTP and HTTPS.
const DEFAULT_PORTS: [u16; 2] = [80, 443];

/// The name or the address of a host.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum HostName {
    /// A name, in lower case and without a dot at its end.
    Name(String),
    /// An address.
    Address(IpAddr),
}

impl HostName {
    /// Reads a name, an IPv4 address, or an IPv6 address with or without brackets. Other notations of an address, such
    /// as `0x7f.1` and `127.1`, are `invalid`: a resolver would take them for one.
    pub fn parse(text: &str) -> Result<Self> {
        let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
        if let Ok(address) = Ipv6Addr::from_str(bare.unwrap_or(text)) {
            return Ok(Self::Address(address.into()));
        }
        if let Ok(address) = Ipv4Addr::from_str(text) {
            return Ok(Self::Address(address.into()));
        }
        let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
        let is_label = |label: &str| {
            let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
            (1..=63).contains(&label.len()) && label.chars().all(is_part)
        };
        let last = name.rsplit('.').next().unwrap_or_default();
        let is_number =
            last.starts_with(|c: char| c.is_ascii_digit()) && last.chars().all(|c| c.is_ascii_hexdigit() || c == 'x');
        if name.len() <= 253 && name.split('.').all(is_label) && !is_number {
            return Ok(Self::Name(name));
        }
        Err(
            Error::invalid(format!("{} is not the name of a host", quote(text))).hint(
                "write a name such as `example.org`, or an address in its usual form; international names in Punycode",
            ),
        )
    }

    /// Whether the name always means this machine.
    pub fn is_localhost(&self) -> bool {
        match self {
            Self::Name(name) => name == "localhost" || name.ends_with(".localhost"),
            Self::Address(_) => false,
        }
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => formatter.write_str(name),
            Self::Address(IpAddr::V6(address)) => write!(formatter, "[{address}]"),
            Self::Address(address) => write!(formatter, "{address}"),
        }
    }
}

/// A host and a port that a request asks for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RequestedHost {
    /// The host.
    pub name: HostName,
    /// The port.
    pub port: u16,
}

impl RequestedHost {
    /// Reads `HOST:PORT` or `HOST`, with a default port for the latter.
    pub fn parse(text: &str, default_port: Option<u16>) -> Result<Self> {
        let (host, port) = split_port(text)?;
        let port = port
            .or(default_port)
            .ok_or_else(|| Error::invalid(format!("{} names no port", quote(text))).hint("write it as `HOST:PORT`"))?;
        Ok(Self {
            name: HostName::parse(host)?,
            port,
        })
    }
}

impl fmt::Display for RequestedHost {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.name, self.port)
    }
}

/// Splits `HOST:PORT` and `[ADDRESS]:PORT`.
fn split_port(text: &str) -> Result<(&str, Option<u16>)> {
    let is_bare_v6 = text.matches(':').count() > 1 && !text.starts_with('[');
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !is_bare_v6 && !port.ends_with(']') => (host, port),
        _ => return Ok((text, None)),
    };
    let is_digits = port.chars().all(|c| c.is_ascii_digit());
    match port.parse() {
        Ok(port) if is_digits && port > 0 => Ok((host, Some(port))),
        _ => {
            Err(Error::invalid(format!("{} has no valid port", quote(text))).hint("a port is a number from 1 to 65535"))
        }
    }
}

/// The hosts that a rule means.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum HostPattern {
    /// One host.
    Exactly(HostName),
    /// Every name below this one, at any depth.
    Below(String),
    /// Every name.
    AnyName,
}

impl HostPattern {
    /// Whether it is an address, or `localhost`. Such a rule means just this one, private or not.
    fn means_one_address(&self) -> bool {
        match self {
            Self::Exactly(name) => name.is_localhost() || matches!(name, HostName::Address(_)),
            Self::Below(_) | Self::AnyName => false,
        }
    }
}

/// A rule that allows requests to hosts.
#[derive(Debug, Clone, PartialEq, Eq, Hash, JsonSchema)]
#[schemars(with = "HostRuleShape")]
pub struct HostRule {
    pattern: HostPattern,
    port: Option<u16>,
    /// Whether the host may have an address that is not public.
    pub is_private: bool,
    /// Whether tunnels may carry another protocol than TLS.
    pub is_plain: bool,
}

/// The written form of a [`HostRule`].
#[derive(JsonSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "only its schema is used")]
enum HostRuleShape {
    /// A host, perhaps with a port: `example.org`, `*.example.net:443`.
    Host(String),
    Detailed(DetailedHostRule),
}

/// A rule on hosts with details.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct DetailedHostRule {
    /// The host, perhaps with a port: `example.org`, `*.example.net:443`.
    #[schemars(example = &"git.example.org:22")]
    host: String,
    /// Allow addresses of private networks and of this machine.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schemars(extend("default" = false), example = true)]
    private: bool,
    /// Allow tunnels that carry another protocol than TLS, such as SSH.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schemars(extend("default" = false), example = true)]
    plain: bool,
}

impl HostRule {
    /// Reads a rule from its text.
    pub fn parse(text: &str) -> Result<Self> {
        if text.contains("://") || text.contains('/') {
            return Err(Error::invalid(format!("{} is not a rule on hosts", quote(text)))
                .hint("write the host without scheme and path: `example.org`, `*.example.net:443`"));
        }
        let (host, port) = split_port(text)?;
        let pattern = match (host, host.strip_prefix("*.")) {
            ("*", _) => HostPattern::AnyName,
            (_, Some(parent)) => match HostName::parse(parent)? {
                HostName::Name(parent) => HostPattern::Below(parent),
                HostName::Address(_) => {
                    return Err(
                        Error::invalid(format!("{} has a wildcard before an address", quote(text)))
                            .hint("name each address"),
                    );
                }
            },
            _ => HostPattern::Exactly(HostName::parse(host)?),
        };
        Ok(Self {
            is_private: pattern.means_one_address(),
            pattern,
            port,
            is_plain: false,
        })
    }

    /// Makes a rule for one host and port.
    pub fn for_host(host: RequestedHost) -> Self {
        let pattern = HostPattern::Exactly(host.name);
        Self {
            is_private: pattern.means_one_address(),
            pattern,
            port: Some(host.port),
            is_plain: false,
        }
    }

    /// Makes a rule for a package registry, which may have a private address.
    pub fn for_registry(host: RequestedHost) -> Self {
        Self {
            is_private: true,
            ..Self::for_host(host)
        }
    }

    /// Whether the rule allows requests to this host, on some port.
    pub fn names_host(&self, name: &HostName) -> bool {
        match (&self.pattern, name) {
            (HostPattern::Exactly(own), name) => own == name,
            (HostPattern::Below(parent), HostName::Name(name)) => name
                .strip_suffix(parent.as_str())
                .is_some_and(|rest| rest.len() > 1 && rest.ends_with('.')),
            (HostPattern::AnyName, HostName::Name(_)) => true,
            (HostPattern::Below(_) | HostPattern::AnyName, HostName::Address(_)) => false,
        }
    }

    /// Whether the rule allows the port.
    pub fn names_port(&self, port: u16) -> bool {
        match self.port {
            Some(own) => own == port,
            None => DEFAULT_PORTS.contains(&port),
        }
    }
}

/// Shows the host and the port as a configuration writes them.
impl fmt::Display for HostRule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.pattern {
            HostPattern::Exactly(name) => write!(formatter, "{name}")?,
            HostPattern::Below(parent) => write!(formatter, "*.{parent}")?,
            HostPattern::AnyName => formatter.write_str("*")?,
        }
        self.port.map_or(Ok(()), |port| write!(formatter, ":{port}"))
    }
}

impl Serialize for HostRule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let host = self.to_string();
        let is_as_parsed = Self::parse(&host).is_ok_and(|parsed| parsed == *self);
        if is_as_parsed {
            serializer.serialize_str(&host)
        } else {
            let detailed = DetailedHostRule {
                host,
                private: self.is_private,
                plain: self.is_plain,
            };
            detailed.serialize(serializer)
        }
    }
}

/// Written by hand, because the derived reader of an untagged enum does not say which part of the data is wrong.
impl<'de> Deserialize<'de> for HostRule {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wrong = |error: &Error| D::Error::custom(format!("{}; {}", error.message(), error.hint_text()));
        match Value::deserialize(deserializer)? {
            Value::String(text) => Self::parse(&text).map_err(|error| wrong(&error)),
            table @ Value::Object(_) => {
                let detailed: DetailedHostRule = serde_json::from_value(table).map_err(D::Error::custom)?;
                let rule = Self::parse(&detailed.host).map_err(|error| wrong(&error))?;
                Ok(Self {
                    is_private: rule.is_private || detailed.private,
                    is_plain: detailed.plain,
                    ..rule
                })
            }
            _ => Err(D::Error::custom(
                "a rule on hosts is a text such as \"example.org\", or a table such as { host = \"example.org\", private = true }",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> HostName {
        HostName::parse(text).unwrap()
    }

    fn allows(rule: &str, host: &str) -> bool {
        let (rule, host) = (
            HostRule::parse(rule).unwrap(),
            RequestedHost::parse(host, None).unwrap(),
        );
        rule.names_host(&host.name) && rule.names_port(host.port)
    }

    #[test]
    fn a_rule_allows_its_host_on_the_ports_of_the_web() {
        assert!(allows("example.org", "example.org:443"));
        assert!(allows("example.org", "EXAMPLE.org.:80"));
        assert!(!allows("example.org", "example.org:8080"));
        assert!(!allows("example.org", "www.example.org:443"));
        assert!(!allows("example.org", "notexample.org:443"));
        assert!(allows("example.org:22", "example.org:22"));
        assert!(!allows("example.org:22", "example.org:443"));
    }

    #[test]
    fn a_wildcard_stands_for_names_below_and_never_for_an_address() {
        assert!(allows("*.example.net", "a.example.net:443"));
        assert!(allows("*.example.net", "a.b.example.net:443"));
        for host in [
            "example.net:443",
            "badexample.net:443",
            "example.net.evil.example:443",
            "10.0.0.1:443",
        ] {
            assert!(!allows("*.example.net", host), "{host}");
        }
        assert!(allows("*", "anything.example:443"));
        assert!(!allows("*", "127.0.0.1:443") && !allows("*", "[::1]:443"));
    }

    #[test]
    fn an_address_is_allowed_only_by_its_own_rule() {
        assert!(allows("10.0.0.1:9000", "10.0.0.1:9000"));
        assert!(allows("[::1]:9000", "[0:0::1]:9000"));
        assert!(HostRule::parse("10.0.0.1").unwrap().is_private && HostRule::parse("localhost:1").unwrap().is_private);
        assert!(!HostRule::parse("example.org").unwrap().is_private);
    }

    #[test]
    fn other_notations_of_an_address_are_no_names() {
        for text in [
            "0x7f.1",
            "127.1",
            "2130706433",
            "0177.0.0.1",
            "a.0x1",
            "",
            "a..b",
            "-",
            "exa mple",
            "ex%61mple",
            "[::1",
            "münchen.example",
            "a@b",
        ] {
            let is_refused = HostName::parse(text).is_err();
            assert!(is_refused || text == "-", "{text}");
        }
        assert_eq!(name("Example.ORG."), HostName::Name("example.org".into()));
        for text in ["example.org:0", "example.org:99999", "example.org:+80", "example.org:"] {
            assert!(RequestedHost::parse(text, Some(80)).is_err(), "{text}");
        }
    }

    #[test]
    fn a_rule_is_written_as_it_was_read() {
        for json in [
            "\"example.org\"",
            "\"*.example.net:443\"",
            "\"*\"",
            "\"[::1]:80\"",
            "{\"host\":\"git.example.org:22\",\"private\":true,\"plain\":true}",
        ] {
            let rule: HostRule = serde_json::from_str(json).unwrap();
            assert_eq!(serde_json::to_string(&rule).unwrap(), json);
        }
        for wrong in [
            "\"https://example.org/\"",
            "\"*.10.0.0.1\"",
            "\"a.*.example\"",
            "{\"host\":\"a\",\"privat\":true}",
            "3",
        ] {
            assert!(serde_json::from_str::<HostRule>(wrong).is_err(), "{wrong}");
        }
    }
}
