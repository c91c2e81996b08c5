//! Runs a single piece of code, without a context.

use async_trait::async_trait;
use garret_core::{Chunk, CommandOutput, ErrorKind, OutputCollector, Result, Secrets};

use super::outcome::CodeOutcome;
use super::output_mark::DriverStreams;
use super::rules::CodeAccess;
use super::{CodeRequest, driver};
use crate::shell::interpreter::{InterpreterProgram, NoSink, OutputListenerSettings};
use crate::{CodeResult, OutputSink, RunRequest, TurnWaiting, Workspace};

/// The exit code of a shell that does not find a program.
const NO_PROGRAM: i32 = 127;

impl Workspace {
    /// Runs a single piece of code and waits for its end. Code that ran is a success, even if it failed; its effects on
    /// the files are one change. Dropping the future ends the code with all its processes, and discards its effects. A
    /// language whose interpreter is missing is `unsupported`.
    pub async fn run_code(&self, request: CodeRequest) -> Result<CodeResult> {
        self.run_code_with(request, &mut NoSink).await
    }

    /// Runs a piece of code as [`Workspace::run_code`] does, and hands its output to `sink` as it comes.
    pub async fn run_code_with(&self, request: CodeRequest, sink: &mut dyn OutputSink) -> Result<CodeResult> {
        let bytes = |result: &CodeResult| (result.stdout.0.len() + result.stderr.0.len()) as u64;
        let work = async { self.code()?.run_alone(request, sink).await };
        self.run_observed("run_code", None, bytes, work).await
    }
}

impl CodeAccess<'_> {
    async fn run_alone(&self, request: CodeRequest, sink: &mut dyn OutputSink) -> Result<CodeResult> {
        let language = request.language;
        self.rules.require_language(language)?;
        let word = self.commands.files.context.ids.next_id();
        let driven = interpreter_program(&request, &word)?;
        let ran = self
            .commands
            .run_interpreter(driven, |hearing| CodeOutputListener::new(&word, hearing, sink))
            .await;
        let (result, heard) = match ran {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Err(self.explain_missing_interpreter(language, error).await);
            }
            ran => ran?,
        };
        let (outcome, output) = heard.finish().await;
        // Code can exit with this code, too. Only if the interpreter is really missing, that is the error.
        if outcome.is_none() && result.exit_code == NO_PROGRAM {
            self.check_interpreter(language).await?;
        }
        let result = CodeResult::from_single_run(language, result, outcome.unwrap_or_default(), &output);
        Ok(match result.reached {
            // The error is in the report of the driver, and not in the output of the interpreter.
            None => CodeResult {
                reached: self
                    .commands
                    .find_reached_limit_of_code(None, result.error_text(), None),
                ..result
            },
            Some(_) => result,
        })
    }
}

fn interpreter_program(request: &CodeRequest, word: &str) -> Result<InterpreterProgram> {
    let CodeRequest { language, code, .. } = request;
    Ok(InterpreterProgram {
        operation: "run_code",
        request: RunRequest {
            cwd: request.cwd.clone(),
            env: request.env.clone(),
            stdin: Some(driver::encode_request(*language, word, code)?),
            timeout: request.timeout,
            max_output: request.max_output,
            effects: request.effects,
            turn_wait: request.turn_wait,
            ..RunRequest::for_program(driver::driver_program(*language))
        },
        judged: Some(driver::judged_program(*language, code)),
        label: driver::piece_label(*language, code),
    })
}

/// Separates the output of the code from the report of its driver, and hands the output on.
struct CodeOutputListener<'a> {
    marked: DriverStreams,
    collector: OutputCollector,
    secrets: Secrets,
    sink: &'a mut dyn OutputSink,
}

impl<'a> CodeOutputListener<'a> {
    fn new(word: &str, hearing: OutputListenerSettings, sink: &'a mut dyn OutputSink) -> Self {
        Self {
            marked: DriverStreams::new(word),
            collector: OutputCollector::new(hearing.most, &hearing.secrets),
            secrets: hearing.secrets,
            sink,
        }
    }

    async fn collect_output(&mut self, output: &Chunk) {
        if let Some(shown) = self.collector.push_chunk(output) {
            self.sink.take(&shown).await;
        }
    }

    async fn finish(mut self) -> (Option<CodeOutcome>, CommandOutput) {
        let held: Vec<_> = self.marked.finish().collect();
        for output in &held {
            self.collect_output(output).await;
        }
        let (last, output) = self.collector.finish();
        for shown in &last {
            self.sink.take(shown).await;
        }
        let told = self.marked.driver_report();
        (told.map(|told| CodeOutcome::parse_report(told, &self.secrets)), output)
    }
}

#[async_trait]
impl OutputSink for CodeOutputListener<'_> {
    async fn take(&mut self, chunk: &Chunk) {
        if let Some(output) = self.marked.push(chunk) {
            self.collect_output(&output).await;
        }
    }

    async fn wait_for_turn(&mut self, waiting: &TurnWaiting) {
        self.sink.wait_for_turn(waiting).await;
    }
}
