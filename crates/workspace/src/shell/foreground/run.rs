//! Runs a command in the foreground.
//!
//! Policy and approval come first, then the turn, then a layer over the bench. The command runs on the layer, and its
//! output goes to the sink of the caller. When all its processes are dead and the layer is off the bench, its effects
//! are read and committed as one change. While background processes run, the command runs on their live layer instead,
//! so that both see the same files; or on a side layer, if its effects must be told from those of the processes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use garret_core::{
    BenchState, CommandExit, CommandOutput, CommandProgram, CommandStdin, CommandTerminal, Effects, EffectsMode, Error,
    ExitCause, InputStream, Layer, LayerOutcome, Limits, OutputCollector, Process, ReachedLimit, ResourceLimit, Result,
    SandboxCommand, Secrets,
};
use tokio::sync::RwLock;

use crate::shell::CommandLine;
use crate::shell::OutputSink;
use crate::shell::RunRequest;
use crate::shell::background::live_layer::{CommandPlacement, LiveLayerSeat, SettleRequest};
use crate::shell::command_access::CommandAccess;
use crate::shell::effects::commit_effects::{CommittedEffects, EffectBasis, EffectCommitOutcome, EffectsCommit};
use crate::shell::effects::layer_note::LayerNotePlace;
use crate::shell::foreground::command_label;
use crate::shell::foreground::command_turn::{CommandTurn, TurnRequest};
use crate::shell::foreground::request::NoSink;
use crate::shell::foreground::run_terminal::{RunTerminal, next_output};
use crate::shell::policy::environment::Environment;
use crate::shell::runtime::{BenchLease, SandboxLayer, ShellRuntime, is_isolated, is_over_limit, spawn_in_background};
use crate::{CommandChanges, RunResult, Workspace, unenforced_guards};

/// A command that the policy allows, with everything that is needed to run it.
#[derive(Debug, Clone)]
pub(in crate::shell) struct PreparedCommand {
    pub(in crate::shell) operation: &'static str,
    pub(in crate::shell) command: SandboxCommand,
    /// The secrets to mask in the output; empty if the listener masks the output itself.
    pub(in crate::shell) secrets: Secrets,
    /// The secrets to mask in messages and in the names of files.
    pub(in crate::shell) hidden: Secrets,
    /// The label of the command in the journal.
    pub(in crate::shell) label: String,
    pub(in crate::shell) effects: EffectsMode,
    /// The longest wait for its turn.
    pub(in crate::shell) turn_wait: Option<Duration>,
    /// Variables that this call added to the environment.
    pub(in crate::shell) given: BTreeMap<String, String>,
    /// The time limit that holds, if the request asked for a longer one.
    pub(in crate::shell) lowered_timeout: Option<Duration>,
    /// The terminal on which it runs, if it runs on one.
    pub(in crate::shell) terminal: Option<RunTerminal>,
}

/// A command that has ended: its output and its exit.
pub(in crate::shell) struct CommandRunOutput {
    pub(in crate::shell) output: CommandOutput,
    pub(in crate::shell) exit: CommandExit,
}

/// The layer under a command. Even if the caller stops waiting, the layer is removed before the next command has its
/// turn.
pub(in crate::shell) struct CommandLayerGuard<T: Send + 'static> {
    layer: Arc<dyn Layer>,
    pub(in crate::shell) note: LayerNotePlace,
    pub(in crate::shell) state: BenchState,
    /// The guard that keeps the bench as it is, and the turn. Both are held until the layer is off the bench.
    held: Option<(T, CommandTurn)>,
    clearing: Arc<RwLock<()>>,
    is_off: bool,
}

impl Workspace {
    /// Runs a command and waits for its end. A command that ran is a success, whatever its exit code; one that could
    /// not run is an error. Its effects on the files are one change. Dropping the future ends the command with all its
    /// processes, and discards its effects.
    pub async fn run(&self, request: RunRequest) -> Result<RunResult> {
        self.run_with(request, &mut NoSink).await
    }

    /// Runs a command as [`Workspace::run`] does, and hands its output to `sink` as it comes.
    pub async fn run_with(&self, request: RunRequest, sink: &mut dyn OutputSink) -> Result<RunResult> {
        self.run_as_operation("run", request, sink).await
    }

    /// Runs a command as [`Workspace::run_with`] does, under the name of another operation in the journal and in
    /// events.
    pub(crate) async fn run_as_operation(
        &self,
        operation: &'static str,
        request: RunRequest,
        sink: &mut dyn OutputSink,
    ) -> Result<RunResult> {
        let work = async {
            let commands = self.commands()?;
            if let Some(shell) = request.shell.clone() {
                return commands.run_in_shell(&shell, request).await;
            }
            let prepared = commands.prepare_command(operation, request)?;
            commands.approve_command(&prepared).await?;
            commands.run_prepared(prepared, sink).await
        };
        let bytes = |result: &RunResult| (result.stdout.0.len() + result.stderr.0.len()) as u64;
        self.run_observed(operation, None, bytes, work).await
    }

    /// Returns the most bytes of output that are stored of a command; `None` if this workspace does not run commands.
    pub fn output_limit(&self) -> Option<u64> {
        let shell = self.shared.shell.as_ref()?;
        Some(shell.0.rules.limits().output)
    }
}

impl CommandAccess {
    /// Waits for the turn of a command, and runs it.
    pub(in crate::shell) async fn run_prepared(
        &self,
        prepared: PreparedCommand,
        sink: &mut dyn OutputSink,
    ) -> Result<RunResult> {
        let request = TurnRequest {
            commands: self,
            label: &prepared.label,
            wait: prepared.turn_wait,
            is_between_processes: true,
        };
        let mut turn = self.shell.take_turn(request, sink).await?;
        let waited = turn.waited.take();
        // The command must see the effects of the background processes so far, and on their layer the changes that
        // others made.
        self.shell.catch_up().await?;
        let network_mark = self.shell.network.mark();
        let secrets = prepared.hidden.clone();
        let lowered_timeout_ms = prepared.lowered_timeout.map(duration_millis);
        let limits = prepared.command.limits.clone();
        let ran = match self.shell.choose_layer(&self.files.view, &prepared).await {
            CommandPlacement::Live(seat) => self.run_on_live_layer(seat, prepared, sink).await,
            CommandPlacement::Side(seat) => self.run_on_side_layer(seat, turn, prepared, sink).await,
            CommandPlacement::Own => self.run_on_layer(turn, prepared, sink).await,
        };
        let network = self.shell.network.take_record(network_mark, &self.files, &secrets);
        let result = ran.map_err(|error| error.map_text(|text| secrets.mask_text(text)))?;
        let reached = self.find_reached_limit(&result, &limits);
        Ok(RunResult {
            network,
            changed: result.changed.mask_secrets(&secrets),
            corrupt: result.corrupt.iter().map(|path| secrets.mask_text(path)).collect(),
            lowered_timeout_ms,
            reached,
            waited,
            ..result
        })
    }

    /// Returns the limit that ended the command, or else the one that it probably reached: a failed command says so at
    /// the end of its output.
    fn find_reached_limit(&self, result: &RunResult, limits: &Limits) -> Option<ReachedLimit> {
        self.shell
            .find_reached_limit(result.limit, result.failure_output(), limits)
    }

    /// Checks a request against the policy, and makes a command of it.
    pub(in crate::shell) fn prepare_command(
        &self,
        operation: &'static str,
        request: RunRequest,
    ) -> Result<PreparedCommand> {
        // Prepared first, although it may be refused: the message of the refusal quotes the command line, and its
        // secrets must be known.
        let line = CommandLine::from_program(&request.program);
        let prepared = self.prepare_unchecked(operation, request)?;
        let refusal = self.shell.rules.check(&line);
        refusal.map_err(|error| error.map_text(|text| prepared.hidden.mask_text(text)))?;
        Ok(prepared)
    }

    /// Makes a command of a request whose command line Garret wrote, so that the policy need not allow it.
    pub(in crate::shell) fn prepare_unchecked(
        &self,
        operation: &'static str,
        request: RunRequest,
    ) -> Result<PreparedCommand> {
        let policy = self.shell.rules.policy();
        let parts = [&self.shell.inherited, &self.files.view.env, &request.env];
        let Environment { variables, secrets } = Environment::new(policy, &parts)?;
        let most = self.shell.rules.limits().output;
        let times = self.shell.rules.call_times();
        let limits = Limits {
            wall: times.limit_call(request.timeout),
            output: request.max_output.map_or(most, |asked| asked.min(most)),
            ..self.shell.rules.limits().clone()
        };
        Ok(PreparedCommand {
            operation,
            label: command_label::journal_label(&request.program, &secrets),
            command: SandboxCommand {
                cwd: self
                    .files
                    .parse_path(&request.cwd)?
                    .rebase_below(&self.files.view.base)?,
                program: check_program(request.program)?,
                env: variables,
                stdin: build_stdin(request.stdin, request.stdin_stream)?,
                limits,
                // A command whose effects are discarded must leave nothing in the kept home either.
                has_empty_home: request.effects.unwrap_or(policy.effects) == EffectsMode::Discard,
                terminal: request.terminal.as_ref().map(|terminal| CommandTerminal {
                    size: terminal.size(),
                    has_mark_pipe: false,
                }),
            },
            hidden: secrets.clone(),
            secrets,
            effects: request.effects.unwrap_or(policy.effects),
            turn_wait: request.turn_wait,
            given: request.env,
            terminal: request.terminal,
            lowered_timeout: times.find_lowered(request.timeout),
        })
    }

    async fn run_on_layer(
        &self,
        turn: CommandTurn,
        prepared: PreparedCommand,
        sink: &mut dyn OutputSink,
    ) -> Result<RunResult> {
        let under = self.files_under_layer();
        let restrictions = self.shell.cached_restrictions(&under).await?;
        let (state, held) = self.shell.prepare_bench().await?;
        let basis = EffectBasis {
            head: state.head,
            at: self.shell.file_time().await?,
        };
        let laid = self.shell.lay_layer(&restrictions, &state).await?;
        let mut cover = CommandLayerGuard::new(&self.shell, &laid, state, (held, turn));
        cover.note.write_note(&basis, &prepared.label)?;
        let mut process = laid
            .layer
            .start_last_process(laid.complete_command(&prepared.command, &self.files.view.base))
            .await?;
        let ran = match follow_output(&mut *process, &prepared, sink).await {
            Ok(ran) => ran,
            Err(error) => return Err(cover.keep_as_leftover(&error)),
        };
        let keeping = async {
            laid.layer.lift().await?;
            match self.shell.read_effects(&*laid.layer, &cover.state, None).await {
                Ok(effects) => {
                    self.commit_layer_effects(&mut cover, &basis, &prepared, &ran.exit, effects)
                        .await
                }
                Err(refusal) if is_over_limit(&refusal) => {
                    cover.release_bench().await?;
                    Ok(CommandChanges::from_refusal(&refusal))
                }
                Err(error) => Err(error),
            }
        };
        // The command has run, and its output is worth returning even if its effects could not be committed.
        let kept = keeping.await;
        let corrupt = self.files.view.visible_corrupt_paths(&cover.state);
        let changed = match kept {
            Ok(changed) => {
                cover.remove_layer().await?;
                changed
            }
            // The bench was not given back yet, so nothing is in the files, and the whole layer can stay as a leftover.
            Err(error) if cover.held.is_some() => {
                cover.keep_as_leftover(&error);
                CommandChanges::from_leftover(&error, laid.layer.id())
            }
            Err(error) => return Err(cover.keep_as_leftover(&error)),
        };
        Ok(RunResult {
            corrupt,
            ..build_run_result(ran, changed, &laid)
        })
    }

    /// Commits the effects of the command, and hands them to the bench.
    async fn commit_layer_effects(
        &self,
        cover: &mut CommandLayerGuard<BenchLease>,
        basis: &EffectBasis,
        prepared: &PreparedCommand,
        exit: &CommandExit,
        effects: Effects,
    ) -> Result<CommandChanges> {
        let under = self.files_under_layer();
        let commit = EffectsCommit {
            files: &under,
            basis,
            note: &cover.note,
            origin: self.run_origin(prepared, exit),
            mode: prepared.effects,
            has_quota_turns: false,
        };
        let committed = self.shell.commit_command_effects(&commit, effects.effects).await?;
        let CommittedEffects {
            keeping,
            kept,
            excluded,
        } = committed;
        let changed = self
            .files
            .view
            .summarize_effects(&keeping, &excluded, &effects.dropped, &self.shell.exclusions);
        let next = match &keeping.kept {
            // If others made changes in between, the bench lacks those, and must not claim to be at this change.
            EffectCommitOutcome::Change(change) if change.number == cover.state.head + 1 => change.number,
            _ => cover.state.head,
        };
        // The bench is given back even if it has nothing to take over.
        let taken = LayerOutcome {
            committed: &kept,
            excluded: &excluded,
            head: next,
        };
        cover.hand_effects(taken).await?;
        Ok(changed)
    }

    pub(in crate::shell) fn run_origin(&self, prepared: &PreparedCommand, exit: &CommandExit) -> garret_core::Origin {
        let ended = describe_exit(exit);
        garret_core::Origin {
            command: Some(prepared.label.clone()),
            ..self.ended_origin(prepared.operation, &prepared.label, &ended, exit.duration)
        }
    }

    /// Runs a command on the live layer. Its effects and those of the background processes since the last commit become
    /// one change.
    async fn run_on_live_layer(
        &self,
        seat: LiveLayerSeat,
        prepared: PreparedCommand,
        sink: &mut dyn OutputSink,
    ) -> Result<RunResult> {
        let laid = seat.sandbox_layer().clone();
        let corrupt = self.files.view.visible_corrupt_paths(seat.bench_state());
        let mut process = laid
            .layer
            .start_process(laid.complete_command(&prepared.command, &self.files.view.base))
            .await?;
        let ran = follow_output(&mut *process, &prepared, sink).await?;
        // Kills the processes that the command left behind; otherwise they would write after its effects were read.
        drop(process);
        let taking = SettleRequest::for_caller(self.run_origin(&prepared, &ran.exit));
        let changed = self.summarize_settled(seat.leave_and_report(taking).await?);
        Ok(RunResult {
            corrupt,
            ..build_run_result(ran, changed, &laid)
        })
    }
}

impl CommandLayerGuard<BenchLease> {
    /// Hands the effects on the layer to the bench, and ends the turn.
    async fn hand_effects(&mut self, taken: LayerOutcome<'_>) -> Result<()> {
        let (held, turn) = self.held.take().expect("it is given once");
        held.hand_effects(taken).await?;
        drop(turn);
        Ok(())
    }

    /// Gives the bench back as it is, and ends the turn.
    async fn release_bench(&mut self) -> Result<()> {
        let (held, turn) = self.held.take().expect("it is given once");
        held.release_unchanged().await?;
        drop(turn);
        Ok(())
    }
}

impl<T: Send + 'static> CommandLayerGuard<T> {
    pub(in crate::shell) fn new(
        shell: &ShellRuntime,
        laid: &SandboxLayer,
        state: BenchState,
        held: (T, CommandTurn),
    ) -> Self {
        Self {
            layer: laid.layer.clone(),
            note: LayerNotePlace::new(&state, laid.layer.id()),
            state,
            held: Some(held),
            clearing: shell.clearing.clone(),
            is_off: false,
        }
    }

    /// Keeps the layer as a leftover: the command has run, and its effects could not be committed. Returns the error
    /// with a hint at it.
    pub(in crate::shell) fn keep_as_leftover(mut self, error: &Error) -> Error {
        self.is_off = true;
        let hint = format!(
            "{}; the changes of the command are kept as a leftover, which `garret leftovers` lists",
            error.hint_text()
        );
        error.clone().hint(hint)
    }

    /// Removes the layer. Returns the guard of the bench and the turn, if they were not given up before.
    pub(in crate::shell) async fn remove_layer(mut self) -> Result<Option<(T, CommandTurn)>> {
        self.is_off = true;
        self.note.remove_note();
        self.layer.remove().await?;
        Ok(self.held.take())
    }
}

impl<T: Send + 'static> Drop for CommandLayerGuard<T> {
    fn drop(&mut self) {
        if !self.is_off {
            let (layer, note, held) = (self.layer.clone(), self.note.clone(), self.held.take());
            // Taken here and not in the task: a close of the workspace right after this drop must wait for the removal.
            let clearing = self.clearing.clone().try_read_owned();
            spawn_in_background(async move {
                // A layer that cannot be removed now is a leftover when the workspace is opened again, and needs its
                // note.
                if layer.remove().await.is_ok() {
                    note.remove_note();
                }
                drop((held, clearing));
            });
        }
    }
}

/// Hands the output of a process to `sink` until the process ends. Returns the stored output and the exit.
pub(in crate::shell) async fn follow_output(
    process: &mut dyn Process,
    prepared: &PreparedCommand,
    sink: &mut dyn OutputSink,
) -> Result<CommandRunOutput> {
    let mut collector = OutputCollector::new(prepared.command.limits.output, &prepared.secrets);
    let terminal = prepared.terminal.as_ref();
    terminal.inspect(|terminal| terminal.connect());
    while let Some(chunk) = next_output(process, terminal).await {
        if let Some(shown) = collector.push_chunk(&chunk) {
            sink.take(&shown).await;
        }
    }
    let (last, output) = collector.finish();
    for shown in &last {
        sink.take(shown).await;
    }
    let exit = process.wait().await?;
    terminal.inspect(|terminal| terminal.disconnect());
    Ok(CommandRunOutput { output, exit })
}

pub(in crate::shell) fn build_run_result(
    ran: CommandRunOutput,
    changed: CommandChanges,
    laid: &SandboxLayer,
) -> RunResult {
    let CommandRunOutput { output, exit } = ran;
    let guards = laid.sandbox.guard_statuses().to_vec();
    RunResult {
        exit_code: exit.ended.exit_code(),
        signal: match exit.ended {
            ExitCause::Exited(_) => None,
            ExitCause::Signalled(number) => Some(number),
        },
        output: output.both.to_text(),
        truncated: output.is_truncated(),
        left_out_bytes: output.stdout.left_out + output.stderr.left_out,
        stdout: output.stdout.into(),
        stderr: output.stderr.into(),
        duration_ms: duration_millis(exit.duration),
        timed_out: exit.limit == Some(ResourceLimit::Wall),
        limit: exit.limit,
        reached: None,
        lowered_timeout_ms: None,
        waited: None,
        usage: Some(exit.usage),
        network: None,
        isolated: is_isolated(&guards),
        not_enforced: unenforced_guards(&guards),
        guards,
        changed,
        leftovers: laid.leftovers.clone(),
        corrupt: Vec::new(),
        shell_is_new: false,
        shell_ended: None,
        details: None,
    }
}

/// Describes in words how a command ended.
pub(crate) fn describe_exit(exit: &CommandExit) -> String {
    match (exit.limit, exit.ended) {
        (Some(ResourceLimit::Wall), _) => "timed out".to_owned(),
        (Some(ResourceLimit::Pause), _) => {
            "ended by Garret: it did not stop within one second when it was paused".to_owned()
        }
        (Some(limit), _) => format!("over its limit ({})", limit.as_words()),
        (None, ExitCause::Exited(code)) => format!("exit {code}"),
        (None, ExitCause::Signalled(number)) => format!("signal {number}"),
    }
}

pub(in crate::shell) fn format_duration(duration: Duration) -> String {
    match duration.as_millis() {
        millis @ 0..1_000 => format!("{millis} ms"),
        _ => format!("{:.1} s", duration.as_secs_f64()),
    }
}

pub(crate) fn duration_millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Returns the standard input of a command.
fn build_stdin(bytes: Option<Bytes>, stream: Option<InputStream>) -> Result<CommandStdin> {
    match (bytes, stream) {
        (None, None) => Ok(CommandStdin::Closed),
        (Some(bytes), None) => Ok(CommandStdin::Bytes(bytes)),
        (None, Some(stream)) => Ok(CommandStdin::Stream(stream)),
        (Some(_), Some(_)) => {
            Err(Error::invalid("standard input is given both as bytes and as a stream").hint("give one of them"))
        }
    }
}

/// Refuses a program that no system call takes: an empty one, or one with a NUL byte.
fn check_program(program: CommandProgram) -> Result<CommandProgram> {
    let wrong = |why: &str| Err(Error::invalid(why.to_owned()).hint("give a program, or a shell command line"));
    match &program {
        CommandProgram::Arguments(arguments) if arguments.first().is_none_or(String::is_empty) => {
            wrong("the command is empty")
        }
        CommandProgram::Shell(text) if text.trim().is_empty() => wrong("the command is empty"),
        CommandProgram::Arguments(arguments) if arguments.iter().any(|one| one.contains('\0')) => {
            wrong("a command cannot contain a NUL byte")
        }
        CommandProgram::Shell(text) if text.contains('\0') => wrong("a command cannot contain a NUL byte"),
        _ => Ok(program),
    }
}
