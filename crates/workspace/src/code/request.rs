//! The requests for a single piece of code, for a context, and for a piece in a context.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use garret_core::{EffectsMode, Language};

/// A request to run a single piece of code.
#[derive(Clone, PartialEq, Eq)]
pub struct CodeRequest {
    /// Its language.
    pub language: Language,
    /// The code.
    pub code: String,
    /// The directory to run it in, as a path of this view; empty for its root.
    pub cwd: String,
    /// Variables that this call adds to the environment.
    pub env: BTreeMap<String, String>,
    /// The wall time after which it is ended; `None` for that of the policy. The policy also bounds it.
    pub timeout: Option<Duration>,
    /// The most bytes of output that are stored; `None` for those of the policy. The policy also bounds it.
    pub max_output: Option<u64>,
    /// Whether its effects on the files are committed, discarded or approved first; `None` for the mode of the policy.
    pub effects: Option<EffectsMode>,
    /// The longest wait while another foreground command, of this process or another, runs on the same files; `None`
    /// for 60 seconds. Zero does not wait.
    pub turn_wait: Option<Duration>,
}

impl CodeRequest {
    /// Returns a request for `code` with default settings.
    pub fn new(language: Language, code: impl Into<String>) -> Self {
        Self {
            language,
            code: code.into(),
            cwd: String::new(),
            env: BTreeMap::new(),
            timeout: None,
            max_output: None,
            effects: None,
            turn_wait: None,
        }
    }
}

/// Does not show the values of the environment: they may be secrets.
impl fmt::Debug for CodeRequest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("CodeRequest")
            .field("language", &self.language)
            .field("code", &self.code)
            .field("cwd", &self.cwd)
            .field("env", &self.env.keys())
            .finish_non_exhaustive()
    }
}

/// A request to make a context.
#[derive(Clone, PartialEq, Eq)]
pub struct ContextRequest {
    /// Its language.
    pub language: Language,
    /// The directory that it begins in, as a path of this view; empty for its root.
    pub cwd: String,
    /// Variables that are added to its environment.
    pub env: BTreeMap<String, String>,
}

impl ContextRequest {
    /// Returns a request for a context at the root of the view.
    pub fn new(language: Language) -> Self {
        Self {
            language,
            cwd: String::new(),
            env: BTreeMap::new(),
        }
    }
}

/// Does not show the values of the environment: they may be secrets.
impl fmt::Debug for ContextRequest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ContextRequest")
            .field("language", &self.language)
            .field("cwd", &self.cwd)
            .field("env", &self.env.keys())
            .finish()
    }
}

/// A request to run a piece of code in a context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PieceRequest {
    /// The id of the context.
    pub context: String,
    /// The code.
    pub code: String,
    /// The wall time after which it is ended, and the context with it; `None` for that of the policy. The policy also
    /// bounds it.
    pub timeout: Option<Duration>,
    /// The most bytes of output that are stored; `None` for those of the policy. The policy also bounds it.
    pub max_output: Option<u64>,
}

impl PieceRequest {
    /// Returns a request for `code` in the context `context`.
    pub fn new(context: impl Into<String>, code: impl Into<String>) -> Self {
        Self {
            context: context.into(),
            code: code.into(),
            timeout: None,
            max_output: None,
        }
    }
}
