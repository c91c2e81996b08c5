//! Builds the result of a piece of code.

use garret_core::{CommandOutput, Language};

use super::outcome::CodeOutcome;
use crate::shell::interpreter::SandboxConditions;
use crate::{CodeResult, CommandChanges, RunDetails, RunResult, unenforced_guards};

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
            reached: ran.reached,
            lowered_timeout_ms: ran.lowered_timeout_ms,
            waited: ran.waited,
            usage: ran.usage,
            network: ran.network,
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
            reached: None,
            lowered_timeout_ms: None,
            waited: None,
            context_ended: None,
            truncated: output.is_truncated(),
            left_out_bytes: output.stdout.left_out + output.stderr.left_out,
            usage: None,
            network: None,
            isolated: surroundings.isolated,
            not_enforced: unenforced_guards(&surroundings.guards),
            guards: surroundings.guards,
            changed,
            leftovers: surroundings.leftovers,
            corrupt: Vec::new(),
            details: None,
        }
    }

    /// Returns the text of the error that the code did not catch; empty without one.
    pub(super) fn error_text(&self) -> &str {
        self.error.as_ref().map_or("", |error| {
            if error.traceback.is_empty() {
                &error.message
            } else {
                &error.traceback
            }
        })
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
