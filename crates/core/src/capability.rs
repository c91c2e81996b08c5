//! The capabilities of a workspace: each one is declared, with its policy, or its tools do not exist.

use schemars::JsonSchema;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::path::quote;
use crate::{CodePolicy, Error, FsPolicy, Result, ShellPolicy, shape};

/// A capability in a configuration: `true` for the defaults, an object with options, `false` or absent for none.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum DeclaredCapability<P> {
    /// `true` or `false`.
    Switch(bool),
    /// The options; an option that is left out has its default.
    Options(P),
}

impl<P> Default for DeclaredCapability<P> {
    fn default() -> Self {
        Self::Switch(false)
    }
}

/// Written by hand, because the derived reader of an untagged enum does not say which part of the data is wrong.
impl<'de, P: DeserializeOwned> Deserialize<'de> for DeclaredCapability<P> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::Bool(switch) => Ok(Self::Switch(switch)),
            value @ Value::Object(_) => {
                // The reader around this one reports the path to the capability, but not the path within it.
                let options = serde_path_to_error::deserialize(value);
                options.map(Self::Options).map_err(D::Error::custom)
            }
            _ => Err(D::Error::custom(
                "a capability is `true`, `false` or an object with options",
            )),
        }
    }
}

impl<P> DeclaredCapability<P> {
    /// Returns whether the capability is declared.
    pub const fn is_declared(&self) -> bool {
        !matches!(self, Self::Switch(false))
    }

    /// Returns the earlier setting if the capability is declared both now and before; otherwise the setting of now.
    fn keep_options_of(self, before: Self) -> Self {
        if self.is_declared() && before.is_declared() {
            before
        } else {
            self
        }
    }
}

impl<P: Clone + Default> DeclaredCapability<P> {
    /// Returns the policy, if the capability is declared.
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
    #[schemars(example = serde_json::json!({"read_only": true}))]
    pub fs: DeclaredCapability<FsPolicy>,
    /// The tools for snapshots, branches and merges.
    #[serde(default)]
    #[schemars(example = true)]
    pub snapshot: DeclaredCapability<SnapshotPolicy>,
    /// The tools for commands.
    #[serde(default)]
    #[schemars(example = serde_json::json!({"network": "none"}))]
    pub shell: DeclaredCapability<ShellPolicy>,
    /// The tools for code.
    #[serde(default)]
    #[schemars(example = serde_json::json!({"languages": ["python"]}))]
    pub code: DeclaredCapability<CodePolicy>,
}

/// The options of the `snapshot` capability; there are none yet.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SnapshotPolicy {}

impl Capabilities {
    /// The names of all capabilities.
    pub const NAMES: [&str; 4] = ["fs", "snapshot", "shell", "code"];

    /// Declares no capability at all.
    pub fn none() -> Self {
        Self {
            fs: DeclaredCapability::Switch(false),
            snapshot: DeclaredCapability::Switch(false),
            shell: DeclaredCapability::Switch(false),
            code: DeclaredCapability::Switch(false),
        }
    }

    /// Declares the capabilities called `names`, each with its defaults, and no others.
    pub fn from_names<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Self> {
        let mut all = Self::none();
        for name in names {
            match name {
                "fs" => all.fs = DeclaredCapability::Switch(true),
                "snapshot" => all.snapshot = DeclaredCapability::Switch(true),
                "shell" => all.shell = DeclaredCapability::Switch(true),
                "code" => all.code = DeclaredCapability::Switch(true),
                _ => return Err(unknown_capability(name)),
            }
        }
        Ok(all)
    }

    /// Returns these capabilities, but each one that `before` declares too has the options that it had there.
    #[must_use]
    pub fn keep_options_of(self, before: Self) -> Self {
        Self {
            fs: self.fs.keep_options_of(before.fs),
            snapshot: self.snapshot.keep_options_of(before.snapshot),
            shell: self.shell.keep_options_of(before.shell),
            code: self.code.keep_options_of(before.code),
        }
    }

    /// Returns the names of the declared capabilities.
    pub fn declared_names(&self) -> Vec<&'static str> {
        let declared = [
            self.fs.is_declared(),
            self.snapshot.is_declared(),
            self.shell.is_declared(),
            self.code.is_declared(),
        ];
        let named = Self::NAMES.into_iter().zip(declared);
        named
            .filter_map(|(name, is_declared)| is_declared.then_some(name))
            .collect()
    }
}

fn unknown_capability(name: &str) -> Error {
    let hint = shape::known_names_hint(name, Capabilities::NAMES.into_iter());
    Error::invalid(format!("unknown capability {}", quote(name))).hint(hint)
}

impl Default for Capabilities {
    /// Returns the capabilities of a workspace without a configuration: files, snapshots and branches with their
    /// defaults.
    fn default() -> Self {
        Self {
            fs: DeclaredCapability::Switch(true),
            snapshot: DeclaredCapability::Switch(true),
            ..Self::none()
        }
    }
}
