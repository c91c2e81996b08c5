//! What a workspace may do: each capability is declared, with its policy, or its tools do not exist.

use schemars::JsonSchema;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::FsPolicy;

/// A capability in a configuration: `true` for the defaults, an object with options, `false` or absent for none.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Declared<P> {
    /// `true` or `false`.
    Switch(bool),
    /// The options; what is left out has its default.
    Options(P),
}

impl<P> Default for Declared<P> {
    fn default() -> Self {
        Self::Switch(false)
    }
}

/// Written out, because a derived reader of untagged data does not say what was wrong.
impl<'de, P: DeserializeOwned> Deserialize<'de> for Declared<P> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::Bool(switch) => Ok(Self::Switch(switch)),
            value @ Value::Object(_) => P::deserialize(value).map(Self::Options).map_err(D::Error::custom),
            _ => Err(D::Error::custom(
                "a capability is `true`, `false` or an object with options",
            )),
        }
    }
}

impl<P: Clone + Default> Declared<P> {
    /// The policy where the capability is declared.
    pub fn policy(&self) -> Option<P> {
        match self {
            Self::Switch(true) => Some(P::default()),
            Self::Switch(false) => None,
            Self::Options(options) => Some(options.clone()),
        }
    }
}

/// The capabilities of a workspace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Capabilities {
    /// The file tools.
    #[serde(default)]
    pub fs: Declared<FsPolicy>,
}

impl Default for Capabilities {
    /// The file tools with their defaults: what a workspace without a configuration has.
    fn default() -> Self {
        Self {
            fs: Declared::Switch(true),
        }
    }
}
