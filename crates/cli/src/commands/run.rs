//! `garret run`

use std::time::Duration;

use async_trait::async_trait;
use clap::Args;
use garret::path::{escape_unprintable, quote};
use garret::{
    CallOptions, Chunk, CommandChanges, CommandProgram, EffectsMode, Error, ErrorKind, InputStream, NetworkChoice,
    NetworkRecord, OutputSink, OutputStream, ReachedLimit, ResourceLimit, Result, RunRequest, TurnWaiting,
    describe_raising,
};

use super::shell::refuse_json;
use crate::input::StandardInput;
use crate::interruption::{ReaderGoneSignal, run_until_interrupted};
use crate::mounts::MountArgs;
use crate::output::{CliFailure, CliOutcome, CliReport, Format, lost_reason, write_all};
use crate::session::Session;
use crate::user_terminal::{EndSignals, UserTerminal};
use crate::{progress, time};

pub(crate) const EXAMPLES: &str = "\
Examples:
  garret run ls -l                            in the current directory
  garret -w box run make test
  garret -w box run -c 'mkdir -p src && echo hi > src/a'
  garret -w box run --discard -c 'rm -rf *'
  garret -w box run --timeout 2s --env LEVEL=debug make
  garret -w box run --stdin sort < names.txt
  garret -w box run --network registries,example.org make
  garret -w box run -t vim src/a               on a terminal
All changes of the command to the files are one change; `garret undo` takes it back.
The exit code is that of the command, or 128 plus the number of the signal that ended it. It is 75
if the command ended with 0 but its effects were not applied: they are on a branch, because the
files changed while it ran, or in a leftover, because they could not be saved.
With 1 or 2 and `error:` on standard error, the command did not run. Ctrl-C ends the command and
discards its changes.";

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// A program and its arguments; options of garret come before it
    #[arg(trailing_var_arg = true, value_name = "COMMAND", required_unless_present = "text")]
    command: Vec<String>,
    /// A shell command line
    #[arg(short = 'c', value_name = "TEXT", conflicts_with = "command")]
    text: Option<String>,
    /// End the command after this time, with everything that it started: `2s`, `500ms`, `5m` [default: the workspace's limit]
    #[arg(long, value_name = "TIME", value_parser = time::parse)]
    timeout: Option<Duration>,
    /// A variable for its environment; may be given several times
    #[arg(long, value_name = "NAME=VALUE")]
    env: Vec<String>,
    /// The directory to run it in [default: the root of the workspace]
    #[arg(long, value_name = "DIR")]
    cwd: Option<String>,
    /// Pass standard input to the command, as the command reads it
    #[arg(long)]
    stdin: bool,
    /// Run the command on a terminal of its own, with the keys and the size of this one
    #[arg(short = 't', long, conflicts_with = "stdin")]
    tty: bool,
    /// Discard the changes of the command to the files
    #[arg(long)]
    discard: bool,
    /// With --json, add `details`: both streams in the order in which they came, and all guards of the sandbox
    #[arg(long)]
    details: bool,
    #[command(flatten)]
    network: NetworkArgs,
    #[command(flatten)]
    parallel: ParallelArgs,
    #[command(flatten)]
    mounts: MountArgs,
}

/// The network of commands, for this call.
#[derive(Debug, Default, Args)]
pub(crate) struct NetworkArgs {
    /// The network that commands reach: `none`, `full`, or hosts by name such as `example.org,*.example.net:443`; `registries` stands for the package registries that this machine reports [default: as the workspace is configured, or none]
    #[arg(long, value_name = "HOSTS", value_parser = NetworkChoice::from_words)]
    pub(crate) network: Option<NetworkChoice>,
}

/// The behaviour beside commands of other processes and other changes to the same files.
#[derive(Debug, Args)]
pub(crate) struct ParallelArgs {
    /// Fail at once while another process runs a command in the workspace, instead of waiting up to 60 seconds
    #[arg(long)]
    no_wait: bool,
    /// Keep the exit code of the command even if its effects went to a branch
    #[arg(long)]
    accept_branch: bool,
}

impl ParallelArgs {
    /// The exit code for a command that ended with 0, but whose effects are not in the files: EX_TEMPFAIL of
    /// sysexits.h.
    const DIVERTED: u8 = 75;

    /// Returns the longest wait for the turn of the command; `None` for the usual one.
    pub(crate) fn turn_wait(&self) -> Option<Duration> {
        self.no_wait.then_some(Duration::ZERO)
    }

    /// Returns the exit code of the program, for a command that ended with `code` and made the changes `changed`.
    pub(crate) fn exit_code(&self, code: u8, changed: &CommandChanges) -> u8 {
        let is_diverted = changed.leftover.is_some() || changed.branch.is_some() && !self.accept_branch;
        if code == 0 && is_diverted { Self::DIVERTED } else { code }
    }
}

impl RunArgs {
    pub(crate) fn reads_stdin(&self) -> bool {
        self.stdin || self.tty
    }

    pub(crate) async fn run(&self, session: &Session) -> CliOutcome {
        let input = self.stdin.then(StandardInput::default);
        let user_terminal = self.open_terminal(session)?;
        let request = self
            .run_request(input.as_ref(), user_terminal.as_ref())
            .map_err(CliFailure::wrong_usage)?;
        let workspace = session
            .open_workspace_with(&["shell"], &self.mounts, &self.network)
            .await?;
        let mut terminal = RunOutputPrinter::for_format(session.global().format());
        let reader = terminal.reader.clone();
        let running = workspace.run_with(request, &mut terminal);
        let restorer = user_terminal.as_ref().map(UserTerminal::restore_on_drop);
        let result = run_until_interrupted(&reader, running).await;
        drop(restorer);
        // Closed in every case, before an error or an interruption returns.
        let closed = workspace.close().await;
        let result = match result {
            Ok(result) => result.map_err(|error| name_directory(error, self.cwd.as_deref()))?,
            Err(stopped) => return stopped.to_report("command"),
        };
        closed?;
        session.settle_undo_remark(&result.changed);
        let code = u8::try_from(result.exit_code).unwrap_or(u8::MAX);
        let code = self.parallel.exit_code(code, &result.changed);
        // The command saw only a part of its input, so its exit code would mislead.
        if let Some(error) = input.and_then(|input| input.failure()) {
            return Err(error.into());
        }
        let ran = RunSummary {
            what: "command",
            program: session.typed_program(),
            timed_out: result.timed_out,
            limit: result.limit,
            lowered_timeout_ms: result.lowered_timeout_ms,
            reached: result.reached.as_ref(),
            workspace: session.name_in_home(),
            left_out_bytes: result.left_out_bytes,
            changed: &result.changed,
            network: result.network.as_ref(),
            isolated: result.isolated,
            leftovers: &result.leftovers,
            corrupt: &result.corrupt,
        };
        let report = match session.global().format() {
            Format::Json => CliReport::success(
                text_for_json(&ran, &result.output),
                if self.details { result.with_details() } else { result },
            ),
            // The output was printed while the command ran.
            Format::Text => CliReport::silent().with_lost(terminal.lost).with_note(run_notes(&ran)),
        };
        Ok(report.with_code(code))
    }

    /// Opens the terminal of the user, if the command runs on one.
    fn open_terminal(&self, session: &Session) -> Result<Option<UserTerminal>, CliFailure> {
        if !self.tty {
            return Ok(None);
        }
        refuse_json(session.global().format(), "`garret run --tty`")?;
        UserTerminal::open("`garret run --tty`", EndSignals::NotHere).map(Some)
    }

    fn run_request(&self, input: Option<&StandardInput>, terminal: Option<&UserTerminal>) -> Result<RunRequest> {
        let program = match &self.text {
            Some(text) => CommandProgram::Shell(text.clone()),
            None => CommandProgram::Arguments(self.command.clone()),
        };
        let mut env = terminal.map(|_| UserTerminal::environment()).unwrap_or_default();
        for one in &self.env {
            env.extend([parse_variable(one)?]);
        }
        Ok(RunRequest {
            cwd: self.cwd.clone().unwrap_or_default(),
            env,
            stdin_stream: input
                .map(|input| InputStream::new(input.clone()))
                .or_else(|| terminal.map(UserTerminal::keys)),
            terminal: terminal.map(UserTerminal::run_terminal),
            timeout: self.timeout,
            effects: self.discard.then_some(EffectsMode::Discard),
            turn_wait: self.parallel.turn_wait(),
            ..RunRequest::for_program(program)
        })
    }
}

/// Names the working directory in an error, if it is the working directory that is missing.
pub(crate) fn name_directory(error: Error, cwd: Option<&str>) -> Error {
    match cwd {
        Some(cwd) if error.kind() == ErrorKind::NotFound && error.path().is_some() => {
            let message = format!("there is no directory {} in the workspace", quote(cwd));
            Error::new(ErrorKind::NotFound, message).hint("`garret tree` shows the directories")
        }
        _ => error,
    }
}

pub(crate) fn parse_variable(text: &str) -> Result<(String, String)> {
    let (name, value) = text.split_once('=').ok_or_else(|| {
        // The text is not quoted: it may be a secret without its name.
        Error::invalid("a variable must have the form NAME=VALUE").hint("write `--env NAME=VALUE`")
    })?;
    Ok((name.to_owned(), value.to_owned()))
}

/// Prints the output of a command as it comes, each stream to its own. With `--json` the result has the output instead.
#[derive(Debug)]
pub(crate) struct RunOutputPrinter {
    format: Format,
    pub(crate) reader: ReaderGoneSignal,
    /// The reason why some output did not arrive.
    pub(crate) lost: Option<std::io::ErrorKind>,
}

impl RunOutputPrinter {
    pub(crate) fn for_format(format: Format) -> Self {
        Self {
            format,
            reader: ReaderGoneSignal::default(),
            lost: None,
        }
    }
}

#[async_trait]
impl OutputSink for RunOutputPrinter {
    async fn wait_for_turn(&mut self, waiting: &TurnWaiting) {
        progress::stop_general_line();
        let line = format!("garret: waiting for {}…\n", waiting.describe());
        // The wait goes on even if nobody can read this line.
        let _ = write_all(std::io::stderr().lock(), &[line.as_bytes()]);
    }

    async fn take(&mut self, chunk: &Chunk) {
        if self.format == Format::Json {
            return;
        }
        progress::stop_general_line();
        let put = match chunk.stream {
            OutputStream::Stdout => write_all(std::io::stdout().lock(), &[&chunk.bytes]),
            OutputStream::Stderr => write_all(std::io::stderr().lock(), &[&chunk.bytes]),
        };
        match put.map_err(lost_reason) {
            Ok(()) => {}
            // The reader is gone: the command is interrupted, as SIGPIPE would end it.
            Err(None) => self.reader.notify_one(),
            // The command goes on: its changes to the files are worth more than its output.
            Err(reason) => self.lost = reason,
        }
    }
}

/// The facts about a finished command or piece of code, for the notes to a person.
pub(crate) struct RunSummary<'a> {
    /// The word for the thing that ran: `command` or `code`.
    pub(crate) what: &'static str,
    /// The program with the options that choose the workspace.
    pub(crate) program: String,
    pub(crate) timed_out: bool,
    pub(crate) limit: Option<ResourceLimit>,
    pub(crate) lowered_timeout_ms: Option<u64>,
    /// The limit that it reached, or probably reached.
    pub(crate) reached: Option<&'a ReachedLimit>,
    /// The name of the workspace, if it is one of the home.
    pub(crate) workspace: Option<String>,
    /// The bytes of output that the result leaves out.
    pub(crate) left_out_bytes: u64,
    pub(crate) changed: &'a CommandChanges,
    /// Its requests to the network, if it reaches hosts by name.
    pub(crate) network: Option<&'a NetworkRecord>,
    pub(crate) isolated: bool,
    pub(crate) leftovers: &'a [String],
    /// Files that were missing because their stored content is damaged.
    pub(crate) corrupt: &'a [String],
}

/// Returns the sentence for effects that are not in the files: they are on a branch or in a leftover.
fn not_applied_note(ran: &RunSummary<'_>) -> Option<String> {
    let RunSummary {
        what, program, changed, ..
    } = ran;
    if let Some(branch) = &changed.branch {
        return Some(format!(
            "Not applied: the files changed while the {what} ran. Its effects are on branch {}; merge it with `{program} merge {}`.",
            quote(branch),
            escape_unprintable(branch)
        ));
    }
    let (_, refused) = changed.leftover.as_ref().zip(changed.refused.as_ref())?;
    Some(format!(
        "Not applied: {}. The effects of the {what} are kept as a leftover; see `{program} leftovers`.",
        escape_unprintable(&refused.message)
    ))
}

/// Returns the text of a JSON report: the output, below the sentence that says that the effects were not applied.
pub(crate) fn text_for_json(ran: &RunSummary<'_>, output: &str) -> String {
    let first = not_applied_note(ran)
        .map(|sentence| sentence + "\n")
        .unwrap_or_default();
    let last = left_out_note(ran).unwrap_or_default();
    format!("{first}{output}{last}")
}

/// Returns the line about output that the result leaves out.
fn left_out_note(ran: &RunSummary<'_>) -> Option<String> {
    let raising = describe_raising("shell.limits.output_kib", ran.workspace.as_deref());
    let left_out = ran.left_out_bytes;
    (left_out > 0).then(|| format!("\n[{left_out} bytes of output left out; to keep more, {raising}]\n"))
}

/// Returns the notes for a person, beside the output; empty if everything went as asked.
pub(crate) fn run_notes(ran: &RunSummary<'_>) -> String {
    let RunSummary { what, changed, .. } = ran;
    let mut notes = String::new();
    let mut note = |text: String| notes.push_str(&format!("garret: {text}\n"));
    if let Some(sentence) = not_applied_note(ran) {
        note(sentence);
    }
    if let Some(milliseconds) = ran.lowered_timeout_ms {
        let seconds = milliseconds as f64 / 1_000.0;
        let raising = describe_raising("shell.limits.max_timeout_s", ran.workspace.as_deref());
        note(format!(
            "the time limit is {seconds} s, the maximum of the workspace; to raise it, {raising}"
        ));
    }
    if ran.timed_out {
        note(format!(
            "the {what} exceeded its time limit; it and every process that it started were ended"
        ));
    } else if let Some(limit) = ran.limit {
        note(format!(
            "the {what} reached its limit of {} and was ended",
            limit.as_words()
        ));
    }
    if let Some(reached) = ran.reached {
        let advice = reached.describe_advice(CallOptions::COMMAND_LINE, ran.workspace.as_deref());
        let is_certain = ran.timed_out || ran.limit.is_some() || reached.is_network();
        note(if is_certain {
            advice
        } else {
            format!("by its error, the {what} may have reached a limit; {advice}")
        });
    }
    if changed.discarded && !changed.is_nothing() {
        note(format!("discarded: {}", changed.describe_counts()));
    }
    if let Some(refused) = changed.refused.as_ref().filter(|_| changed.leftover.is_none()) {
        note(format!(
            "its changes were not kept: {}",
            escape_unprintable(&refused.message)
        ));
    }
    for dropped in &changed.dropped {
        note(format!("left out: {} ({})", quote(&dropped.path), dropped.what));
    }
    if changed.more_dropped > 0 {
        note(format!("and {} more left out", changed.more_dropped));
    }
    for path in &changed.excluded.deleted_paths {
        note(format!(
            "deleted, and undo cannot restore it (excluded from history): {}",
            quote(path)
        ));
    }
    let named = changed.excluded.deleted_paths.len() as u64;
    if changed.excluded.deleted > named {
        note(format!(
            "and {} more paths deleted that undo cannot restore",
            changed.excluded.deleted - named
        ));
    }
    for path in ran.corrupt {
        note(format!(
            "{} was missing for the {what}: its stored content is damaged (see `garret fsck`)",
            quote(path)
        ));
    }
    if let Some(record) = ran.network {
        for refused in &record.refused {
            note(format!(
                "refused by `{}`: {}",
                refused.rule,
                escape_unprintable(&refused.reason)
            ));
        }
        if !record.refused.is_empty() {
            note("to allow a host, name it with `--network`, or in the option `shell.network.allow`".to_owned());
        }
        for reason in record.failures() {
            note(format!("not reached: {}", escape_unprintable(reason)));
        }
    }
    if !ran.isolated {
        note(format!("the {what} was not isolated from this machine"));
    }
    if !ran.leftovers.is_empty() {
        note(format!(
            "the work of an earlier command could not be saved; see `{} leftovers`",
            ran.program
        ));
    }
    notes
}
