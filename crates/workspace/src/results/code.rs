//! Results of operations on code.

use garret_core::{Guard, GuardStatus, Language, NetworkRecord, ReachedLimit, ResourceLimit, ResourceUsage, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{CommandChanges, RunDetails, StreamContent, TurnWaited};

/// The result of a piece of code. Code that ran is a success, even if it failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CodeResult {
    /// Its language.
    pub language: Language,
    /// The context in which it ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    /// The value of its last expression, where it has one. Bash has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<CodeValue>,
    /// The error that it did not catch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<CodeError>,
    /// The exit code: of the code for Bash, else of the interpreter, where it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Standard output and standard error as text, in the order in which they came; where the middle was left out, a
    /// line says so. Serialized in `details` only.
    #[serde(skip)]
    pub output: String,
    /// Standard output, byte for byte.
    #[serde(flatten, serialize_with = "super::commands::serialize_stdout")]
    #[schemars(with = "super::commands::SerializedStdout<'static>")]
    pub stdout: StreamContent,
    /// Standard error, byte for byte.
    #[serde(flatten, serialize_with = "super::commands::serialize_stderr")]
    #[schemars(with = "super::commands::SerializedStderr<'static>")]
    pub stderr: StreamContent,
    /// How long it ran, in milliseconds.
    pub duration_ms: u64,
    /// Whether the time limit ended it.
    pub timed_out: bool,
    /// The limit that ended it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<ResourceLimit>,
    /// The limit that ended it, or that it probably reached according to its error, and how to raise it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reached: Option<ReachedLimit>,
    /// The time limit that held, in milliseconds, where a longer one was asked for than the policy allows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lowered_timeout_ms: Option<u64>,
    /// The wait for its turn, where it lasted a second or more. It counts for no time limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waited: Option<TurnWaited>,
    /// How the context ended, where this call was its last: what it kept is gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_ended: Option<String>,
    /// Whether output was left out.
    pub truncated: bool,
    /// How many bytes of output were left out.
    pub left_out_bytes: u64,
    /// What it used, where it ran by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<ResourceUsage>,
    /// Whether it was isolated: it could reach no other files and processes of the machine.
    pub isolated: bool,
    /// The guards that the sandbox did not enforce.
    pub not_enforced: Vec<Guard>,
    /// All guards of the sandbox: whether each was enforced, and by what means. Serialized in `details` only.
    #[serde(skip)]
    pub guards: Vec<GuardStatus>,
    /// Its requests to the network, if commands reach hosts by name. Those of background processes at the same time are
    /// among them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkRecord>,
    /// What it did to the files.
    #[serde(flatten)]
    pub changed: CommandChanges,
    /// Ids of leftovers: effects of earlier commands that are in no change. `garret leftovers` shows them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub leftovers: Vec<String>,
    /// Files that the code did not see, because their stored content is damaged. They are in the workspace as before.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub corrupt: Vec<String>,
    /// Output in the order in which it came and the full table of guards, on request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<RunDetails>,
}

/// The value of the last expression.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CodeValue {
    /// The value as the language itself writes it.
    pub repr: String,
    /// The value as JSON, where it has such a form.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "any_json")]
    pub json: Option<Value>,
}

/// Returns a schema for any JSON value. The types are written out, because clients want one.
fn any_json(_generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({ "type": ["null", "boolean", "number", "string", "array", "object"] })
}

/// An error that the code did not catch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CodeError {
    /// The name of its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its message.
    pub message: String,
    /// Where it came from, as the language itself writes it.
    pub traceback: String,
}

/// The state of a context.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ContextStatus {
    /// Its id in this workspace.
    pub id: String,
    /// Its language.
    pub language: Language,
    /// When it was made, in RFC 3339.
    #[schemars(with = "String")]
    pub at: Timestamp,
    /// How many pieces of code were run in it.
    pub calls: u64,
    /// Whether it lives.
    pub running: bool,
    /// How it ended, once it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
    /// Whether it is isolated: it can reach no other files and processes of the machine.
    pub isolated: bool,
    /// The guards that the sandbox does not enforce.
    pub not_enforced: Vec<Guard>,
}

/// The interpreter of a language, installed or missing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Interpreter {
    /// The language.
    pub language: Language,
    /// The program.
    pub program: String,
    /// What it says its version is; absent where it is not there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// What would help where it is not there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}
