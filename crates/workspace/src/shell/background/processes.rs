//! Processes in the background: starting them, reading their output, ending them. They outlive the call that started
//! them, and end with the workspace.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use garret_core::path::quote;
use garret_core::{
    CallOptions, CallTimeLimits, CapturedStream, Chunk, CommandExit, EffectsMode, Error, ErrorKind, GuardStatus,
    Limits, Masker, Origin, OutputStream, Process, ReachedLimit, ResourceLimit, Result, SandboxCommand, Secrets,
    Signal, trim_partial_start,
};
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};

use crate::code::shell_of_process;
use crate::shell::RunRequest;
use crate::shell::background::live_layer::{LiveLayerSeat, SettleReport, SettleRequest};
use crate::shell::background::opened_ports::{OpenedPorts, PortCloser};
use crate::shell::command_access::CommandAccess;
use crate::shell::foreground::command_label;
use crate::shell::foreground::run::{PreparedCommand, describe_exit, duration_millis};
use crate::shell::runtime::{SandboxLayer, is_isolated};
use crate::view::WorkspaceView;
use crate::{
    CommandChanges, ProcessList, ProcessOutput, ProcessStatus, RunDetails, StreamContent, Workspace, unenforced_guards,
};

/// The number of ended processes that stay in the list.
const REMEMBERED: usize = 32;
/// The longest wait for new output.
pub const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// A request for the output of a background process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputRequest {
    /// The process.
    pub id: String,
    /// The `cursor` of the last answer; 0 for all output that is still stored.
    pub cursor: u64,
    /// The longest wait for new output; at most a minute.
    pub wait: Duration,
    /// The most bytes in the answer.
    pub max_bytes: usize,
    /// Whether half of `max_bytes` goes to the newest output if not all of it fits.
    pub with_tail: bool,
    /// Whether the answer has `details`.
    pub with_details: bool,
}

/// The processes of one open workspace.
#[derive(Debug, Default)]
pub(in crate::shell) struct BackgroundProcesses {
    table: Mutex<ProcessTable>,
}

#[derive(Debug, Default)]
struct ProcessTable {
    next: u64,
    entries: BTreeMap<u64, Arc<BackgroundProcess>>,
}

/// A background process in the table.
#[derive(Debug)]
pub(super) struct BackgroundProcess {
    number: u64,
    command: String,
    started: garret_core::Timestamp,
    guards: Vec<GuardStatus>,
    /// The view that started it.
    view: Arc<WorkspaceView>,
    /// Its ports that programs outside can reach.
    pub(super) ports: Arc<OpenedPorts>,
    record: Mutex<ProcessRecord>,
    /// Notified whenever the record changes.
    changes: watch::Sender<()>,
    signals: mpsc::UnboundedSender<Signal>,
    task: Mutex<Option<tokio::task::AbortHandle>>,
    /// The part of the record of the network that a caller has seen.
    network_mark: AtomicU64,
    /// The secrets to mask in that record.
    secrets: Secrets,
}

/// The stored output of a process, and its exit.
#[derive(Debug, Default)]
struct ProcessRecord {
    kept: VecDeque<Chunk>,
    kept_bytes: u64,
    /// The number of bytes that it ever wrote.
    written: u64,
    /// The exit of the process, once its effects were committed.
    exit: Option<ProcessExit>,
}

#[derive(Debug, Clone)]
struct ProcessExit {
    code: i32,
    words: String,
    duration: Duration,
}

/// The maskers for both streams of a process, which take secrets out of its output.
#[derive(Debug)]
pub(crate) struct MaskedStreams {
    stdout: Masker,
    stderr: Masker,
}

impl MaskedStreams {
    fn new(secrets: &Secrets) -> Self {
        Self {
            stdout: Masker::new(secrets),
            stderr: Masker::new(secrets),
        }
    }

    /// Takes the next chunk, and returns the masked output that may be shown now.
    pub(crate) fn mask_chunk(&mut self, chunk: &Chunk) -> Vec<u8> {
        match chunk.stream {
            OutputStream::Stdout => self.stdout.push(&chunk.bytes),
            OutputStream::Stderr => self.stderr.push(&chunk.bytes),
        }
    }

    /// Returns the output that was held back, when no more chunks come.
    fn finish(&mut self) -> [(OutputStream, Vec<u8>); 2] {
        [
            (OutputStream::Stdout, self.stdout.finish()),
            (OutputStream::Stderr, self.stderr.finish()),
        ]
    }
}

/// A process on the live layer, with its seat there.
#[derive(Debug)]
pub(crate) struct LiveProcess {
    /// The process.
    pub(crate) process: Box<dyn Process>,
    /// The maskers that take the secrets of its environment out of its output.
    pub(crate) streams: MaskedStreams,
    secrets: Secrets,
    /// The end of the record of the network before it was started.
    network_mark: u64,
    seat: LiveLayerSeat,
    /// Its place among the processes that may run at once.
    _room: OwnedSemaphorePermit,
}

impl LiveProcess {
    /// Ends the process and all processes that it started, and commits their effects.
    pub(in crate::shell) async fn end_and_report(self, taking: SettleRequest) -> Result<Option<SettleReport>> {
        // Dropping the handle kills the process tree. It must be dead before its effects are read for the last time.
        drop(self.process);
        self.seat.leave_and_report(taking).await
    }

    /// Ends the process and all processes that it started, and commits their effects. For a caller that does not wait
    /// for the result: effects that cannot be kept are noted for the next listing of the processes.
    pub(in crate::shell) async fn end_unreported(self, origin: Option<Origin>) {
        drop(self.process);
        self.seat.leave_unreported(origin).await;
    }

    /// Returns the layer that the process runs on.
    pub(in crate::shell) fn sandbox_layer(&self) -> &SandboxLayer {
        self.seat.sandbox_layer()
    }
}

impl PreparedCommand {
    /// Refuses an effects mode that a background process cannot have.
    pub(in crate::shell) fn check_background(&self) -> Result<()> {
        match self.effects {
            EffectsMode::Commit => Ok(()),
            EffectsMode::Discard | EffectsMode::Ask => Err(Error::new(
                ErrorKind::Unsupported,
                "background processes change the workspace while they run, so their changes can be neither discarded nor approved afterwards",
            )
            .hint("run the command in the foreground, or set `effects = \"commit\"`")),
        }
    }
}

impl Workspace {
    /// Starts a command in the background, and returns its id at once.
    pub async fn start(&self, request: RunRequest) -> Result<ProcessStatus> {
        let work = async {
            let commands = self.commands()?;
            let room = commands.shell.take_background_permit()?;
            let (prepared, timeout) = commands.prepare_background("start", request)?;
            commands.approve_command(&prepared).await?;
            let limits = Limits {
                wall: timeout,
                ..prepared.command.limits.clone()
            };
            let label = prepared.label.clone();
            let live = commands.spawn_on_live_layer(prepared, limits.clone(), room).await?;
            Ok(commands.shell.processes.add_process(&commands, live, label, limits))
        };
        self.run_observed("start", None, |_| 0, work).await
    }

    /// Returns the output of a process since the cursor of the last answer. Waits for new output if the request says
    /// so.
    pub async fn output(&self, request: OutputRequest) -> Result<ProcessOutput> {
        let work = async {
            let commands = self.commands()?;
            let entry = commands.shell.processes.find_process(&self.files.view, &request.id)?;
            // The output is returned even if the effects on the files cannot be committed.
            let settled = commands.shell.settle_live_layer(SettleRequest::default()).await;
            entry
                .wait_for_output(request.cursor, request.wait.min(LONGEST_WAIT))
                .await;
            let network_mark = entry
                .network_mark
                .swap(commands.shell.network.mark(), Ordering::Relaxed);
            let watch = &commands.shell.network;
            Ok(ProcessOutput {
                network: watch.take_record(network_mark, &commands.files, &entry.secrets),
                changed: commands.summarize_settled(settled.unwrap_or_default()),
                notices: commands.shell.live.take_notices(&self.files.view),
                ..entry.output_since(&request)
            })
        };
        self.run_observed(
            "output",
            None,
            |output: &ProcessOutput| output.output.len() as u64,
            work,
        )
        .await
    }

    /// Ends a process, or a named shell (`shell:NAME`), and all processes that it started. A process that has ended already stays as it is.
    pub async fn kill(&self, id: &str) -> Result<ProcessStatus> {
        let work = async {
            let commands = self.commands()?;
            if let Some(shell) = shell_of_process(id) {
                return commands.end_shell(shell).await;
            }
            let entry = commands.shell.processes.find_process(&self.files.view, id)?;
            entry.kill_and_wait().await;
            Ok(entry.status())
        };
        self.run_observed("kill", None, |_| 0, work).await
    }

    /// Returns the processes that run in the background, and the last of those that ended; also the named shells.
    pub async fn processes(&self) -> Result<ProcessList> {
        let work = async {
            let commands = self.commands()?;
            let mut processes = commands.shell.processes.visible_processes(&self.files.view);
            processes.extend(commands.shell.contexts.visible_shells(&self.files.view));
            Ok(ProcessList {
                processes,
                notices: commands.shell.live.take_notices(&self.files.view),
            })
        };
        self.run_observed("processes", None, |_| 0, work).await
    }
}

impl CommandAccess {
    /// Prepares a command for the background. Returns it with its time limit; `None` if the request names none.
    pub(in crate::shell) fn prepare_background(
        &self,
        operation: &'static str,
        request: RunRequest,
    ) -> Result<(PreparedCommand, Option<Duration>)> {
        if request.shell.is_some() || request.terminal.is_some() {
            return Err(
                Error::invalid("a background process has neither a named shell nor a terminal")
                    .hint("run the command in the foreground, or write `command &` in a named shell"),
            );
        }
        // The time limit of the policy holds for foreground commands, so the requested one must not be lowered to it.
        let timeout = request.timeout;
        let request = RunRequest {
            timeout: None,
            ..request
        };
        let prepared = self.prepare_command(operation, request)?;
        prepared.check_background()?;
        Ok((prepared, timeout))
    }

    /// Starts a process on the live layer of the workspace; without one, a live layer is laid. The process sees every
    /// later change of the files, and its own effects are committed while it runs.
    pub(in crate::shell) async fn spawn_on_live_layer(
        &self,
        prepared: PreparedCommand,
        limits: Limits,
        room: OwnedSemaphorePermit,
    ) -> Result<LiveProcess> {
        // Only the seat outlives this block: a background process must not keep the commands of this process waiting
        // for their turn.
        let seat = {
            let turn = self.shell.take_bench_turn(self, &prepared.label).await?;
            self.shell.catch_up().await?;
            self.shell
                .join_or_lay_live_layer(&self.files, &prepared.label, &turn)
                .await?
        };
        let command = SandboxCommand {
            limits,
            ..seat
                .sandbox_layer()
                .complete_command(&prepared.command, &self.files.view.base)
        };
        let network_mark = self.shell.network.mark();
        match seat.sandbox_layer().layer.start_process(command).await {
            Ok(process) => Ok(LiveProcess {
                process,
                streams: MaskedStreams::new(&prepared.secrets),
                secrets: prepared.hidden.clone(),
                network_mark,
                seat,
                _room: room,
            }),
            Err(error) => {
                seat.leave_and_report(SettleRequest::default()).await?;
                Err(error.map_text(|text| prepared.hidden.mask_text(text)))
            }
        }
    }
}

impl BackgroundProcesses {
    fn lock_table(&self) -> MutexGuard<'_, ProcessTable> {
        self.table.lock().expect("no holder panics")
    }

    fn all_processes(&self) -> Vec<Arc<BackgroundProcess>> {
        self.lock_table().entries.values().cloned().collect()
    }

    /// Returns the processes that this view may know of.
    fn visible_processes(&self, view: &WorkspaceView) -> Vec<ProcessStatus> {
        let known = self.all_processes().into_iter().filter(|entry| entry.is_known_to(view));
        known.map(|entry| entry.status()).collect()
    }

    /// Returns the process of this id; `not_found` if there is none, or if this view may not know of it.
    pub(super) fn find_process(&self, view: &WorkspaceView, id: &str) -> Result<Arc<BackgroundProcess>> {
        let number = id.strip_prefix('p').and_then(|digits| digits.parse().ok());
        let found = number.and_then(|number: u64| self.lock_table().entries.get(&number).cloned());
        found.filter(|entry| entry.is_known_to(view)).ok_or_else(|| {
            Error::new(ErrorKind::NotFound, format!("unknown process {}", quote(id)))
                .hint("`processes` lists all processes")
        })
    }

    fn add_process(
        &self,
        commands: &CommandAccess,
        live: LiveProcess,
        command: String,
        limits: Limits,
    ) -> ProcessStatus {
        let (signals, asked) = mpsc::unbounded_channel();
        let mut table = self.lock_table();
        table.next += 1;
        let number = table.next;
        let entry = Arc::new(BackgroundProcess {
            number,
            command,
            started: commands.files.context.clock.now(),
            guards: live.sandbox_layer().sandbox.guard_statuses().to_vec(),
            view: commands.files.view.clone(),
            ports: Arc::new(OpenedPorts::new(&live.sandbox_layer().sandbox)),
            record: Mutex::default(),
            changes: watch::Sender::new(()),
            signals,
            task: Mutex::default(),
            network_mark: AtomicU64::new(live.network_mark),
            secrets: live.secrets.clone(),
        });
        table.entries.insert(number, entry.clone());
        let over = table.entries.len().saturating_sub(REMEMBERED);
        let ended: Vec<u64> = table
            .entries
            .values()
            .filter(|one| !one.is_running())
            .map(|one| one.number)
            .take(over)
            .collect();
        ended.iter().for_each(|number| {
            table.entries.remove(number);
        });
        drop(table);
        let task = tokio::spawn(attend_process(entry.clone(), live, asked, limits));
        *entry.task.lock().expect("no holder panics") = Some(task.abort_handle());
        entry.status()
    }

    /// Ends every process at once, without waiting for them: aborting a task drops its process, which kills it.
    pub(in crate::shell) fn abort_all(&self) {
        for entry in self.all_processes() {
            if let Some(task) = entry.task.lock().expect("no holder panics").take() {
                task.abort();
            }
        }
    }

    /// Ends every process and waits until its effects are committed.
    pub(in crate::shell) async fn end_all(&self) {
        for entry in self.all_processes() {
            entry.kill_and_wait().await;
        }
    }
}

/// Describes how a process ended; one that a limit ended with the value of the limit and how to raise it.
fn describe_process_end(exit: &CommandExit, limits: &Limits) -> String {
    let words = describe_exit(exit);
    match (exit.limit, limits.wall) {
        // Only the call that started the process gives it a time limit.
        (Some(ResourceLimit::Wall), Some(wall)) => {
            format!("{words}: its start asked for at most {} s", wall.as_secs_f64())
        }
        (Some(limit), _) => match ReachedLimit::describe(limit, limits, CallTimeLimits::default()) {
            Some(reached) => format!("{words}: {}", reached.describe_advice(CallOptions::TOOL, None)),
            None => words,
        },
        (None, _) => words,
    }
}

/// Attends to a process until it ends: stores its output, and passes signals on to it.
async fn attend_process(
    entry: Arc<BackgroundProcess>,
    mut live: LiveProcess,
    mut asked: mpsc::UnboundedReceiver<Signal>,
    limits: Limits,
) {
    let most = limits.output;
    // Dropped with this task as well, if it is aborted.
    let ports = PortCloser(entry.ports.clone());
    loop {
        tokio::select! {
            chunk = live.process.next_output() => match chunk {
                Some(chunk) => entry.record_output(chunk.stream, live.streams.mask_chunk(&chunk), most),
                None => break,
            },
            Some(signal) = asked.recv() => {
                // A process that cannot be signalled has ended; then its output ends, too, and the loop with it.
                let _ = live.process.send_signal(signal).await;
            }
        }
    }
    for (stream, bytes) in live.streams.finish() {
        entry.record_output(stream, bytes, most);
    }
    let exit = live.process.wait().await;
    ports.close().await;
    live.end_unreported(None).await;
    // Recorded last: a caller that sees the exit must find the effects of the process in the files, and its ports
    // closed.
    entry.record_exit(&exit, &limits);
}

impl BackgroundProcess {
    fn lock_record(&self) -> MutexGuard<'_, ProcessRecord> {
        self.record.lock().expect("no holder panics")
    }

    fn is_running(&self) -> bool {
        self.lock_record().exit.is_none()
    }

    /// Whether a view may know of the process: the view that started it, and the views that this one was narrowed from.
    fn is_known_to(&self, view: &WorkspaceView) -> bool {
        let is_narrower = view.layers.len() < self.view.layers.len();
        view.encloses(&self.view) && (is_narrower || view.env == self.view.env)
    }

    fn record_output(&self, stream: OutputStream, bytes: Vec<u8>, most: u64) {
        if !bytes.is_empty() {
            let bytes = bytes.into();
            self.lock_record().push_output(Chunk { stream, bytes }, most);
            self.changes.send_replace(());
        }
    }

    fn record_exit(&self, exit: &Result<CommandExit>, limits: &Limits) {
        self.lock_record().exit = Some(match exit {
            Ok(exit) => ProcessExit {
                code: exit.ended.exit_code(),
                words: describe_process_end(exit, limits),
                duration: exit.duration,
            },
            Err(error) => ProcessExit {
                code: 255,
                words: error.message().to_owned(),
                duration: Duration::ZERO,
            },
        });
        self.changes.send_replace(());
    }

    /// Kills the process, and waits until its effects are committed.
    async fn kill_and_wait(&self) {
        let mut changes = self.changes.subscribe();
        let _ = self.signals.send(Signal::Kill);
        let task = self.task.lock().expect("no holder panics").clone();
        // An aborted task never records an exit, so the task is looked at now and then as well.
        while self.is_running() && !task.as_ref().is_none_or(tokio::task::AbortHandle::is_finished) {
            let _ = tokio::time::timeout(Duration::from_millis(100), changes.changed()).await;
        }
    }

    async fn wait_for_output(&self, cursor: u64, wait: Duration) {
        let mut changes = self.changes.subscribe();
        let news = async { while !self.has_new_output(cursor) && changes.changed().await.is_ok() {} };
        let _ = tokio::time::timeout(wait, news).await;
    }

    fn has_new_output(&self, cursor: u64) -> bool {
        let record = self.lock_record();
        record.written > cursor || record.exit.is_some()
    }

    fn output_since(&self, request: &OutputRequest) -> ProcessOutput {
        let (cursor, most) = (request.cursor, request.max_bytes);
        let (head, from, written, tail) = self.lock_record().head_and_tail(cursor, most, request.with_tail);
        let head = cut_partial_character(head);
        let next = from + head.len();
        let output = head.to_text();
        ProcessOutput {
            process: self.status(),
            details: request.with_details.then(|| RunDetails {
                output: output.clone(),
                guards: self.guards.clone(),
            }),
            output,
            tail: tail.map(|tail| String::from_utf8_lossy(trim_partial_start(&tail.merged)).into_owned()),
            stdout: head.stream_content(OutputStream::Stdout),
            stderr: head.stream_content(OutputStream::Stderr),
            cursor: next,
            lost_bytes: from.saturating_sub(cursor),
            has_more: next < written,
            written,
            network: None,
            changed: CommandChanges::default(),
            notices: Vec::new(),
        }
    }

    fn status(&self) -> ProcessStatus {
        let exit = self.lock_record().exit.clone();
        ProcessStatus {
            id: format!("p{}", self.number),
            command: command_label::printable_label(&self.command),
            at: self.started,
            running: exit.is_none(),
            exit_code: exit.as_ref().map(|exit| exit.code),
            ended: exit.as_ref().map(|exit| exit.words.clone()),
            duration_ms: exit.as_ref().map(|exit| duration_millis(exit.duration)),
            isolated: is_isolated(&self.guards),
            not_enforced: unenforced_guards(&self.guards),
            ports: self.ports.list(),
        }
    }
}

/// A part of the output of a process.
#[derive(Debug, Default, PartialEq, Eq)]
struct OutputPart {
    /// The bytes of both streams, in the order in which they came.
    merged: Vec<u8>,
    /// The streams that the bytes belong to, each with a number of bytes, in the same order.
    runs: Vec<(OutputStream, usize)>,
}

impl OutputPart {
    fn len(&self) -> u64 {
        self.merged.len() as u64
    }

    fn to_text(&self) -> String {
        String::from_utf8_lossy(&self.merged).into_owned()
    }

    /// Returns the bytes of one stream.
    fn stream_content(&self, stream: OutputStream) -> StreamContent {
        let (mut rest, mut head) = (self.merged.as_slice(), Vec::new());
        for (owner, length) in &self.runs {
            let (run, after) = rest.split_at((*length).min(rest.len()));
            rest = after;
            if *owner == stream {
                head.extend_from_slice(run);
            }
        }
        StreamContent::from(CapturedStream {
            head,
            ..CapturedStream::default()
        })
    }
}

impl ProcessRecord {
    fn push_output(&mut self, chunk: Chunk, most: u64) {
        self.written += chunk.bytes.len() as u64;
        self.kept_bytes += chunk.bytes.len() as u64;
        self.kept.push_back(chunk);
        while self.kept_bytes > most
            && let Some(first) = self.kept.front_mut()
        {
            let over = (self.kept_bytes - most).min(first.bytes.len() as u64);
            self.kept_bytes -= over;
            let _ = first
                .bytes
                .split_to(usize::try_from(over).expect("no longer than a chunk"));
            if first.bytes.is_empty() {
                self.kept.pop_front();
            }
        }
    }

    /// Returns the output of [`Self::output_from`]. If that is not all of it and `with_tail` is set, returns half of
    /// `most` bytes from the cursor on, and the other half from the end.
    fn head_and_tail(&self, cursor: u64, most: usize, with_tail: bool) -> (OutputPart, u64, u64, Option<OutputPart>) {
        let (mut head, from, written) = self.output_from(cursor, most);
        if !with_tail || from + head.len() >= written {
            return (head, from, written, None);
        }
        let tail_room = most / 2;
        head.merged.truncate(most - tail_room);
        let (tail, ..) = self.output_from(written - tail_room as u64, tail_room);
        (head, from, written, Some(tail))
    }

    /// Returns the stored output from `cursor` on, the position of its first byte, and the number of bytes that were
    /// ever written.
    fn output_from(&self, cursor: u64, most: usize) -> (OutputPart, u64, u64) {
        let first = self.written - self.kept_bytes;
        let from = cursor.clamp(first, self.written);
        let mut skip = from - first;
        let mut part = OutputPart::default();
        for chunk in &self.kept {
            let length = chunk.bytes.len() as u64;
            if skip >= length {
                skip -= length;
                continue;
            }
            let rest = &chunk.bytes[usize::try_from(skip).expect("less than a chunk")..];
            skip = 0;
            let rest = &rest[..rest.len().min(most - part.merged.len())];
            part.merged.extend_from_slice(rest);
            part.runs.push((chunk.stream, rest.len()));
            if part.merged.len() == most {
                break;
            }
        }
        (part, from, self.written)
    }
}

/// Leaves out a character that is cut at the end. The next answer has the whole character.
fn cut_partial_character(mut part: OutputPart) -> OutputPart {
    // A lone half of a character is returned all the same: otherwise the cursor would never move past it.
    if let Err(error) = std::str::from_utf8(&part.merged)
        && error.error_len().is_none()
        && error.valid_up_to() > 0
    {
        part.merged.truncate(error.valid_up_to());
    }
    part
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn record(chunks: &[&'static str], most: u64) -> ProcessRecord {
        let mut record = ProcessRecord::default();
        chunks.iter().for_each(|chunk| {
            let bytes = Bytes::from_static(chunk.as_bytes());
            let stream = OutputStream::Stdout;
            record.push_output(Chunk { stream, bytes }, most);
        });
        record
    }

    fn told(record: &ProcessRecord, cursor: u64, most: usize) -> (String, u64, u64) {
        let (part, from, written) = record.output_from(cursor, most);
        (part.to_text(), from, written)
    }

    #[test]
    fn a_cursor_gives_what_came_since() {
        let record = record(&["hello ", "world"], 100);
        assert_eq!(told(&record, 0, 100), ("hello world".into(), 0, 11));
        assert_eq!(told(&record, 6, 100), ("world".into(), 6, 11));
        assert_eq!(told(&record, 11, 100), (String::new(), 11, 11));
        assert_eq!(told(&record, 3, 5), ("lo wo".into(), 3, 11));
        assert_eq!(told(&record, 99, 5), (String::new(), 11, 11));
    }

    #[test]
    fn much_output_is_its_head_and_its_tail() {
        let record = record(&["hello ", "world"], 100);
        let told = |most, with_tail| {
            let (head, _, _, tail) = record.head_and_tail(0, most, with_tail);
            (head.to_text(), tail.map(|tail| tail.to_text()))
        };
        assert_eq!(told(4, true), ("he".into(), Some("ld".into())));
        assert_eq!(told(4, false), ("hell".into(), None));
        assert_eq!(told(11, true), ("hello world".into(), None));
        assert_eq!(trim_partial_start("é!".as_bytes().split_at(1).1), b"!");
    }

    #[test]
    fn each_stream_has_its_own_bytes() {
        let mut record = record(&["out ", "more"], 100);
        record.kept[1].stream = OutputStream::Stderr;
        let (mut part, ..) = record.output_from(1, 100);
        let stream = |part: &OutputPart, stream| String::from_utf8(part.stream_content(stream).0.to_vec()).unwrap();
        assert_eq!(stream(&part, OutputStream::Stdout), "ut ");
        assert_eq!(stream(&part, OutputStream::Stderr), "more");
        part.merged.truncate(5);
        assert_eq!(stream(&part, OutputStream::Stderr), "mo");
    }

    #[test]
    fn the_oldest_output_goes_first_and_its_loss_shows() {
        let record = record(&["aaaa", "bbbb", "cccc"], 6);
        assert_eq!(told(&record, 0, 100), ("bbcccc".into(), 6, 12));
    }

    #[test]
    fn a_character_that_is_cut_waits_for_its_rest() {
        let cut = |bytes: &[u8]| {
            let part = OutputPart {
                merged: bytes.to_vec(),
                runs: Vec::new(),
            };
            cut_partial_character(part).merged
        };
        assert_eq!(cut(b"a\xc3"), b"a");
        assert_eq!(cut(b"\xff"), b"\xff");
    }
}
