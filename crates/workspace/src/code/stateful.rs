//! The operations on code contexts, which keep variables, imports and the directory from one piece of code to the next.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use garret_core::{Ended, Error, ErrorKind, Language, Limit, Result};
use tokio::sync::{mpsc, oneshot, watch};

use super::attend::{Answered, Attendant, Call, Heard, Piece};
use super::contexts::{Entry, Life, id};
use super::{CodeResult, ContextRequest, ContextShown, PieceRequest, driver};
use crate::shell::driven::{Driven, lowered, millis};
use crate::{RunRequest, Workspace};

/// The time that an interpreter has to get ready.
const START: Duration = Duration::from_secs(60);
/// The exit code of a shell that does not find a program.
const NO_PROGRAM: i32 = 127;

impl Workspace {
    /// Makes a context and waits until its interpreter is ready. The context lives until it is deleted, ends by itself,
    /// stays unused longer than the policy allows, or the workspace is closed. A language whose interpreter is missing
    /// is `unsupported`.
    pub async fn create_code_context(&self, request: ContextRequest) -> Result<ContextShown> {
        self.observe("create_code_context", None, |_| 0, self.create_context(request))
            .await
    }

    /// Runs a piece of code in a context. Pieces that are requested at the same time run one after the other. The
    /// effects of the context and of all other background processes so far become one change. At the time limit, or
    /// when the future is dropped while the code runs, the context ends.
    pub async fn run_in_code_context(&self, request: PieceRequest) -> Result<CodeResult> {
        let bytes = |result: &CodeResult| (result.stdout.0.len() + result.stderr.0.len()) as u64;
        self.observe("run_in_code_context", None, bytes, self.run_in_context(request))
            .await
    }

    /// Ends a context and all processes that it started. A context that has ended already stays as it is.
    pub async fn delete_code_context(&self, context: &str) -> Result<ContextShown> {
        let work = async {
            self.context_rules()?;
            let entry = self.workshop()?.contexts.find(self, context)?;
            self.approve("delete_code_context", &[]).await?;
            entry.end("it was deleted").await;
            Ok(entry.shown())
        };
        self.observe("delete_code_context", None, |_| 0, work).await
    }

    /// Returns the contexts that run, and the last of those that ended.
    pub async fn code_contexts(&self) -> Result<Vec<ContextShown>> {
        let work = async {
            self.context_rules()?;
            Ok(self.workshop()?.contexts.shown(self))
        };
        self.observe("code_contexts", None, |_| 0, work).await
    }

    async fn create_context(&self, request: ContextRequest) -> Result<ContextShown> {
        let language = request.language;
        let idle = self.context_rules()?.idle;
        self.check_language(language)?;
        let contexts = &self.workshop()?.contexts;
        let number = contexts.next();
        let attendant = self.start_context(&request, number).await?;
        let (inbox, calls) = mpsc::unbounded_channel();
        let entry = Arc::new(Entry {
            number,
            language,
            created: self.shared.clock.now(),
            secrets: attendant.driven().secrets().clone(),
            surroundings: attendant.driven().surroundings(),
            view: self.view.clone(),
            calls: AtomicU64::new(0),
            inbox,
            life: watch::Sender::new(Life::Running),
            task: Mutex::default(),
        });
        let task = tokio::spawn(attendant.attend(entry.clone(), calls, idle));
        *entry.task.lock().expect("no holder panics") = Some(task.abort_handle());
        contexts.add(entry.clone());
        Ok(entry.shown())
    }

    /// Starts the interpreter of a context, and waits until it is ready.
    async fn start_context(&self, request: &ContextRequest, number: u64) -> Result<Attendant> {
        let language = request.language;
        let label = format!("{} context {}", language.as_str(), id(number));
        let driven = Driven {
            operation: "create_code_context",
            request: RunRequest {
                cwd: request.cwd.clone(),
                env: request.env.clone(),
                ..RunRequest::of(driver::program(language))
            },
            judged: Some(driver::started(language)),
            label: label.clone(),
        };
        let driven = match self.start_driven(driven).await {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Err(self.unless_missing(language, error).await);
            }
            driven => driven?,
        };
        let mut attendant = Attendant::new(driven, self.origin("create_code_context", label));
        // A driver that has run an empty piece is ready, and an interpreter that cannot start fails here and not in the
        // first call.
        let piece = self.code_piece(language, "", Some(START))?;
        let heard = attendant.run(piece, std::future::pending()).await;
        match heard.death {
            None => Ok(attendant),
            Some(_) => Err(self.stillborn(language, heard).await),
        }
    }

    /// Returns the error of an interpreter that ended before it was ready.
    async fn stillborn(&self, language: Language, heard: Heard) -> Error {
        let exit = heard.death.as_ref().and_then(|death| death.exit.as_ref());
        let error = Error::new(
            ErrorKind::Unavailable,
            format!(
                "`{}` ended before it was ready ({}): {}",
                driver::interpreter(language),
                heard.death.as_ref().map_or("", |death| &death.how),
                heard.output.both.text().trim()
            ),
        )
        .hint("check whether the limits are too low: it needs memory, processes and open files to start");
        match exit.map(|exit| exit.ended) {
            Some(Ended::Exited(NO_PROGRAM)) => self.unless_missing(language, error).await,
            _ => error,
        }
    }

    fn code_piece(&self, language: Language, code: &str, timeout: Option<Duration>) -> Result<Piece> {
        let word = self.shared.ids.next();
        Ok(Piece {
            line: driver::request(language, &word, code)?,
            word,
            timeout,
            most: None,
        })
    }

    async fn run_in_context(&self, request: PieceRequest) -> Result<CodeResult> {
        self.context_rules()?;
        let entry = self.workshop()?.contexts.find(self, &request.context)?;
        let (language, code) = (entry.language, &request.code);
        let label = format!("{}: {}", entry.id(), driver::label(language, code));
        let judged = driver::judged(language, code);
        let text = entry.secrets.mask(&label);
        let timeout = self
            .admit_driven("run_in_code_context", &judged, text, request.timeout)
            .await?;
        let (reply, answer) = oneshot::channel();
        let call = Call {
            piece: Piece {
                most: request.max_output,
                ..self.code_piece(language, code, timeout)?
            },
            label,
            view: self.clone(),
            reply,
        };
        entry.inbox.send(call).map_err(|_| entry.gone())?;
        let answered = answer.await.map_err(|_| entry.gone())??;
        Ok(CodeResult {
            lowered_timeout_ms: lowered(timeout, request.timeout).map(millis),
            ..result(&entry, answered)
        })
    }
}

fn result(entry: &Entry, answered: Answered) -> CodeResult {
    let Heard { outcome, output, death } = answered.heard;
    let surroundings = entry.surroundings.clone();
    let result = CodeResult::new(entry.language, outcome, &output, surroundings, answered.changed);
    let exit = death.as_ref().and_then(|death| death.exit.as_ref());
    let timed_out = death.as_ref().is_some_and(|death| death.timed_out);
    CodeResult {
        context: Some(entry.id()),
        exit_code: exit.map(|exit| exit.ended.code()).or(result.exit_code),
        duration_ms: millis(answered.took),
        timed_out,
        limit: exit.and_then(|exit| exit.limit).or(timed_out.then_some(Limit::Wall)),
        context_ended: death.map(|death| death.how),
        ..result
    }
}
