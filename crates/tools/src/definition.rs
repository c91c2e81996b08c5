//! The description of a tool for a model, as a front door passes it on.

use serde_json::Value;

/// A tool as it is offered.
#[derive(Debug, Clone, PartialEq)]
pub struct Definition {
    /// The name under which the model calls it: letters, digits, `_` and `-`, at most 64.
    pub name: String,
    /// The name in this project, independent of the naming: `read_file`.
    pub canonical: &'static str,
    /// A few words for people.
    pub title: &'static str,
    /// A description for a model: the effect of the tool and when to use it.
    pub description: String,
    /// The JSON schema of its arguments.
    pub input_schema: Value,
    /// The JSON schema of [`ToolAnswer::data`](crate::ToolAnswer::data).
    pub output_schema: Value,
    /// The assumptions that a client may make before it calls the tool.
    pub annotations: Annotations,
}

/// The assumptions that a client may make about a tool before it calls it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Annotations {
    /// Whether the tool changes nothing.
    pub read_only: bool,
    /// Whether the tool may replace or remove existing entries.
    pub destructive: bool,
    /// Whether two calls have the same result as one.
    pub idempotent: bool,
}

impl Annotations {
    /// Changes nothing.
    pub const READS: Self = Self {
        read_only: true,
        destructive: false,
        idempotent: true,
    };
    /// Changes no file, but a second call has another result.
    pub const TAKES: Self = Self {
        idempotent: false,
        ..Self::READS
    };
    /// Makes something new with each call, and touches nothing that exists.
    pub const CREATES: Self = Self {
        read_only: false,
        destructive: false,
        idempotent: false,
    };
    /// Makes something new if it does not exist yet.
    pub const ENSURES: Self = Self {
        idempotent: true,
        ..Self::CREATES
    };
    /// Replaces or removes what exists; a second call changes nothing more.
    pub const REPLACES: Self = Self {
        read_only: false,
        destructive: true,
        idempotent: true,
    };
    /// Replaces or removes what exists, and a second call does so again.
    pub const CHANGES: Self = Self {
        idempotent: false,
        ..Self::REPLACES
    };
}
