//! The policy on ports of commands that programs outside may reach.

use std::net::{IpAddr, Ipv4Addr};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Error, ErrorKind, Result};

/// The ports of background processes that programs outside may reach.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PortPolicy {
    /// Whether ports may be opened. The default is yes for the workspace itself and no for a scope; `true` allows it to
    /// scopes as well.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = true)]
    pub allow: Option<bool>,
    /// The address of this machine at which opened ports listen. With another than a loopback address, other machines
    /// reach them.
    #[schemars(example = &"::1")]
    pub bind: IpAddr,
}

impl Default for PortPolicy {
    fn default() -> Self {
        Self {
            allow: None,
            bind: Ipv4Addr::LOCALHOST.into(),
        }
    }
}

impl PortPolicy {
    /// Returns the address at which a port may listen: `wanted`, or that of the policy. A refusal is a `denied` error
    /// that names the rule.
    pub fn decide_address(&self, is_scope: bool, wanted: Option<IpAddr>) -> Result<IpAddr> {
        if !self.allow.unwrap_or(!is_scope) {
            let owner = if is_scope { "a scope" } else { "this workspace" };
            let message = format!("{owner} may not open ports");
            return Err(Error::new(ErrorKind::Denied, message)
                .with_rule("ports.allow")
                .hint("the owner of the workspace can set `ports = { allow = true }` for the capability `shell`"));
        }
        let address = wanted.unwrap_or(self.bind);
        if address == self.bind || address.is_loopback() {
            return Ok(address);
        }
        let message = format!("ports of this workspace may not listen on {address}");
        Err(Error::new(ErrorKind::Denied, message)
            .with_rule(format!("ports.bind = \"{}\"", self.bind))
            .hint(format!(
                "leave the address out, or set `ports = {{ bind = \"{address}\" }}` for the capability `shell`"
            )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn ports_listen_on_the_loopback_interface_unless_the_policy_names_another_address() {
        let policy = PortPolicy::default();
        assert_eq!(policy.decide_address(false, None).unwrap(), address("127.0.0.1"));
        assert_eq!(
            policy.decide_address(false, Some(address("::1"))).unwrap(),
            address("::1")
        );
        for wanted in ["0.0.0.0", "::", "192.0.2.7"] {
            let error = policy.decide_address(false, Some(address(wanted))).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Denied);
            assert_eq!(error.refused_by(), Some("ports.bind = \"127.0.0.1\""));
        }
        let open = PortPolicy {
            bind: address("0.0.0.0"),
            ..policy
        };
        assert_eq!(open.decide_address(false, None).unwrap(), address("0.0.0.0"));
        assert!(open.decide_address(false, Some(address("192.0.2.7"))).is_err());
        assert!(open.decide_address(false, Some(address("127.0.0.1"))).is_ok());
    }

    #[test]
    fn a_scope_opens_ports_only_if_the_policy_allows_it() {
        let decide = |allow, is_scope| {
            let policy = PortPolicy {
                allow,
                ..PortPolicy::default()
            };
            policy.decide_address(is_scope, None).is_ok()
        };
        assert_eq!([decide(None, false), decide(None, true)], [true, false]);
        assert_eq!([decide(Some(true), false), decide(Some(true), true)], [true, true]);
        assert_eq!([decide(Some(false), false), decide(Some(false), true)], [false, false]);
    }
}
