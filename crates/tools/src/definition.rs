//! What a front door tells a model about a tool.

use serde_json::Value;

/// A tool as it is offered.
#[derive(Debug, Clone, PartialEq)]
pub struct Definition {
    /// The name under which the model calls it: letters, digits, `_` and `-`, at most 64.
    pub name: String,
    /// The name in this project, whatever the naming: `read_file`.
    pub canonical: &'static str,
    /// A few words for people.
    pub title: &'static str,
    /// What it does and when to use it, for a model.
    pub description: String,
    /// The JSON schema of its arguments.
    pub input_schema: Value,
    /// The JSON schema of [`Answer::data`](crate::Answer::data).
    pub output_schema: Value,
    /// What a client may assume before it calls.
    pub annotations: Annotations,
}

/// What a client may assume of a tool before it calls it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Annotations {
    /// Whether it changes nothing.
    pub read_only: bool,
    /// Whether it may replace or remove what is there.
    pub destructive: bool,
    /// Whether calling it twice leaves what calling it once does.
    pub idempotent: bool,
}

impl Annotations {
    /// Changes nothing.
    pub const READS: Self = Self {
        read_only: true,
        destructive: false,
        idempotent: true,
    };
}
