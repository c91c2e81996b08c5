//! Runs a single piece of code, without a context.

use async_trait::async_trait;
use garret_core::{Chunk, ErrorKind, Output, OutputCollector, Result, Secrets};

use super::mark::Marked;
use super::outcome::Outcome;
use super::{CodeRequest, CodeResult, driver};
use crate::shell::driven::{Driven, Hearing, NoSink};
use crate::{OutputSink, RunRequest, TurnWaiting, Workspace};

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
        self.observe("run_code", None, bytes, self.run_alone(request, sink))
            .await
    }

    async fn run_alone(&self, request: CodeRequest, sink: &mut dyn OutputSink) -> Result<CodeResult> {
        let language = request.language;
        self.check_language(language)?;
        let word = self.shared.ids.next();
        let driven = driven(&request, &word)?;
        let ran = self
            .run_driven(driven, |hearing| Listener::new(&word, hearing, sink))
            .await;
        let (result, heard) = match ran {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Err(self.unless_missing(language, error).await);
            }
            ran => ran?,
        };
        let (outcome, output) = heard.finish().await;
        // Code can exit with this code, too. Only if the interpreter is really missing, that is the error.
        if outcome.is_none() && result.exit_code == NO_PROGRAM {
            self.check_interpreter(language).await?;
        }
        Ok(CodeResult::alone(
            language,
            result,
            outcome.unwrap_or_default(),
            &output,
        ))
    }
}

fn driven(request: &CodeRequest, word: &str) -> Result<Driven> {
    let CodeRequest { language, code, .. } = request;
    Ok(Driven {
        operation: "run_code",
        request: RunRequest {
            cwd: request.cwd.clone(),
            env: request.env.clone(),
            stdin: Some(driver::request(*language, word, code)?),
            timeout: request.timeout,
            max_output: request.max_output,
            effects: request.effects,
            turn_wait: request.turn_wait,
            ..RunRequest::of(driver::program(*language))
        },
        judged: Some(driver::judged(*language, code)),
        label: driver::label(*language, code),
    })
}

/// Separates the output of the code from the report of its driver, and hands the output on.
struct Listener<'a> {
    marked: Marked,
    collector: OutputCollector,
    secrets: Secrets,
    sink: &'a mut dyn OutputSink,
}

impl<'a> Listener<'a> {
    fn new(word: &str, hearing: Hearing, sink: &'a mut dyn OutputSink) -> Self {
        Self {
            marked: Marked::new(word),
            collector: OutputCollector::new(hearing.most, &hearing.secrets),
            secrets: hearing.secrets,
            sink,
        }
    }

    async fn keep(&mut self, output: &Chunk) {
        if let Some(shown) = self.collector.push(output) {
            self.sink.take(&shown).await;
        }
    }

    async fn finish(mut self) -> (Option<Outcome>, Output) {
        let held: Vec<_> = self.marked.finish().collect();
        for output in &held {
            self.keep(output).await;
        }
        let (last, output) = self.collector.finish();
        for shown in &last {
            self.sink.take(shown).await;
        }
        let told = self.marked.told();
        (told.map(|told| Outcome::read(told, &self.secrets)), output)
    }
}

#[async_trait]
impl OutputSink for Listener<'_> {
    async fn take(&mut self, chunk: &Chunk) {
        if let Some(output) = self.marked.push(chunk) {
            self.keep(&output).await;
        }
    }

    async fn wait_for_turn(&mut self, waiting: &TurnWaiting) {
        self.sink.wait_for_turn(waiting).await;
    }
}
