//! Values that are used and never shown.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

/// The text that is shown instead of a secret.
pub(super) const REDACTED: &str = "[redacted]";

const REFERENCES: [&str; 3] = ["env:", "file:", "secret:"];

/// A secret, or where it is found: `env:NAME`, `file:PATH`, `secret:NAME`.
///
/// Shown, logged or serialised, a reference is itself and anything else is `[redacted]`; only opening a storage takes the value out.
#[derive(Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// Wraps a value or a reference.
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    /// Returns whether it is a reference to a secret and not the secret, so that it may be written down.
    pub fn is_reference(&self) -> bool {
        REFERENCES.iter().any(|prefix| self.0.starts_with(prefix))
    }

    /// Returns the text itself, to resolve or use it.
    pub(super) fn expose(&self) -> &str {
        &self.0
    }

    fn redacted_text(&self) -> &str {
        if self.is_reference() { &self.0 } else { REDACTED }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Secret({})", self.redacted_text())
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.redacted_text())
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.redacted_text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_shown_nowhere() {
        let secret = Secret::new("hunter2");
        let shown = format!("{secret:?} {secret} {}", serde_json::to_string(&secret).unwrap());
        assert!(!shown.contains("hunter2"), "{shown}");
        assert_eq!(secret.expose(), "hunter2");
    }

    #[test]
    fn a_reference_is_shown_as_it_is() {
        for text in ["env:KEY", "file:/run/key", "secret:key"] {
            assert_eq!(serde_json::to_value(Secret::new(text)).unwrap(), text);
        }
    }
}
