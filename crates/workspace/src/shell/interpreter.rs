//! Interpreters that Garret drives to run code. They run as commands do, in the foreground on a layer of their own or
//! on the live layer; but Garret writes their command lines, and their caller separates the output of the code from the
//! reports of the driver.

use std::time::Duration;

use garret_core::{
    CommandProgram, CommandStdin, GuardStatus, Limits, Origin, Process, ReachedLimit, ResourceLimit, Result, Secrets,
};

use crate::shell::CommandLine;
use crate::shell::OutputSink;
use crate::shell::RunRequest;
use crate::shell::background::live_layer::SettleRequest;
use crate::shell::background::processes::LiveProcess;
use crate::shell::command_access::CommandAccess;
use crate::shell::foreground::command_label;
use crate::shell::foreground::run::{PreparedCommand, format_duration};
use crate::shell::runtime::{ShellRuntime, is_isolated};
use crate::{CommandChanges, RunResult};

/// An interpreter to run, with the code that the policy judges.
pub(crate) struct InterpreterProgram {
    /// The operation that it is part of.
    pub(crate) operation: &'static str,
    /// The command that starts the interpreter.
    pub(crate) request: RunRequest,
    /// The program that the policy and the approver judge; `None` if no code of the caller runs.
    pub(crate) judged: Option<CommandProgram>,
    /// The code. The journal shows its first line, without secrets.
    pub(crate) label: String,
}

/// The settings for a listener to the output of an interpreter.
pub(crate) struct OutputListenerSettings {
    /// The secrets that must be masked in all output that is shown.
    pub(crate) secrets: Secrets,
    /// The most bytes of output that are stored.
    pub(crate) most: u64,
}

/// An interpreter that runs in the background.
#[derive(Debug)]
pub(crate) struct InterpreterProcess {
    live: LiveProcess,
    secrets: Secrets,
    most: u64,
}

/// The sandbox of an interpreter: the isolation that it gives, and the leftovers that it was opened with.
#[derive(Debug, Clone)]
pub(crate) struct SandboxConditions {
    pub(crate) isolated: bool,
    pub(crate) guards: Vec<GuardStatus>,
    pub(crate) leftovers: Vec<String>,
}

impl CommandAccess {
    /// Runs an interpreter in the foreground. The listener gets every byte as it was written, with secrets, and must
    /// mask them itself. The output in the result is not masked, and must not be shown.
    pub(crate) async fn run_interpreter<S: OutputSink>(
        &self,
        driven: InterpreterProgram,
        listener: impl FnOnce(OutputListenerSettings) -> S,
    ) -> Result<(RunResult, S)> {
        let mut prepared = self.prepare_interpreter(&driven)?;
        self.approve_interpreter(&driven, &prepared).await?;
        let mut listener = listener(OutputListenerSettings {
            // Taken out of the command, so that its output reaches the listener unmasked. Only the listener can tell
            // output of the code from reports of the driver, and it masks the output itself.
            secrets: std::mem::take(&mut prepared.secrets),
            most: prepared.command.limits.output,
        });
        let result = self.run_prepared(prepared, &mut listener).await?;
        Ok((result, listener))
    }

    /// Starts an interpreter in the background, on the live layer, with a pipe as its standard input.
    pub(crate) async fn start_interpreter(&self, driven: InterpreterProgram) -> Result<InterpreterProcess> {
        let room = self.shell.take_background_permit()?;
        let mut prepared = self.prepare_interpreter(&driven)?;
        prepared.check_background()?;
        self.approve_interpreter(&driven, &prepared).await?;
        prepared.command.stdin = CommandStdin::Piped;
        let (secrets, most) = (prepared.secrets.clone(), prepared.command.limits.output);
        let limits = Limits {
            // Each call to the interpreter has its own time limit.
            wall: None,
            ..prepared.command.limits.clone()
        };
        let live = self.spawn_on_live_layer(prepared, limits, room).await?;
        Ok(InterpreterProcess { live, secrets, most })
    }

    /// Checks a program of the caller against the rules for commands.
    pub(crate) fn check_program(&self, judged: &CommandProgram) -> Result<()> {
        check_judged_program(&self.shell, judged)
    }

    fn prepare_interpreter(&self, driven: &InterpreterProgram) -> Result<PreparedCommand> {
        if let Some(judged) = &driven.judged {
            check_judged_program(&self.shell, judged)?;
        }
        let prepared = self.prepare_unchecked(driven.operation, driven.request.clone())?;
        let label = code_label(&driven.label, &prepared.secrets);
        Ok(PreparedCommand { label, ..prepared })
    }

    /// Checks and approves a piece of code for an interpreter that runs already. `text` is all of the code, for the
    /// approver. Returns the time limit of the piece.
    pub(crate) async fn admit_code(
        &self,
        operation: &'static str,
        judged: &CommandProgram,
        text: String,
        timeout: Option<Duration>,
    ) -> Result<Option<Duration>> {
        check_judged_program(&self.shell, judged)?;
        let timeout = self.shell.rules.call_times().limit_call(timeout);
        self.approve_code_piece(operation, judged, text).await?;
        self.shell.catch_up().await?;
        Ok(timeout)
    }

    /// Returns the limit that a piece of code with the time limit `wall` reached, or probably reached by the words of its
    /// error.
    pub(crate) fn find_reached_limit_of_code(
        &self,
        limit: Option<ResourceLimit>,
        error: &str,
        wall: Option<Duration>,
    ) -> Option<ReachedLimit> {
        let limits = Limits {
            wall,
            ..self.shell.rules.limits().clone()
        };
        self.shell.find_reached_limit(limit, error, &limits)
    }

    /// Returns the time limit that holds for a call, if it asked for a longer one.
    pub(crate) fn find_lowered_time(&self, asked: Option<Duration>) -> Option<Duration> {
        self.shell.rules.call_times().find_lowered(asked)
    }

    /// Commits the effects of all processes on the live layer so far as a change by `origin`, and returns the result
    /// for the caller.
    pub(crate) async fn commit_live_effects(&self, origin: Origin) -> Result<CommandChanges> {
        let taking = SettleRequest::for_caller(origin);
        Ok(self.summarize_settled(self.shell.settle_live_layer(taking).await?))
    }

    /// Returns the origin of a change by a command or code that has ended.
    pub(crate) fn ended_origin(&self, operation: &'static str, label: &str, ended: &str, took: Duration) -> Origin {
        let (short, took) = (
            command_label::printable_label(&command_label::short_label(label)),
            format_duration(took),
        );
        self.files
            .change_origin(operation, format!("{operation} `{short}`: {ended} after {took}"))
    }
}

/// Returns the label of code in the journal: its first line, without secrets.
pub(crate) fn code_label(text: &str, secrets: &Secrets) -> String {
    // Masked before it is cut: a secret that is cut in half would no longer be recognised.
    command_label::first_line(&secrets.mask_text(text))
}

/// Checks a program against the rules for commands, if the caller wrote it.
fn check_judged_program(shell: &ShellRuntime, judged: &CommandProgram) -> Result<()> {
    match judged {
        CommandProgram::Shell(_) => shell.rules.check(&CommandLine::from_program(judged)),
        // The caller named a language, not this command line; the policy on languages has allowed it already.
        CommandProgram::Arguments(_) => Ok(()),
    }
}

impl InterpreterProcess {
    pub(crate) fn process(&mut self) -> &mut dyn Process {
        &mut *self.live.process
    }

    pub(crate) fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    /// Returns the most bytes of output that are stored.
    pub(crate) fn output_limit(&self) -> u64 {
        self.most
    }

    pub(crate) fn sandbox_conditions(&self) -> SandboxConditions {
        let laid = self.live.sandbox_layer();
        let guards = laid.sandbox.guard_statuses().to_vec();
        SandboxConditions {
            isolated: is_isolated(&guards),
            guards,
            leftovers: laid.leftovers.clone(),
        }
    }

    /// Ends the interpreter and all processes that it started, and commits their effects as a change by `origin`.
    /// Returns the result as the view of `commands` may see it.
    pub(crate) async fn end_and_report(self, origin: Origin, commands: &CommandAccess) -> Result<CommandChanges> {
        let taking = SettleRequest::for_caller(origin);
        Ok(commands.summarize_settled(self.live.end_and_report(taking).await?))
    }

    /// Ends the interpreter and all processes that it started, and commits their effects as a change by `origin`. For a
    /// caller that does not wait for the result: effects that cannot be kept are noted for the next listing of the
    /// processes.
    pub(crate) async fn end_unreported(self, origin: Origin) {
        self.live.end_unreported(Some(origin)).await;
    }
}

pub(crate) use crate::shell::foreground::command_label::full_command;
pub(crate) use crate::shell::foreground::request::NoSink;
pub(crate) use crate::shell::foreground::run::{describe_exit, duration_millis};
