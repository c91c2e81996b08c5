//! The task behind a code context: it answers one call after the other, until the context ends.
//!
//! The task owns the process of the context. Between calls it stores the output of the process, notices when the
//! process dies, and ends it when it was not used for too long. After each call the effects of all background processes
//! are committed.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use garret_core::{Chunk, CommandExit, CommandOutput, Origin, OutputCollector, Process, Result, Signal};
use tokio::sync::{mpsc, oneshot, watch};

use super::contexts::{CodeContext, ContextState};
use super::outcome::CodeOutcome;
use super::output_mark::DriverStreams;
use crate::CommandChanges;
use crate::shell::command_access::CommandAccess;
use crate::shell::interpreter::{InterpreterProcess, code_label, describe_exit};

/// The longest wait for the end of a process that was killed.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// A piece of code for a driver.
#[derive(Debug)]
pub(super) struct CodePiece {
    /// The line that the driver reads.
    pub(super) line: Bytes,
    /// The word of its mark.
    pub(super) word: String,
    pub(super) timeout: Option<Duration>,
    /// The most bytes of output that are stored, if the caller wants fewer than the policy allows.
    pub(super) most: Option<u64>,
}

/// A call to a context: a piece of code, and the channel for its answer.
#[derive(Debug)]
pub(super) struct ContextCall {
    /// The operation that it is part of.
    pub(super) operation: &'static str,
    pub(super) piece: CodePiece,
    /// The label for the journal; secrets are not masked in it yet.
    pub(super) label: String,
    pub(super) commands: CommandAccess,
    pub(super) reply: oneshot::Sender<Result<ContextAnswer>>,
}

/// The answer to a call.
#[derive(Debug)]
pub(super) struct ContextAnswer {
    pub(super) heard: CodePieceReport,
    pub(super) took: Duration,
    pub(super) changed: CommandChanges,
}

/// The report on a piece of code: its outcome, its output, and the end of the context.
#[derive(Debug)]
pub(super) struct CodePieceReport {
    pub(super) outcome: CodeOutcome,
    pub(super) output: CommandOutput,
    /// The end of the context, if the context ended during the piece.
    pub(super) death: Option<ContextEnd>,
}

/// The end of a context.
#[derive(Debug, Clone)]
pub(super) struct ContextEnd {
    /// The reason, in words.
    pub(super) how: String,
    /// The exit of its process, if it is known.
    pub(super) exit: Option<CommandExit>,
    pub(super) timed_out: bool,
}

/// The reason why listening to a piece ended.
enum ListenEnd {
    Marked,
    Died,
    TimedOut(Duration),
    Stopped(String),
}

/// The task that serves a context.
#[derive(Debug)]
pub(super) struct ContextWorker {
    driven: InterpreterProcess,
    /// The output since the last call.
    pending: PendingOutput,
    /// The origin of changes that are made between calls.
    origin: Origin,
}

impl ContextWorker {
    pub(super) fn new(driven: InterpreterProcess, origin: Origin) -> Self {
        Self {
            driven,
            pending: PendingOutput::default(),
            origin,
        }
    }

    pub(super) fn interpreter_process(&self) -> &InterpreterProcess {
        &self.driven
    }

    /// Runs a piece of code. If `stop` resolves before the piece ends, the context is ended with that reason.
    pub(super) async fn run_piece(&mut self, piece: CodePiece, stop: impl Future<Output = String>) -> CodePieceReport {
        let mut marked = DriverStreams::new(&piece.word);
        let most = piece.most.unwrap_or(u64::MAX).min(self.driven.output_limit());
        let mut collector = OutputCollector::new(most, self.driven.secrets());
        std::mem::take(&mut self.pending).hand_over(&mut collector);
        let listening = listen_to_piece(self.driven.process(), piece.line, &mut marked, &mut collector);
        let over = tokio::select! {
            over = listen_with_timeout(piece.timeout, listening) => over,
            why = stop => ListenEnd::Stopped(why),
        };
        let death = match over {
            ListenEnd::Marked => None,
            over => {
                let death = self
                    .end_process(over, |chunk| collect_chunk(marked.push(chunk), &mut collector))
                    .await;
                marked
                    .finish()
                    .for_each(|chunk| collect_chunk(Some(chunk), &mut collector));
                Some(death)
            }
        };
        let told = marked.driver_report();
        CodePieceReport {
            outcome: told.map_or_else(CodeOutcome::default, |told| {
                CodeOutcome::parse_report(told, self.driven.secrets())
            }),
            output: collector.finish().1,
            death,
        }
    }

    /// Ends the process, hands its last output to `hear`, and returns the end of the context.
    async fn end_process(&mut self, over: ListenEnd, mut hear: impl FnMut(&Chunk)) -> ContextEnd {
        let process = self.driven.process();
        if !matches!(over, ListenEnd::Died) {
            // A process that cannot be signalled has ended already.
            let _ = process.send_signal(Signal::Kill).await;
        }
        let hearing = async {
            while let Some(chunk) = process.next_output().await {
                hear(&chunk);
            }
            process.wait().await.ok()
        };
        // Bounded: a process in an uninterruptible system call outlives its kill, and the caller must get an answer.
        let exit = tokio::time::timeout(LAST_WORDS, hearing).await.ok().flatten();
        ContextEnd {
            timed_out: matches!(over, ListenEnd::TimedOut(_)),
            how: describe_end(over, exit.as_ref()),
            exit,
        }
    }

    /// Serves the calls to the context until it ends.
    pub(super) async fn serve_calls(
        mut self,
        entry: Arc<CodeContext>,
        mut calls: mpsc::UnboundedReceiver<ContextCall>,
        idle: Duration,
    ) {
        let mut life = entry.life.subscribe();
        let mut unused = Box::pin(tokio::time::sleep(idle));
        loop {
            let over = tokio::select! {
                biased;
                why = wait_for_end_request(&mut life) => ListenEnd::Stopped(why),
                call = calls.recv() => match call {
                    Some(call) => match self.answer_call(&entry, call, &mut life).await {
                        Some(attendant) => {
                            self = attendant;
                            unused = Box::pin(tokio::time::sleep(idle));
                            continue;
                        }
                        None => return,
                    },
                    None => ListenEnd::Stopped("its workspace is no longer open".to_owned()),
                },
                chunk = self.driven.process().next_output() => match chunk {
                    Some(chunk) => {
                        self.pending.push_chunk(chunk, self.driven.output_limit());
                        continue;
                    }
                    None => ListenEnd::Died,
                },
                () = &mut unused => ListenEnd::Stopped(format!("it was not used for {} s", idle.as_secs_f64())),
            };
            let death = self.end_process(over, |_| {}).await;
            // Shown as ended at once, but `Done` only when its effects are committed: a caller that deletes the context
            // waits for that.
            entry.life.send_replace(ContextState::Ended(death.how.clone()));
            self.driven.end_unreported(self.origin).await;
            entry.life.send_replace(ContextState::Done(death.how));
            return;
        }
    }

    /// Answers a call. Returns `None` if the context ended during the call.
    async fn answer_call(
        mut self,
        entry: &CodeContext,
        mut call: ContextCall,
        life: &mut watch::Receiver<ContextState>,
    ) -> Option<Self> {
        entry.calls.fetch_add(1, Ordering::Relaxed);
        let clock = call.commands.files.context.clock.clone();
        let begun = clock.elapsed();
        let stop = async {
            tokio::select! {
                why = wait_for_end_request(life) => why,
                () = call.reply.closed() => "a call was cancelled while its code ran".to_owned(),
            }
        };
        let heard = self.run_piece(call.piece, stop).await;
        let took = clock.elapsed().saturating_sub(begun);
        let label = code_label(&call.label, self.driven.secrets());
        let words = heard
            .death
            .as_ref()
            .map_or_else(|| heard.outcome.short_description(), |death| death.how.clone());
        let origin = call.commands.ended_origin(call.operation, &label, &words, took);
        let (left, changed) = match &heard.death {
            None => (Some(self), call.commands.commit_live_effects(origin).await),
            Some(death) => {
                entry.life.send_replace(ContextState::Ended(death.how.clone()));
                // Without a caller, a refusal of the effects must be noted, or nobody would learn of it.
                let changed = if call.reply.is_closed() {
                    self.driven.end_unreported(origin).await;
                    Ok(CommandChanges::default())
                } else {
                    self.driven.end_and_report(origin, &call.commands).await
                };
                entry.life.send_replace(ContextState::Done(death.how.clone()));
                (None, changed)
            }
        };
        let answered = changed.map(|changed| ContextAnswer { heard, took, changed });
        // A caller that was cancelled needs no answer.
        let _ = call.reply.send(answered);
        left
    }
}

/// The last output of a process between two calls. The next call returns it.
#[derive(Debug, Default)]
struct PendingOutput {
    chunks: VecDeque<Chunk>,
    bytes: u64,
}

impl PendingOutput {
    fn push_chunk(&mut self, chunk: Chunk, most: u64) {
        self.bytes += chunk.bytes.len() as u64;
        self.chunks.push_back(chunk);
        while self.bytes > most
            && let Some(oldest) = self.chunks.pop_front()
        {
            self.bytes -= oldest.bytes.len() as u64;
        }
    }

    fn hand_over(self, collector: &mut OutputCollector) {
        self.chunks
            .into_iter()
            .for_each(|chunk| collect_chunk(Some(chunk), collector));
    }
}

fn collect_chunk(chunk: Option<Chunk>, collector: &mut OutputCollector) {
    if let Some(chunk) = chunk {
        collector.push_chunk(&chunk);
    }
}

/// Hands a piece to the driver, and collects its output until the marks on both streams came.
async fn listen_to_piece(
    process: &mut dyn Process,
    line: Bytes,
    marked: &mut DriverStreams,
    collector: &mut OutputCollector,
) -> ListenEnd {
    if process.write_stdin(line).await.is_err() {
        return ListenEnd::Died;
    }
    while !marked.is_ended() {
        match process.next_output().await {
            Some(chunk) => collect_chunk(marked.push(&chunk), collector),
            None => return ListenEnd::Died,
        }
    }
    ListenEnd::Marked
}

async fn listen_with_timeout(timeout: Option<Duration>, listening: impl Future<Output = ListenEnd>) -> ListenEnd {
    match timeout {
        None => listening.await,
        Some(timeout) => tokio::time::timeout(timeout, listening)
            .await
            .unwrap_or(ListenEnd::TimedOut(timeout)),
    }
}

/// Waits until the end of the context is requested, and returns the reason.
async fn wait_for_end_request(life: &mut watch::Receiver<ContextState>) -> String {
    let ending = life.wait_for(|life| !matches!(life, ContextState::Running)).await;
    match ending.as_deref() {
        Ok(ContextState::Ending(why)) => why.clone(),
        _ => "its workspace is no longer open".to_owned(),
    }
}

fn describe_end(over: ListenEnd, exit: Option<&CommandExit>) -> String {
    match over {
        ListenEnd::TimedOut(timeout) => format!("its code took longer than {} s", timeout.as_secs_f64()),
        ListenEnd::Stopped(why) => why,
        ListenEnd::Died | ListenEnd::Marked => exit.map_or_else(|| "its process ended".to_owned(), describe_exit),
    }
}
