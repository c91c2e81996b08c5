//! The network of commands, as a configuration writes it.

use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use super::host_rule::{HostRule, RequestedHost};
use crate::{Error, Network};

const HTTPS_PORT: u16 = 443;

/// The part of the network that commands reach: `none`, `full`, or the hosts that are named.
#[derive(Debug, Clone, Default, PartialEq, Eq, JsonSchema)]
#[schemars(with = "NetworkChoiceShape")]
pub enum NetworkChoice {
    /// Nothing, not even the machine itself.
    #[default]
    None,
    /// Everything that the machine reaches.
    Full,
    /// HTTP and TLS to these hosts, through a proxy outside the sandbox.
    Named(NamedNetwork),
}

/// The written form of a [`NetworkChoice`].
#[derive(JsonSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "only its schema is used")]
enum NetworkChoiceShape {
    Word(NetworkWord),
    Named(NamedNetwork),
}

#[derive(JsonSchema)]
#[serde(rename_all = "snake_case")]
#[allow(dead_code, reason = "only its schema is used")]
enum NetworkWord {
    None,
    Full,
}

/// The hosts that commands reach by name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NamedNetwork {
    /// Hosts: `example.org` and `*.example.net:443`; `{ host = "git.example.org", private = true }` for a host with a
    /// private address, and `plain = true` for one that speaks another protocol than HTTP and TLS. Without a port: 80
    /// and 443.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("default" = []), example = ["example.org", "*.example.net:443"])]
    pub allow: Vec<HostRule>,
    /// Also the package registries that the package managers of this machine report.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schemars(extend("default" = false), example = true)]
    pub registries: bool,
    /// Headers that the proxy adds to requests to one host. The sandbox never holds their values.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        extend("default" = []),
        example = [serde_json::json!({"host": "api.example.org", "value": "env:API_TOKEN", "prefix": "Bearer "})]
    )]
    pub secrets: Vec<HostSecret>,
}

/// A header with a secret value, for the requests to one host over HTTPS.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HostSecret {
    /// The host, perhaps with a port; without one 443. It needs no rule in `allow`.
    #[serde(deserialize_with = "read_secret_host", serialize_with = "write_secret_host")]
    #[schemars(with = "String", example = &"api.example.org")]
    pub host: RequestedHost,
    /// The name of the header.
    #[serde(default = "default_header")]
    #[schemars(example = &"x-api-key")]
    pub header: String,
    /// Where the value is found: `env:NAME` or `file:PATH`.
    #[schemars(example = &"env:API_TOKEN")]
    pub value: String,
    /// The text before the value in the header, such as `Bearer `.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(extend("default" = ""), example = &"Bearer ")]
    pub prefix: String,
}

fn read_secret_host<'de, D: Deserializer<'de>>(deserializer: D) -> Result<RequestedHost, D::Error> {
    let text = String::deserialize(deserializer)?;
    RequestedHost::parse(&text, Some(HTTPS_PORT))
        .map_err(|error| D::Error::custom(format!("{}; {}", error.message(), error.hint_text())))
}

fn write_secret_host<S: Serializer>(host: &RequestedHost, serializer: S) -> Result<S::Ok, S::Error> {
    if host.port == HTTPS_PORT {
        serializer.collect_str(&host.name)
    } else {
        serializer.collect_str(host)
    }
}

fn default_header() -> String {
    "authorization".to_owned()
}

impl NamedNetwork {
    /// Says in words which hosts are named.
    pub fn describe(&self) -> String {
        let allowed = self.allow.iter().map(ToString::to_string);
        let secrets = self
            .secrets
            .iter()
            .map(|secret| format!("{} with a secret", secret.host));
        let registries = self
            .registries
            .then(|| "the package registries of this machine".to_owned());
        let all: Vec<_> = allowed.chain(secrets).chain(registries).collect();
        if all.is_empty() {
            "no host".to_owned()
        } else {
            all.join(", ")
        }
    }
}

impl NetworkChoice {
    /// Returns the network of the sandbox.
    pub fn sandbox_network(&self) -> Network {
        match self {
            Self::None => Network::None,
            Self::Full => Network::Full,
            Self::Named(_) => Network::Named,
        }
    }

    /// Returns the hosts that are named.
    pub fn named(&self) -> Option<&NamedNetwork> {
        match self {
            Self::Named(named) => Some(named),
            Self::None | Self::Full => None,
        }
    }

    /// Reads `none`, `full`, or a list of hosts, in which `registries` stands for the package registries. A JSON object
    /// is read as a [`NamedNetwork`].
    pub fn from_words(text: &str) -> crate::Result<Self> {
        match text {
            "none" => Ok(Self::None),
            "full" => Ok(Self::Full),
            json if json.starts_with('{') => serde_json::from_str(json).map(Self::Named).map_err(|error| {
                Error::invalid(format!("the network cannot be read: {error}"))
                    .hint("write it as in a configuration: `{\"allow\": [\"example.org\"]}`")
            }),
            _ => {
                let (registries, hosts): (Vec<&str>, Vec<&str>) =
                    text.split(',').map(str::trim).partition(|word| *word == "registries");
                let allow = hosts.into_iter().map(HostRule::parse).collect::<crate::Result<_>>()?;
                Ok(Self::Named(NamedNetwork {
                    allow,
                    registries: !registries.is_empty(),
                    secrets: Vec::new(),
                }))
            }
        }
    }
}

impl Serialize for NetworkChoice {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::None => serializer.serialize_str("none"),
            Self::Full => serializer.serialize_str("full"),
            Self::Named(named) => named.serialize(serializer),
        }
    }
}

/// Written by hand, because the derived reader of an untagged enum does not say which part of the data is wrong.
impl<'de> Deserialize<'de> for NetworkChoice {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(word) if word == "none" => Ok(Self::None),
            Value::String(word) if word == "full" => Ok(Self::Full),
            table @ Value::Object(_) => NamedNetwork::deserialize(table)
                .map(Self::Named)
                .map_err(D::Error::custom),
            _ => Err(D::Error::custom(
                "the network is `none`, `full` or a table such as { allow = [\"example.org\"], registries = true }",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_is_a_word_or_names_hosts() {
        let read = |json: &str| serde_json::from_str::<NetworkChoice>(json).map_err(|error| error.to_string());
        assert_eq!(read("\"none\""), Ok(NetworkChoice::None));
        assert_eq!(read("\"full\""), Ok(NetworkChoice::Full));
        let json = r#"{"allow":["example.org"],"registries":true,"secrets":[{"host":"api.example.org","header":"authorization","value":"env:T"}]}"#;
        assert_eq!(serde_json::to_string(&read(json).unwrap()).unwrap(), json);
        assert!(read("\"some\"").unwrap_err().contains("`none`, `full`"));
        assert!(read("{\"alow\":[]}").unwrap_err().contains("`allow`"));
        assert!(
            read("{\"allow\":[\"https://example.org\"]}")
                .unwrap_err()
                .contains("without scheme")
        );
    }

    #[test]
    fn a_network_is_read_from_the_words_of_a_command_line() {
        let words = |text| NetworkChoice::from_words(text);
        assert_eq!(words("full").unwrap(), NetworkChoice::Full);
        let NetworkChoice::Named(named) = words("example.org, registries,*.example.net:8443").unwrap() else {
            panic!("hosts are named")
        };
        assert!(named.registries);
        let shown: Vec<_> = named.allow.iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["example.org", "*.example.net:8443"]);
        assert!(words("").is_err() && words("example.org,").is_err());
        let json = words(r#"{"allow": [{"host": "git.example.org", "private": true}]}"#).unwrap();
        assert!(json.named().unwrap().allow[0].is_private);
        assert!(words("{\"alow\": []}").is_err());
    }
}
