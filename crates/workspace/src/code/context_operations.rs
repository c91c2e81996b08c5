//! The operations on code contexts, which keep variables, imports and the directory from one piece of code to the next.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use garret_core::{Error, ErrorKind, ExitCause, Language, ResourceLimit, Result};
use tokio::sync::{mpsc, oneshot, watch};

use super::context_worker::{CodePiece, CodePieceReport, ContextAnswer, ContextCall, ContextWorker};
use super::contexts::{CodeContext, ContextState, context_id};
use super::rules::CodeAccess;
use super::{ContextRequest, PieceRequest, driver};
use crate::shell::interpreter::{InterpreterProgram, duration_millis};
use crate::{CodeResult, ContextStatus, RunRequest, Workspace};

/// The use of a context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ContextPurpose<'a> {
    /// Code that names the context by its id.
    Code,
    /// Commands that name it as a shell.
    Shell(&'a str),
}

/// The time that an interpreter has to get ready.
const START: Duration = Duration::from_secs(60);
/// The exit code of a shell that does not find a program.
const NO_PROGRAM: i32 = 127;

impl Workspace {
    /// Makes a context and waits until its interpreter is ready. The context lives until it is deleted, ends by itself,
    /// stays unused longer than the policy allows, or the workspace is closed. A language whose interpreter is missing
    /// is `unsupported`.
    pub async fn create_code_context(&self, request: ContextRequest) -> Result<ContextStatus> {
        let work = async { self.code()?.create_context(request).await };
        self.run_observed("create_code_context", None, |_| 0, work).await
    }

    /// Runs a piece of code in a context. Pieces that are requested at the same time run one after the other. The
    /// effects of the context and of all other background processes so far become one change. At the time limit, or
    /// when the future is dropped while the code runs, the context ends.
    pub async fn run_in_code_context(&self, request: PieceRequest) -> Result<CodeResult> {
        let bytes = |result: &CodeResult| (result.stdout.0.len() + result.stderr.0.len()) as u64;
        let work = async { self.code()?.run_in_context(request).await };
        self.run_observed("run_in_code_context", None, bytes, work).await
    }

    /// Ends a context and all processes that it started. A context that has ended already stays as it is.
    pub async fn delete_code_context(&self, context: &str) -> Result<ContextStatus> {
        let work = async {
            let entry = self.code()?.find_context(context)?;
            self.files.check_approval("delete_code_context", &[]).await?;
            entry.end_and_wait("it was deleted").await;
            Ok(entry.status())
        };
        self.run_observed("delete_code_context", None, |_| 0, work).await
    }

    /// Returns the contexts that run, and the last of those that ended.
    pub async fn code_contexts(&self) -> Result<Vec<ContextStatus>> {
        let work = async {
            let code = self.code()?;
            code.rules.require_contexts()?;
            Ok(code.commands.shell.contexts.visible_contexts(&self.files.view))
        };
        self.run_observed("code_contexts", None, |_| 0, work).await
    }
}

impl CodeAccess<'_> {
    /// Returns the context of this id; `not_found` if there is none, or if this view may not know of it.
    fn find_context(&self, context: &str) -> Result<Arc<CodeContext>> {
        self.rules.require_contexts()?;
        let contexts = &self.commands.shell.contexts;
        contexts.find_context(&self.commands.files.view, context)
    }

    async fn create_context(&self, request: ContextRequest) -> Result<ContextStatus> {
        self.rules.require_contexts()?;
        self.rules.require_language(request.language)?;
        let entry = self.make_context(&request, ContextPurpose::Code).await?;
        Ok(entry.status())
    }

    /// Makes a context, and waits until its interpreter is ready.
    pub(super) async fn make_context(
        &self,
        request: &ContextRequest,
        purpose: ContextPurpose<'_>,
    ) -> Result<Arc<CodeContext>> {
        let contexts = &self.commands.shell.contexts;
        let number = contexts.next_number();
        let attendant = self.start_context(request, number, purpose).await?;
        let (inbox, calls) = mpsc::unbounded_channel();
        let entry = Arc::new(CodeContext {
            number,
            language: request.language,
            shell: match purpose {
                ContextPurpose::Code => None,
                ContextPurpose::Shell(name) => Some(name.to_owned()),
            },
            created: self.commands.files.context.clock.now(),
            secrets: attendant.interpreter_process().secrets().clone(),
            surroundings: attendant.interpreter_process().sandbox_conditions(),
            view: self.commands.files.view.clone(),
            calls: AtomicU64::new(0),
            inbox,
            life: watch::Sender::new(ContextState::Running),
            task: Mutex::default(),
        });
        let task = tokio::spawn(attendant.serve_calls(entry.clone(), calls, self.rules.idle));
        *entry.task.lock().expect("no holder panics") = Some(task.abort_handle());
        contexts.add_context(entry.clone());
        Ok(entry)
    }

    /// Starts the interpreter of a context, and waits until it is ready.
    async fn start_context(
        &self,
        request: &ContextRequest,
        number: u64,
        purpose: ContextPurpose<'_>,
    ) -> Result<ContextWorker> {
        let language = request.language;
        let (operation, label) = match purpose {
            ContextPurpose::Code => (
                "create_code_context",
                format!("{} context {}", language.as_str(), context_id(number)),
            ),
            ContextPurpose::Shell(name) => ("run", format!("shell {name}")),
        };
        let driven = InterpreterProgram {
            operation,
            request: RunRequest {
                cwd: request.cwd.clone(),
                env: request.env.clone(),
                ..RunRequest::for_program(driver::driver_program(language))
            },
            // The commands of a shell are judged one by one.
            judged: (purpose == ContextPurpose::Code).then(|| driver::bare_interpreter(language)),
            label: label.clone(),
        };
        let driven = match self.commands.start_interpreter(driven).await {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Err(self.explain_missing_interpreter(language, error).await);
            }
            driven => driven?,
        };
        let mut attendant = ContextWorker::new(driven, self.commands.files.change_origin(operation, label));
        // A driver that has run an empty piece is ready, and an interpreter that cannot start fails here and not in the
        // first call.
        let piece = self.build_code_piece(language, "", Some(START))?;
        let heard = attendant.run_piece(piece, std::future::pending()).await;
        match heard.death {
            None => Ok(attendant),
            Some(_) => Err(self.interpreter_start_error(language, heard).await),
        }
    }

    /// Returns the error of an interpreter that ended before it was ready.
    async fn interpreter_start_error(&self, language: Language, heard: CodePieceReport) -> Error {
        let exit = heard.death.as_ref().and_then(|death| death.exit.as_ref());
        let error = Error::new(
            ErrorKind::Unavailable,
            format!(
                "`{}` ended before it was ready ({}): {}",
                driver::interpreter_name(language),
                heard.death.as_ref().map_or("", |death| &death.how),
                heard.output.both.to_text().trim()
            ),
        )
        .hint("check whether the limits are too low: it needs memory, processes and open files to start");
        match exit.map(|exit| exit.ended) {
            Some(ExitCause::Exited(NO_PROGRAM)) => self.explain_missing_interpreter(language, error).await,
            _ => error,
        }
    }

    pub(super) fn build_code_piece(
        &self,
        language: Language,
        code: &str,
        timeout: Option<Duration>,
    ) -> Result<CodePiece> {
        let word = self.commands.files.context.ids.next_id();
        Ok(CodePiece {
            line: driver::encode_request(language, &word, code)?,
            word,
            timeout,
            most: None,
        })
    }

    async fn run_in_context(&self, request: PieceRequest) -> Result<CodeResult> {
        let entry = self.find_context(&request.context)?;
        let (language, code) = (entry.language, &request.code);
        let label = format!("{}: {}", entry.id(), driver::piece_label(language, code));
        let judged = driver::judged_program(language, code);
        let text = entry.secrets.mask_text(&label);
        let timeout = self
            .commands
            .admit_code("run_in_code_context", &judged, text, request.timeout)
            .await?;
        let network_mark = self.commands.shell.network.mark();
        let (reply, answer) = oneshot::channel();
        let call = ContextCall {
            operation: "run_in_code_context",
            piece: CodePiece {
                most: request.max_output,
                ..self.build_code_piece(language, code, timeout)?
            },
            label,
            commands: self.commands.clone(),
            reply,
        };
        entry.inbox.send(call).map_err(|_| entry.ended_error())?;
        let answered = answer.await.map_err(|_| entry.ended_error())??;
        let network = self
            .commands
            .shell
            .network
            .take_record(network_mark, &self.commands.files, &entry.secrets);
        let result = build_context_result(&entry, answered);
        Ok(CodeResult {
            lowered_timeout_ms: self.commands.find_lowered_time(request.timeout).map(duration_millis),
            network,
            reached: self
                .commands
                .find_reached_limit_of_code(result.limit, result.error_text(), timeout),
            ..result
        })
    }
}

fn build_context_result(entry: &CodeContext, answered: ContextAnswer) -> CodeResult {
    let CodePieceReport { outcome, output, death } = answered.heard;
    let surroundings = entry.surroundings.clone();
    let result = CodeResult::new(entry.language, outcome, &output, surroundings, answered.changed);
    let exit = death.as_ref().and_then(|death| death.exit.as_ref());
    let timed_out = death.as_ref().is_some_and(|death| death.timed_out);
    CodeResult {
        context: Some(entry.id()),
        exit_code: exit.map(|exit| exit.ended.exit_code()).or(result.exit_code),
        duration_ms: duration_millis(answered.took),
        timed_out,
        limit: exit
            .and_then(|exit| exit.limit)
            .or(timed_out.then_some(ResourceLimit::Wall)),
        context_ended: death.map(|death| death.how),
        ..result
    }
}
