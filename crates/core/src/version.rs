//! Versions of files, and preconditions on them.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Error, Result, WsPath};

/// An opaque token for the content of one file: whenever the content changes, so does the version.
///
/// A token is meant to be passed back as a precondition. Two tokens of the same content may differ (a `local` storage
/// adds a hash while the file is younger than the clock's grain), so compare by writing with a precondition, not by
/// text.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Version(String);

impl Version {
    /// Wraps a token made by a storage, or passed back by a caller.
    pub fn new(token: impl Into<String>) -> Self {
        Self(token.into())
    }

    /// Returns the token.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Version {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// A condition on the state of a path, without which a mutation does not happen; checked and applied as one step.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Precondition {
    /// No condition.
    #[default]
    Any,
    /// Nothing is there.
    Absent,
    /// A file is there with this version.
    Version(Version),
}

impl Precondition {
    /// Reads the `if_version` argument: absent, `"absent"`, or a version.
    pub fn from_argument(argument: Option<&str>) -> Self {
        match argument {
            None => Self::Any,
            Some("absent") => Self::Absent,
            Some(token) => Self::Version(Version::new(token)),
        }
    }

    /// Checks the condition against the version at `path` now, for storages whose versions compare by text.
    pub fn check_version(&self, path: &WsPath, current: Option<&Version>) -> Result<()> {
        match (self, current) {
            (Self::Any, _) | (Self::Absent, None) => Ok(()),
            (Self::Version(wanted), Some(now)) if wanted == now => Ok(()),
            _ => Err(self.conflict_error(path, current.cloned())),
        }
    }

    /// Returns the `conflict` of a precondition that does not hold; `current` is the version at `path` now.
    pub fn conflict_error(&self, path: &WsPath, current: Option<Version>) -> Error {
        match self {
            Self::Absent => Error::not_absent(path, current),
            Self::Any | Self::Version(_) => Error::conflict(path, current),
        }
    }
}
