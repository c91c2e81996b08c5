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
use garret_core::{Chunk, Exit, Origin, Output, OutputCollector, Process, Result, Signal};
use tokio::sync::{mpsc, oneshot, watch};

use super::contexts::{Entry, Life};
use super::mark::Marked;
use super::outcome::Outcome;
use crate::shell::driven::{DrivenProcess, driven_label, ended};
use crate::{Changed, Workspace};

/// The longest wait for the end of a process that was killed.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// A piece of code for a driver.
#[derive(Debug)]
pub(super) struct Piece {
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
pub(super) struct Call {
    pub(super) piece: Piece,
    /// The label for the journal; secrets are not masked in it yet.
    pub(super) label: String,
    pub(super) view: Workspace,
    pub(super) reply: oneshot::Sender<Result<Answered>>,
}

/// The answer to a call.
#[derive(Debug)]
pub(super) struct Answered {
    pub(super) heard: Heard,
    pub(super) took: Duration,
    pub(super) changed: Changed,
}

/// The report on a piece of code: its outcome, its output, and the end of the context.
#[derive(Debug)]
pub(super) struct Heard {
    pub(super) outcome: Outcome,
    pub(super) output: Output,
    /// The end of the context, if the context ended during the piece.
    pub(super) death: Option<Death>,
}

/// The end of a context.
#[derive(Debug, Clone)]
pub(super) struct Death {
    /// The reason, in words.
    pub(super) how: String,
    /// The exit of its process, if it is known.
    pub(super) exit: Option<Exit>,
    pub(super) timed_out: bool,
}

/// The reason why listening to a piece ended.
enum Over {
    Marked,
    Died,
    TimedOut(Duration),
    Stopped(String),
}

/// The task that serves a context.
#[derive(Debug)]
pub(super) struct Attendant {
    driven: DrivenProcess,
    /// The output since the last call.
    pending: Pending,
    /// The origin of changes that are made between calls.
    origin: Origin,
}

impl Attendant {
    pub(super) fn new(driven: DrivenProcess, origin: Origin) -> Self {
        Self {
            driven,
            pending: Pending::default(),
            origin,
        }
    }

    pub(super) fn driven(&self) -> &DrivenProcess {
        &self.driven
    }

    /// Runs a piece of code. If `stop` resolves before the piece ends, the context is ended with that reason.
    pub(super) async fn run(&mut self, piece: Piece, stop: impl Future<Output = String>) -> Heard {
        let mut marked = Marked::new(&piece.word);
        let most = piece.most.unwrap_or(u64::MAX).min(self.driven.most());
        let mut collector = OutputCollector::new(most, self.driven.secrets());
        std::mem::take(&mut self.pending).hand_over(&mut collector);
        let listening = listen(self.driven.process(), piece.line, &mut marked, &mut collector);
        let over = tokio::select! {
            over = within(piece.timeout, listening) => over,
            why = stop => Over::Stopped(why),
        };
        let death = match over {
            Over::Marked => None,
            over => {
                let death = self.bury(over, |chunk| keep(marked.push(chunk), &mut collector)).await;
                marked.finish().for_each(|chunk| keep(Some(chunk), &mut collector));
                Some(death)
            }
        };
        let told = marked.told();
        Heard {
            outcome: told.map_or_else(Outcome::default, |told| Outcome::read(told, self.driven.secrets())),
            output: collector.finish().1,
            death,
        }
    }

    /// Ends the process, hands its last output to `hear`, and returns the end of the context.
    async fn bury(&mut self, over: Over, mut hear: impl FnMut(&Chunk)) -> Death {
        let process = self.driven.process();
        if !matches!(over, Over::Died) {
            // A process that cannot be signalled has ended already.
            let _ = process.signal(Signal::Kill).await;
        }
        let hearing = async {
            while let Some(chunk) = process.output().await {
                hear(&chunk);
            }
            process.wait().await.ok()
        };
        // Bounded: a process in an uninterruptible system call outlives its kill, and the caller must get an answer.
        let exit = tokio::time::timeout(LAST_WORDS, hearing).await.ok().flatten();
        Death {
            timed_out: matches!(over, Over::TimedOut(_)),
            how: how(over, exit.as_ref()),
            exit,
        }
    }

    /// Serves the calls to the context until it ends.
    pub(super) async fn attend(mut self, entry: Arc<Entry>, mut calls: mpsc::UnboundedReceiver<Call>, idle: Duration) {
        let mut life = entry.life.subscribe();
        let mut unused = Box::pin(tokio::time::sleep(idle));
        loop {
            let over = tokio::select! {
                biased;
                why = asked_to_end(&mut life) => Over::Stopped(why),
                call = calls.recv() => match call {
                    Some(call) => match self.answer(&entry, call, &mut life).await {
                        Some(attendant) => {
                            self = attendant;
                            unused = Box::pin(tokio::time::sleep(idle));
                            continue;
                        }
                        None => return,
                    },
                    None => Over::Stopped("its workspace is no longer open".to_owned()),
                },
                chunk = self.driven.process().output() => match chunk {
                    Some(chunk) => {
                        self.pending.push(chunk, self.driven.most());
                        continue;
                    }
                    None => Over::Died,
                },
                () = &mut unused => Over::Stopped(format!("it was not used for {} s", idle.as_secs_f64())),
            };
            let death = self.bury(over, |_| {}).await;
            // Shown as ended at once, but `Done` only when its effects are committed: a caller that deletes the context
            // waits for that.
            entry.life.send_replace(Life::Ended(death.how.clone()));
            self.driven.end_untold(self.origin).await;
            entry.life.send_replace(Life::Done(death.how));
            return;
        }
    }

    /// Answers a call. Returns `None` if the context ended during the call.
    async fn answer(mut self, entry: &Entry, mut call: Call, life: &mut watch::Receiver<Life>) -> Option<Self> {
        entry.calls.fetch_add(1, Ordering::Relaxed);
        let clock = call.view.shared.clock.clone();
        let begun = clock.elapsed();
        let stop = async {
            tokio::select! {
                why = asked_to_end(life) => why,
                () = call.reply.closed() => "a call was cancelled while its code ran".to_owned(),
            }
        };
        let heard = self.run(call.piece, stop).await;
        let took = clock.elapsed().saturating_sub(begun);
        let label = driven_label(&call.label, self.driven.secrets());
        let words = heard
            .death
            .as_ref()
            .map_or_else(|| heard.outcome.words(), |death| death.how.clone());
        let origin = call.view.driven_origin("run_in_code_context", &label, &words, took);
        let (left, changed) = match &heard.death {
            None => (Some(self), call.view.checkpoint(origin).await),
            Some(death) => {
                entry.life.send_replace(Life::Ended(death.how.clone()));
                // Without a caller, a refusal of the effects must be noted, or nobody would learn of it.
                let changed = if call.reply.is_closed() {
                    self.driven.end_untold(origin).await;
                    Ok(Changed::default())
                } else {
                    self.driven.end(origin, &call.view).await
                };
                entry.life.send_replace(Life::Done(death.how.clone()));
                (None, changed)
            }
        };
        let answered = changed.map(|changed| Answered { heard, took, changed });
        // A caller that was cancelled needs no answer.
        let _ = call.reply.send(answered);
        left
    }
}

/// The last output of a process between two calls. The next call returns it.
#[derive(Debug, Default)]
struct Pending {
    chunks: VecDeque<Chunk>,
    bytes: u64,
}

impl Pending {
    fn push(&mut self, chunk: Chunk, most: u64) {
        self.bytes += chunk.bytes.len() as u64;
        self.chunks.push_back(chunk);
        while self.bytes > most
            && let Some(oldest) = self.chunks.pop_front()
        {
            self.bytes -= oldest.bytes.len() as u64;
        }
    }

    fn hand_over(self, collector: &mut OutputCollector) {
        self.chunks.into_iter().for_each(|chunk| keep(Some(chunk), collector));
    }
}

fn keep(chunk: Option<Chunk>, collector: &mut OutputCollector) {
    if let Some(chunk) = chunk {
        collector.push(&chunk);
    }
}

/// Hands a piece to the driver, and collects its output until the marks on both streams came.
async fn listen(process: &mut dyn Process, line: Bytes, marked: &mut Marked, collector: &mut OutputCollector) -> Over {
    if process.write(line).await.is_err() {
        return Over::Died;
    }
    while !marked.is_ended() {
        match process.output().await {
            Some(chunk) => keep(marked.push(&chunk), collector),
            None => return Over::Died,
        }
    }
    Over::Marked
}

async fn within(timeout: Option<Duration>, listening: impl Future<Output = Over>) -> Over {
    match timeout {
        None => listening.await,
        Some(timeout) => tokio::time::timeout(timeout, listening)
            .await
            .unwrap_or(Over::TimedOut(timeout)),
    }
}

/// Waits until the end of the context is requested, and returns the reason.
async fn asked_to_end(life: &mut watch::Receiver<Life>) -> String {
    let ending = life.wait_for(|life| !matches!(life, Life::Running)).await;
    match ending.as_deref() {
        Ok(Life::Ending(why)) => why.clone(),
        _ => "its workspace is no longer open".to_owned(),
    }
}

fn how(over: Over, exit: Option<&Exit>) -> String {
    match over {
        Over::TimedOut(timeout) => format!("its code took longer than {} s", timeout.as_secs_f64()),
        Over::Stopped(why) => why,
        Over::Died | Over::Marked => exit.map_or_else(|| "its process ended".to_owned(), ended),
    }
}
