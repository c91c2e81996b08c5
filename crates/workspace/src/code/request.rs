//! What is asked for: a piece of code, a context, a piece in a context.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use garret_core::{EffectsMode, Language};

/// A piece of code to run by itself.
#[derive(Clone, PartialEq, Eq)]
pub struct CodeRequest {
    /// Its language.
    pub language: Language,
    /// The code.
    pub code: String,
    /// The directory to run it in, as this view knows it; the root of the view where it is empty.
    pub cwd: String,
    /// What this call adds to the environment.
    pub env: BTreeMap<String, String>,
    /// The time on the clock after which it is ended; that of the policy where none is given, and never more.
    pub timeout: Option<Duration>,
    /// The most bytes of output that are kept; those of the policy where none are given, and never more.
    pub max_output: Option<u64>,
    /// What becomes of what it does to the files; what the policy says where none is given.
    pub effects: Option<EffectsMode>,
    /// The longest wait while another command in the foreground runs on the same files, of this process or another; 60 seconds where none
    /// is given. Zero does not wait.
    pub turn_wait: Option<Duration>,
}

impl CodeRequest {
    /// Runs `code` with everything at its default.
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

/// Without the values of the environment: they may be secrets.
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

/// A context to make.
#[derive(Clone, PartialEq, Eq)]
pub struct ContextRequest {
    /// Its language.
    pub language: Language,
    /// The directory that it begins in, as this view knows it; the root of the view where it is empty.
    pub cwd: String,
    /// What is added to its environment.
    pub env: BTreeMap<String, String>,
}

impl ContextRequest {
    /// A context at the root of the view.
    pub fn new(language: Language) -> Self {
        Self {
            language,
            cwd: String::new(),
            env: BTreeMap::new(),
        }
    }
}

/// Without the values of the environment: they may be secrets.
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

/// A piece of code to run in a context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PieceRequest {
    /// The id of the context.
    pub context: String,
    /// The code.
    pub code: String,
    /// The time on the clock after which it is ended, and the context with it; that of the policy where none is given, and never more.
    pub timeout: Option<Duration>,
    /// The most bytes of output that are kept; those of the policy where none are given, and never more.
    pub max_output: Option<u64>,
}

impl PieceRequest {
    /// Runs `code` in the context `context`.
    pub fn new(context: impl Into<String>, code: impl Into<String>) -> Self {
        Self {
            context: context.into(),
            code: code.into(),
            timeout: None,
            max_output: None,
        }
    }
}
