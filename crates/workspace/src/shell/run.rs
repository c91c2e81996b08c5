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
    BenchState, Command, Effects, EffectsMode, Ended, Error, Exit, InputStream, Layer, Limit, Limits, Output,
    OutputCollector, Process, Program, Result, Secrets, Stdin, Taken,
};
use tokio::sync::RwLock;

use super::environment::Environment;
use super::keep::{Basis, Kept, Maker, Split};
use super::live::{RunsOn, Seat, Taking, Told};
use super::request::NoSink;
use super::result::{Changed, RunResult};
use super::turn::{CommandTurn, TurnRequest};
use super::workshop::{Held, Laid, Workshop, in_background, is_isolated, is_over_limit};
use super::{CommandLine, OutputSink, RunRequest, label};
use crate::Workspace;

/// A command that the policy allows, with everything that is needed to run it.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) operation: &'static str,
    pub(super) command: Command,
    /// The secrets to mask in the output; empty if the listener masks the output itself.
    pub(super) secrets: Secrets,
    /// The secrets to mask in messages and in the names of files.
    pub(super) hidden: Secrets,
    /// The label of the command in the journal.
    pub(super) label: String,
    pub(super) effects: EffectsMode,
    /// The longest wait for its turn.
    pub(super) turn_wait: Option<Duration>,
    /// Variables that this call added to the environment.
    pub(super) given: BTreeMap<String, String>,
    /// The time limit that holds, if the request asked for a longer one.
    pub(super) lowered_timeout: Option<Duration>,
}

/// A command that has ended: its output and its exit.
pub(super) struct Ran {
    output: Output,
    pub(super) exit: Exit,
}

/// The layer under a command. Even if the caller stops waiting, the layer is removed before the next command has its
/// turn.
pub(super) struct Cover<T: Send + 'static> {
    layer: Arc<dyn Layer>,
    pub(super) state: BenchState,
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
        self.run_as("run", request, sink).await
    }

    /// Runs a command as [`Workspace::run_with`] does, under the name of another operation in the journal and in
    /// events.
    pub(crate) async fn run_as(
        &self,
        operation: &'static str,
        request: RunRequest,
        sink: &mut dyn OutputSink,
    ) -> Result<RunResult> {
        let work = async {
            let shop = self.workshop()?;
            let prepared = self.prepare(shop, operation, request)?;
            self.approve_command(&prepared).await?;
            self.run_prepared(shop, prepared, sink).await
        };
        let bytes = |result: &RunResult| (result.stdout.0.len() + result.stderr.0.len()) as u64;
        self.observe(operation, None, bytes, work).await
    }

    /// Returns the most bytes of output that are stored of a command; `None` if this workspace does not run commands.
    pub fn output_limit(&self) -> Option<u64> {
        self.workshop().ok().map(|shop| shop.rules.limits().output)
    }

    /// Waits for the turn of a command, and runs it.
    pub(super) async fn run_prepared(
        &self,
        shop: &Arc<Workshop>,
        prepared: Prepared,
        sink: &mut dyn OutputSink,
    ) -> Result<RunResult> {
        let request = TurnRequest {
            view: self,
            label: &prepared.label,
            wait: prepared.turn_wait,
            is_between_processes: true,
        };
        let mut turn = shop.take_turn(request, sink).await?;
        let waited = turn.waited.take();
        // The command must see the effects of the background processes so far, and on their layer the changes that
        // others made.
        shop.catch_up().await?;
        let secrets = prepared.hidden.clone();
        let lowered_timeout_ms = prepared.lowered_timeout.map(millis);
        let ran = match shop.place_for(self, &prepared).await {
            RunsOn::LiveLayer(seat) => self.run_on_seat(seat, prepared, sink).await,
            RunsOn::LayerBeside(seat) => self.run_beside(seat, turn, prepared, sink).await,
            RunsOn::OwnLayer => self.run_on_layer(turn, prepared, sink).await,
        };
        let result = ran.map_err(|error| error.map_text(|text| secrets.mask(text)))?;
        Ok(RunResult {
            changed: result.changed.masked(&secrets),
            corrupt: result.corrupt.iter().map(|path| secrets.mask(path)).collect(),
            lowered_timeout_ms,
            waited,
            ..result
        })
    }

    /// Checks a request against the policy, and makes a command of it.
    pub(super) fn prepare(&self, shop: &Workshop, operation: &'static str, request: RunRequest) -> Result<Prepared> {
        // Prepared first, although it may be refused: the message of the refusal quotes the command line, and its
        // secrets must be known.
        let line = CommandLine::of(&request.program);
        let prepared = self.prepare_unchecked(shop, operation, request)?;
        let refusal = shop.rules.check(&line);
        refusal.map_err(|error| error.map_text(|text| prepared.hidden.mask(text)))?;
        Ok(prepared)
    }

    /// Makes a command of a request whose command line Garret wrote, so that the policy need not allow it.
    pub(super) fn prepare_unchecked(
        &self,
        shop: &Workshop,
        operation: &'static str,
        request: RunRequest,
    ) -> Result<Prepared> {
        let policy = shop.rules.policy();
        let parts = [&shop.inherited, self.environment(), &request.env];
        let Environment { variables, secrets } = Environment::new(policy, &parts)?;
        let most = shop.rules.limits().output;
        let wall = wall(shop.rules.limits().wall, request.timeout);
        let limits = Limits {
            wall,
            output: request.max_output.map_or(most, |asked| asked.min(most)),
            ..shop.rules.limits().clone()
        };
        Ok(Prepared {
            operation,
            label: label::of(&request.program, &secrets),
            command: Command {
                cwd: self.parse(&request.cwd)?.below(&self.view.base)?,
                program: checked(request.program)?,
                env: variables,
                stdin: stdin_of(request.stdin, request.stdin_stream)?,
                limits,
            },
            hidden: secrets.clone(),
            secrets,
            effects: request.effects.unwrap_or(policy.effects),
            turn_wait: request.turn_wait,
            given: request.env,
            lowered_timeout: lowered(wall, request.timeout),
        })
    }

    async fn run_on_layer(
        &self,
        turn: CommandTurn,
        prepared: Prepared,
        sink: &mut dyn OutputSink,
    ) -> Result<RunResult> {
        let shop = self.workshop()?;
        let under = shop.under(self);
        let fence = under.fence_in(shop).await?;
        let (state, held) = shop.ready().await?;
        let basis = Basis {
            head: state.head,
            at: shop.file_time().await?,
        };
        let laid = shop.lay(&fence, &state).await?;
        let mut cover = Cover::new(shop, &laid, state, (held, turn));
        super::note::write(&cover.state, laid.layer.id(), &basis, &prepared.label)?;
        let mut process = laid.layer.start_last(prepared.command.clone()).await?;
        let ran = match follow_output(&mut *process, &prepared, sink).await {
            Ok(ran) => ran,
            Err(error) => return Err(cover.leave_behind(&error)),
        };
        let keeping = async {
            laid.layer.lift().await?;
            match shop.effects_of(&*laid.layer, &cover.state, None).await {
                Ok(effects) => self.take(&mut cover, &basis, &prepared, &ran.exit, effects).await,
                Err(refusal) if is_over_limit(&refusal) => {
                    cover.give_nothing().await?;
                    Ok(Changed::refused(&refusal))
                }
                Err(error) => Err(error),
            }
        };
        // The command has run, and its output is worth returning even if its effects could not be committed.
        let kept = keeping.await;
        let corrupt = self.shown_corrupt(&cover.state);
        let changed = match kept {
            Ok(changed) => {
                cover.off().await?;
                changed
            }
            // The bench was not given back yet, so nothing is in the files, and the whole layer can stay as a leftover.
            Err(error) if cover.held.is_some() => {
                cover.leave_behind(&error);
                Changed::left_over(&error, laid.layer.id())
            }
            Err(error) => return Err(cover.leave_behind(&error)),
        };
        Ok(RunResult {
            corrupt,
            ..result(ran, changed, &laid)
        })
    }

    /// Commits the effects of the command, and hands them to the bench.
    async fn take(
        &self,
        cover: &mut Cover<Held>,
        basis: &Basis,
        prepared: &Prepared,
        exit: &Exit,
        effects: Effects,
    ) -> Result<Changed> {
        let shop = self.workshop()?;
        let under = shop.under(self);
        let split = under.split(shop, effects.effects).await?;
        let maker = Maker {
            origin: under.run_origin(prepared, exit),
            mode: prepared.effects,
            has_quota_turns: false,
        };
        let keeping = under.keep(&split, basis, maker).await?;
        let Split { kept, excluded } = split;
        let is_in_files = keeping.is_in_files() && prepared.effects != EffectsMode::Discard;
        let excluded = if is_in_files || matches!(keeping.kept, Kept::Branch(_)) {
            excluded
        } else {
            Vec::new()
        };
        let changed = self.changed(&keeping, &excluded, &effects.dropped, shop);
        if let Kept::Change(change) = &keeping.kept {
            shop.note_kept_out(change.number, &excluded);
        }
        let next = match &keeping.kept {
            // If others made changes in between, the bench lacks those, and must not claim to be at this change.
            Kept::Change(change) if change.number == cover.state.head + 1 => change.number,
            _ => cover.state.head,
        };
        // The bench is given back even if it has nothing to take over.
        let taken = Taken {
            committed: if is_in_files { &kept } else { &[] },
            excluded: &excluded,
            head: next,
        };
        cover.give(taken).await?;
        Ok(changed)
    }

    pub(super) fn run_origin(&self, prepared: &Prepared, exit: &Exit) -> garret_core::Origin {
        let summary = format!(
            "{} `{}`: {} after {}",
            prepared.operation,
            label::printed(&label::short(&prepared.label)),
            ended(exit),
            seconds(exit.duration)
        );
        garret_core::Origin {
            command: Some(prepared.label.clone()),
            ..self.origin(prepared.operation, summary)
        }
    }

    /// Runs a command on the live layer. Its effects and those of the background processes since the last commit become
    /// one change.
    async fn run_on_seat(&self, seat: Seat, prepared: Prepared, sink: &mut dyn OutputSink) -> Result<RunResult> {
        let shop = self.workshop()?;
        let laid = seat.laid().clone();
        let corrupt = self.shown_corrupt(seat.state());
        let mut process = laid.layer.start(prepared.command.clone()).await?;
        let ran = follow_output(&mut *process, &prepared, sink).await?;
        // Kills the processes that the command left behind; otherwise they would write after its effects were read.
        drop(process);
        let taking = Taking {
            origin: Some(self.run_origin(&prepared, &ran.exit)),
            told: Told::Caller,
        };
        let settled = seat.leave(taking).await?;
        let changed = settled.map_or_else(Changed::default, |settled| settled.changed(self, shop));
        Ok(RunResult {
            corrupt,
            ..result(ran, changed, &laid)
        })
    }
}

impl Cover<Held> {
    /// Hands the effects on the layer to the bench, and ends the turn.
    async fn give(&mut self, taken: Taken<'_>) -> Result<()> {
        let (held, turn) = self.held.take().expect("it is given once");
        held.take(taken).await?;
        drop(turn);
        Ok(())
    }

    /// Gives the bench back as it is, and ends the turn.
    async fn give_nothing(&mut self) -> Result<()> {
        let (held, turn) = self.held.take().expect("it is given once");
        held.release().await?;
        drop(turn);
        Ok(())
    }
}

impl<T: Send + 'static> Cover<T> {
    pub(super) fn new(shop: &Workshop, laid: &Laid, state: BenchState, held: (T, CommandTurn)) -> Self {
        Self {
            layer: laid.layer.clone(),
            state,
            held: Some(held),
            clearing: shop.clearing.clone(),
            is_off: false,
        }
    }

    /// Keeps the layer as a leftover: the command has run, and its effects could not be committed. Returns the error
    /// with a hint at it.
    pub(super) fn leave_behind(mut self, error: &Error) -> Error {
        self.is_off = true;
        let hint = format!(
            "{}; the changes of the command are kept as a leftover, which `garret leftovers` lists",
            error.hint_text()
        );
        error.clone().hint(hint)
    }

    /// Removes the layer. Returns the guard of the bench and the turn, if they were not given up before.
    pub(super) async fn off(mut self) -> Result<Option<(T, CommandTurn)>> {
        self.is_off = true;
        super::note::remove(&self.state, self.layer.id());
        self.layer.remove().await?;
        Ok(self.held.take())
    }
}

impl<T: Send + 'static> Drop for Cover<T> {
    fn drop(&mut self) {
        if !self.is_off {
            let (layer, state, held) = (self.layer.clone(), self.state.clone(), self.held.take());
            // Taken here and not in the task: a close of the workspace right after this drop must wait for the removal.
            let clearing = self.clearing.clone().try_read_owned();
            in_background(async move {
                // A layer that cannot be removed now is a leftover when the workspace is opened again, and needs its
                // note.
                if layer.remove().await.is_ok() {
                    super::note::remove(&state, layer.id());
                }
                drop((held, clearing));
            });
        }
    }
}

/// Hands the output of a process to `sink` until the process ends. Returns the stored output and the exit.
pub(super) async fn follow_output(
    process: &mut dyn Process,
    prepared: &Prepared,
    sink: &mut dyn OutputSink,
) -> Result<Ran> {
    let mut collector = OutputCollector::new(prepared.command.limits.output, &prepared.secrets);
    while let Some(chunk) = process.output().await {
        if let Some(shown) = collector.push(&chunk) {
            sink.take(&shown).await;
        }
    }
    let (last, output) = collector.finish();
    for shown in &last {
        sink.take(shown).await;
    }
    let exit = process.wait().await?;
    Ok(Ran { output, exit })
}

pub(super) fn result(ran: Ran, changed: Changed, laid: &Laid) -> RunResult {
    let Ran { output, exit } = ran;
    let enforced = laid.sandbox.enforced().to_vec();
    RunResult {
        exit_code: exit.ended.code(),
        signal: match exit.ended {
            Ended::Exited(_) => None,
            Ended::Signalled(number) => Some(number),
        },
        output: output.both.text(),
        truncated: output.is_truncated(),
        left_out_bytes: output.stdout.left_out + output.stderr.left_out,
        stdout: output.stdout.into(),
        stderr: output.stderr.into(),
        duration_ms: millis(exit.duration),
        timed_out: exit.limit == Some(Limit::Wall),
        limit: exit.limit,
        lowered_timeout_ms: None,
        waited: None,
        usage: exit.usage,
        isolated: is_isolated(&enforced),
        enforced,
        changed,
        leftovers: laid.leftovers.clone(),
        corrupt: Vec::new(),
    }
}

/// Describes in words how a command ended.
pub(crate) fn ended(exit: &Exit) -> String {
    match (exit.limit, exit.ended) {
        (Some(Limit::Wall), _) => "timed out".to_owned(),
        (Some(Limit::Pause), _) => "ended by Garret: it did not stop within one second when it was paused".to_owned(),
        (Some(limit), _) => format!("over its limit ({})", limit.words()),
        (None, Ended::Exited(code)) => format!("exit {code}"),
        (None, Ended::Signalled(number)) => format!("signal {number}"),
    }
}

pub(super) fn seconds(duration: Duration) -> String {
    match duration.as_millis() {
        millis @ 0..1_000 => format!("{millis} ms"),
        _ => format!("{:.1} s", duration.as_secs_f64()),
    }
}

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Returns the time limit of a command: the requested one, but never more than the policy allows.
pub(super) fn wall(policy: Option<Duration>, asked: Option<Duration>) -> Option<Duration> {
    policy.into_iter().chain(asked).min()
}

/// Returns the limit that holds, if the request asked for a longer one.
pub(crate) fn lowered(wall: Option<Duration>, asked: Option<Duration>) -> Option<Duration> {
    wall.filter(|wall| asked.is_some_and(|asked| asked > *wall))
}

/// Returns the standard input of a command.
fn stdin_of(bytes: Option<Bytes>, stream: Option<InputStream>) -> Result<Stdin> {
    match (bytes, stream) {
        (None, None) => Ok(Stdin::Closed),
        (Some(bytes), None) => Ok(Stdin::Bytes(bytes)),
        (None, Some(stream)) => Ok(Stdin::Stream(stream)),
        (Some(_), Some(_)) => {
            Err(Error::invalid("standard input is given both as bytes and as a stream").hint("give one of them"))
        }
    }
}

/// Refuses a program that no system call takes: an empty one, or one with a NUL byte.
fn checked(program: Program) -> Result<Program> {
    let wrong = |why: &str| Err(Error::invalid(why.to_owned()).hint("give a program, or a shell command line"));
    match &program {
        Program::Arguments(arguments) if arguments.first().is_none_or(String::is_empty) => {
            wrong("the command is empty")
        }
        Program::Shell(text) if text.trim().is_empty() => wrong("the command is empty"),
        Program::Arguments(arguments) if arguments.iter().any(|one| one.contains('\0')) => {
            wrong("a command cannot contain a NUL byte")
        }
        Program::Shell(text) if text.contains('\0') => wrong("a command cannot contain a NUL byte"),
        _ => Ok(program),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_limit_above_the_policy_is_lowered_to_it() {
        let time = |seconds| Some(Duration::from_secs(seconds));
        assert_eq!(wall(time(120), time(600)), time(120));
        assert_eq!(lowered(wall(time(120), time(600)), time(600)), time(120));
        assert_eq!(wall(time(120), time(5)), time(5));
        assert_eq!(lowered(wall(time(120), time(5)), time(5)), None);
        assert_eq!((wall(time(120), None), wall(None, time(9))), (time(120), time(9)));
        assert_eq!(lowered(wall(time(120), None), None), None);
    }
}
