//! The toolchains of the user that commands see.

use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::shape;

/// The toolchains of the user that commands see.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema)]
#[schemars(with = "ToolchainChoiceShape")]
pub enum ToolchainChoice {
    /// Those that are installed.
    Auto,
    /// None.
    None,
    /// These; opening the sandbox fails if one of them cannot be shown.
    Named(Vec<ToolchainName>),
}

/// The written form of a [`ToolchainChoice`].
#[derive(JsonSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "only its schema is used")]
enum ToolchainChoiceShape {
    Word(ToolchainWord),
    Names(Vec<ToolchainName>),
}

#[derive(JsonSchema)]
#[serde(rename_all = "snake_case")]
#[allow(dead_code, reason = "only its schema is used")]
enum ToolchainWord {
    Auto,
    None,
}

/// A family of toolchains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolchainName {
    /// rustup and cargo.
    Rust,
    /// pyenv.
    Pyenv,
    /// uv, with its Python versions and tools.
    Uv,
    /// conda, mamba and their environments.
    Conda,
    /// nvm.
    Nvm,
    /// fnm.
    Fnm,
    /// Volta.
    Volta,
    /// asdf.
    Asdf,
    /// mise.
    Mise,
    /// Go.
    Go,
    /// SDKMAN.
    Sdkman,
    /// The directories of `/opt`.
    Opt,
}

impl ToolchainName {
    /// All families, in the order in which their directories are searched for programs.
    pub const ALL: [Self; 12] = [
        Self::Rust,
        Self::Pyenv,
        Self::Uv,
        Self::Conda,
        Self::Nvm,
        Self::Fnm,
        Self::Volta,
        Self::Asdf,
        Self::Mise,
        Self::Go,
        Self::Sdkman,
        Self::Opt,
    ];

    /// Returns the word for the family.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Rust => "rust",
            Self::Pyenv => "pyenv",
            Self::Uv => "uv",
            Self::Conda => "conda",
            Self::Nvm => "nvm",
            Self::Fnm => "fnm",
            Self::Volta => "volta",
            Self::Asdf => "asdf",
            Self::Mise => "mise",
            Self::Go => "go",
            Self::Sdkman => "sdkman",
            Self::Opt => "opt",
        }
    }

    fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|name| name.as_str() == word)
    }
}

impl Serialize for ToolchainChoice {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Auto => serializer.serialize_str("auto"),
            Self::None => serializer.serialize_str("none"),
            Self::Named(names) => names.serialize(serializer),
        }
    }
}

/// Written by hand, because the derived reader of an untagged enum does not say which part of the data is wrong.
impl<'de> Deserialize<'de> for ToolchainChoice {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wrong =
            || D::Error::custom("toolchains are \"auto\", \"none\" or a list of names such as [\"rust\", \"nvm\"]");
        match Value::deserialize(deserializer)? {
            Value::String(word) => match word.as_str() {
                "auto" => Ok(Self::Auto),
                "none" => Ok(Self::None),
                _ => Err(wrong()),
            },
            Value::Array(names) => {
                let name_of = |value: &Value| {
                    let word = value.as_str().ok_or_else(wrong)?;
                    ToolchainName::from_word(word).ok_or_else(|| {
                        let known = shape::known_names_hint(word, ToolchainName::ALL.iter().map(|name| name.as_str()));
                        D::Error::custom(format!("unknown toolchain `{word}`; {known}"))
                    })
                };
                names.iter().map(name_of).collect::<Result<_, _>>().map(Self::Named)
            }
            _ => Err(wrong()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<ToolchainChoice, String> {
        serde_json::from_str(json).map_err(|error| error.to_string())
    }

    #[test]
    fn a_choice_is_a_word_or_a_list_of_names() {
        assert_eq!(read("\"auto\""), Ok(ToolchainChoice::Auto));
        assert_eq!(read("\"none\""), Ok(ToolchainChoice::None));
        let named = ToolchainChoice::Named(vec![ToolchainName::Rust, ToolchainName::Nvm]);
        assert_eq!(read("[\"rust\", \"nvm\"]"), Ok(named.clone()));
        assert_eq!(serde_json::to_string(&named).unwrap(), "[\"rust\",\"nvm\"]");
        assert!(read("[\"rustt\"]").unwrap_err().contains("`rust`"));
        assert!(read("\"all\"").unwrap_err().contains("\"auto\", \"none\""));
    }
}
