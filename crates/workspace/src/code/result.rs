//! The result of a piece of code, and a context as results show it.

use garret_core::{CommandOutput, Guard, GuardStatus, Language, ResourceLimit, ResourceUsage};
use schemars::JsonSchema;
use serde::Serialize;

use super::outcome::CodeOutcome;
use super::{CodeError, CodeValue};
use crate::shell::interpreter::{SandboxConditions, unenforced_guards};
use crate::{CommandChanges, RunDetails, RunResult, StreamShown, TurnWaited};

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
    #[serde(flatten, serialize_with = "crate::shell::interpreter::serialize_stdout")]
    #[schemars(with = "crate::shell::interpreter::SerializedStdout<'static>")]
    pub stdout: StreamShown,
    /// Standard error, byte for byte.
    #[serde(flatten, serialize_with = "crate::shell::interpreter::serialize_stderr")]
    #[schemars(with = "crate::shell::interpreter::SerializedStderr<'static>")]
    pub stderr: StreamShown,
    /// How long it ran, in milliseconds.
    pub duration_ms: u64,
    /// Whether the time limit ended it.
    pub timed_out: bool,
    /// The limit that ended it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<ResourceLimit>,
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
    /// What it did to the files.
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

impl CodeResult {
    /// Returns the result of a piece that ran without a context.
    pub(super) fn from_single_run(
        language: Language,
        ran: RunResult,
        outcome: CodeOutcome,
        output: &CommandOutput,
    ) -> Self {
        let surroundings = SandboxConditions {
            isolated: ran.isolated,
            guards: ran.guards,
            leftovers: ran.leftovers,
        };
        Self {
            exit_code: Some(ran.exit_code),
            duration_ms: ran.duration_ms,
            timed_out: ran.timed_out,
            limit: ran.limit,
            lowered_timeout_ms: ran.lowered_timeout_ms,
            waited: ran.waited,
            usage: Some(ran.usage),
            corrupt: ran.corrupt,
            ..Self::new(language, outcome, output, surroundings, ran.changed)
        }
    }

    /// Returns a result with the fields that every piece of code has.
    pub(super) fn new(
        language: Language,
        outcome: CodeOutcome,
        output: &CommandOutput,
        surroundings: SandboxConditions,
        changed: CommandChanges,
    ) -> Self {
        Self {
            language,
            context: None,
            result: outcome.result,
            error: outcome.error,
            exit_code: outcome.exit_code,
            output: output.both.to_text(),
            stdout: output.stdout.clone().into(),
            stderr: output.stderr.clone().into(),
            duration_ms: 0,
            timed_out: false,
            limit: None,
            lowered_timeout_ms: None,
            waited: None,
            context_ended: None,
            truncated: output.is_truncated(),
            left_out_bytes: output.stdout.left_out + output.stderr.left_out,
            usage: None,
            isolated: surroundings.isolated,
            not_enforced: unenforced_guards(&surroundings.guards),
            guards: surroundings.guards,
            changed,
            leftovers: surroundings.leftovers,
            corrupt: Vec::new(),
            details: None,
        }
    }

    /// Adds the details to the serialized form.
    #[must_use]
    pub fn with_details(mut self) -> Self {
        self.details = Some(RunDetails {
            output: self.output.clone(),
            guards: self.guards.clone(),
        });
        self
    }
}

/// A context, as results show it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ContextShown {
    /// Its id in this workspace.
    pub id: String,
    /// Its language.
    pub language: Language,
    /// When it was made, in RFC 3339.
    #[serde(rename = "at")]
    pub created: String,
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
