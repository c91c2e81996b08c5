//! `garret shell`

use std::time::Duration;

use async_trait::async_trait;
use clap::Args;
use garret::{
    Chunk, CommandChanges, EffectsMode, Error, OutputSink, Result, RunResult, ShellCommits, ShellRequest, TurnWaiting,
    Workspace,
};

use super::run::{NetworkArgs, ParallelArgs, RunOutputPrinter, RunSummary, name_directory, parse_variable, run_notes};
use crate::interruption::WorkInterruption;
use crate::mounts::MountArgs;
use crate::output::{CliFailure, CliOutcome, CliReport, Format, print_note, write_all};
use crate::session::Session;
use crate::time;
use crate::user_terminal::{EndSignals, UserTerminal};

pub(crate) const EXAMPLES: &str = "\
Examples:
  garret shell                                in the current directory
  garret -w box shell
  garret -w box shell --per-prompt            each command line is a change of its own
  garret -w box shell --discard               try things out; nothing is kept
The shell is bash, or sh where there is no bash. All that it does to the files is one change when
it ends; `garret undo` takes it back. It sees the files as they were when it began; with
--per-prompt it also sees, at each prompt, what others changed meanwhile.
The exit code is that of the shell, or 75 as with `garret run`. If the terminal is closed, the
shell is ended and its changes are kept.";

#[derive(Debug, Args)]
pub(crate) struct ShellArgs {
    /// Record what each command line does as a change of its own, at the next prompt (bash only)
    #[arg(long)]
    per_prompt: bool,
    /// End the shell after this time, with everything that it started: `30m`, `2h` [default: no limit]
    #[arg(long, value_name = "TIME", value_parser = time::parse)]
    timeout: Option<Duration>,
    /// A variable for its environment; may be given several times
    #[arg(long, value_name = "NAME=VALUE")]
    env: Vec<String>,
    /// The directory to begin in [default: the root of the workspace]
    #[arg(long, value_name = "DIR")]
    cwd: Option<String>,
    /// Discard the changes of the shell to the files
    #[arg(long, conflicts_with = "per_prompt")]
    discard: bool,
    #[command(flatten)]
    network: NetworkArgs,
    #[command(flatten)]
    mounts: MountArgs,
    #[command(flatten)]
    parallel: ParallelArgs,
}

impl ShellArgs {
    pub(crate) async fn run(&self, session: &Session) -> CliOutcome {
        refuse_json(session.global().format(), "garret shell")?;
        let terminal = UserTerminal::open("`garret shell`", EndSignals::HangUp)?;
        let request = self.shell_request(&terminal).map_err(CliFailure::wrong_usage)?;
        let workspace = session
            .open_workspace_with(&["shell"], &self.mounts, &self.network)
            .await?;
        if workspace.has_command_rules() {
            print_note("the rules on commands of this workspace are not checked inside the shell");
        }
        let mut printer = ShellOutputPrinter {
            inner: RunOutputPrinter::for_format(Format::Text),
            program: session.typed_program(),
        };
        let result = run_in(&workspace, &terminal, request, &mut printer).await;
        // Closed in every case, before an error returns.
        let closed = workspace.close().await;
        let result = match result {
            Ok(result) => result.map_err(|error| name_directory(error, self.cwd.as_deref()))?,
            Err(stopped) => return stopped.to_report("shell"),
        };
        closed?;
        session.settle_undo_remark(&result.changed);
        let mut notes = String::new();
        let mut code = u8::try_from(result.exit_code).unwrap_or(u8::MAX);
        if let Some(signal) = terminal.ended_by() {
            notes.push_str("garret: the shell was ended from outside; what it did until then is kept\n");
            code = u8::try_from(128 + signal).unwrap_or(u8::MAX);
        }
        let ran = RunSummary {
            timed_out: result.timed_out,
            limit: result.limit,
            reached: result.reached.as_ref(),
            workspace: session.name_in_home(),
            network: result.network.as_ref(),
            isolated: result.isolated,
            leftovers: &result.leftovers,
            corrupt: &result.corrupt,
            ..shell_summary(&printer.program, &result.changed)
        };
        notes.push_str(&run_notes(&ran));
        let report = CliReport::silent().with_lost(printer.inner.lost).with_note(notes);
        Ok(report.with_code(self.parallel.exit_code(code, &result.changed)))
    }

    fn shell_request(&self, terminal: &UserTerminal) -> Result<ShellRequest> {
        let mut env = UserTerminal::environment();
        for one in &self.env {
            env.extend([parse_variable(one)?]);
        }
        Ok(ShellRequest {
            cwd: self.cwd.clone().unwrap_or_default(),
            env,
            keys: terminal.keys(),
            terminal: terminal.run_terminal(),
            timeout: self.timeout,
            effects: self.discard.then_some(EffectsMode::Discard),
            commits: if self.per_prompt {
                ShellCommits::PerPrompt
            } else {
                ShellCommits::AtExit
            },
            turn_wait: self.parallel.turn_wait(),
        })
    }
}

/// Runs the shell to its end. A signal ends the work before the shell has started; after that, the shell.
async fn run_in(
    workspace: &Workspace,
    terminal: &UserTerminal,
    request: ShellRequest,
    printer: &mut ShellOutputPrinter,
) -> Result<Result<RunResult>, WorkInterruption> {
    let _restorer = terminal.restore_on_drop();
    tokio::select! {
        result = workspace.run_shell(request, printer) => Ok(result),
        number = terminal.wait_for_early_end() => Err(WorkInterruption::Signal(number)),
    }
}

/// Refuses `--json` for a command on a terminal, which has the output.
pub(crate) fn refuse_json(format: Format, what: &str) -> Result<(), CliFailure> {
    match format {
        Format::Text => Ok(()),
        Format::Json => Err(CliFailure::wrong_usage(
            Error::invalid(format!("{what} shows its output on the terminal, not as JSON"))
                .hint("leave out --json, or use `garret run` without a terminal"),
        )),
    }
}

/// Prints the output of a shell as it comes, and the effects that could not be kept.
struct ShellOutputPrinter {
    inner: RunOutputPrinter,
    program: String,
}

#[async_trait]
impl OutputSink for ShellOutputPrinter {
    async fn wait_for_turn(&mut self, waiting: &TurnWaiting) {
        self.inner.wait_for_turn(waiting).await;
    }

    async fn take(&mut self, chunk: &Chunk) {
        self.inner.take(chunk).await;
    }

    async fn note_changes(&mut self, changed: &CommandChanges) {
        let notes = run_notes(&shell_summary(&self.program, changed));
        if !notes.is_empty() {
            // The terminal passes everything on as it is, so that a line needs both ends.
            let lines = format!("\r\n{}", notes.replace('\n', "\r\n"));
            // The shell goes on even if nobody can read this.
            let _ = write_all(std::io::stderr().lock(), &[lines.as_bytes()]);
        }
    }
}

fn shell_summary<'a>(program: &str, changed: &'a CommandChanges) -> RunSummary<'a> {
    RunSummary {
        what: "shell",
        program: program.to_owned(),
        timed_out: false,
        limit: None,
        lowered_timeout_ms: None,
        reached: None,
        workspace: None,
        left_out_bytes: 0,
        changed,
        isolated: true,
        leftovers: &[],
        corrupt: &[],
        network: None,
    }
}
