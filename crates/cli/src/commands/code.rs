//! `garret code`

use std::time::Duration;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use garret::{CodeRequest, CodeResult, EffectsMode, Error, Language, Result};

use crate::commands::run::{
    NetworkArgs, ParallelArgs, RunOutputPrinter, RunSummary, name_directory, parse_variable, run_notes, text_for_json,
};
use crate::interruption::run_until_interrupted;
use crate::mounts::MountArgs;
use crate::output::{CliFailure, CliOutcome, CliReport, Format};
use crate::session::Session;
use crate::{input, time};

pub(crate) const EXAMPLES: &str = "\
Examples:
  garret -w box code python -c 'open(\"a.txt\", \"w\").write(\"hi\"); 6 * 7'
  garret -w box code javascript report.js
  echo 'ls -l' | garret -w box code bash
The output of the code is passed through. Then the value of its last expression goes to standard
output, and an uncaught error to standard error. All changes of the code to the files are one
change; `garret undo` takes it back. The exit code is that of the code: 1 after an error, and 75 if
the code ended with 0 but its effects were not applied: they are on a branch, because the files
changed while it ran, or in a leftover, because they could not be saved.";

#[derive(Debug, Args)]
pub(crate) struct CodeArgs {
    /// The language
    #[arg(value_parser = languages())]
    language: Language,
    /// A file of this machine with the code [default, or `-`: standard input]
    file: Option<String>,
    /// The code itself
    #[arg(short = 'c', value_name = "CODE", conflicts_with = "file")]
    code: Option<String>,
    /// End the code after this time, with everything that it started: `2s`, `500ms`, `5m` [default: the workspace's limit]
    #[arg(long, value_name = "TIME", value_parser = time::parse)]
    timeout: Option<Duration>,
    /// A variable for its environment; may be given several times
    #[arg(long, value_name = "NAME=VALUE")]
    env: Vec<String>,
    /// The directory to run it in [default: the root of the workspace]
    #[arg(long, value_name = "DIR")]
    cwd: Option<String>,
    /// Discard the changes of the code to the files
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

fn languages() -> impl TypedValueParser<Value = Language> {
    PossibleValuesParser::new(Language::ALL.map(Language::as_str)).map(|name| {
        let mut all = Language::ALL.into_iter();
        all.find(|language| language.as_str() == name)
            .expect("it is one of them")
    })
}

impl CodeArgs {
    pub(crate) fn reads_stdin(&self) -> bool {
        let is_stdin = self.file.as_deref().is_none_or(|file| file == "-");
        self.code.is_none() && is_stdin
    }

    pub(crate) async fn run(&self, session: &Session) -> CliOutcome {
        let request = self.code_request().map_err(CliFailure::wrong_input)?;
        let workspace = session
            .open_workspace_with(&["code"], &self.mounts, &self.network)
            .await?;
        let format = session.global().format();
        let mut terminal = RunOutputPrinter::for_format(format);
        let reader = terminal.reader.clone();
        let running = workspace.run_code_with(request, &mut terminal);
        let result = run_until_interrupted(&reader, running).await;
        // Closed in every case, before an error or an interruption returns.
        let closed = workspace.close().await;
        let result = match result {
            Ok(result) => result.map_err(|error| name_directory(error, self.cwd.as_deref()))?,
            Err(stopped) => return stopped.to_report("code"),
        };
        closed?;
        let code = u8::try_from(result.exit_code.unwrap_or(0)).unwrap_or(u8::MAX);
        let code = self.parallel.exit_code(code, &result.changed);
        session.settle_undo_remark(&result.changed);
        let ran = summarize_run(&result, session);
        let report = match format {
            Format::Json => CliReport::success(
                text_for_json(&ran, &result.output),
                if self.details { result.with_details() } else { result },
            ),
            // The output of the code was printed while it ran; only the value is left.
            Format::Text => CliReport::raw_bytes(format_value(&result).into_bytes())
                .with_lost(terminal.lost)
                .with_note(format_notes(&ran, &result)),
        };
        Ok(report.with_code(code))
    }

    fn code_request(&self) -> Result<CodeRequest> {
        Ok(CodeRequest {
            cwd: self.cwd.clone().unwrap_or_default(),
            env: self.env.iter().map(|one| parse_variable(one)).collect::<Result<_>>()?,
            timeout: self.timeout,
            effects: self.discard.then_some(EffectsMode::Discard),
            turn_wait: self.parallel.turn_wait(),
            ..CodeRequest::new(self.language, self.read_code()?)
        })
    }

    fn read_code(&self) -> Result<String> {
        let bytes = match &self.code {
            Some(code) => return Ok(code.clone()),
            None => input::read_file(self.file.as_deref())?,
        };
        String::from_utf8(bytes).map_err(|_| Error::invalid("the code is not UTF-8").hint("save it as UTF-8"))
    }
}

fn format_value(result: &CodeResult) -> String {
    let value = result.result.as_ref();
    value.map_or_else(String::new, |value| format!("{}\n", value.repr))
}

fn summarize_run<'a>(result: &'a CodeResult, session: &Session) -> RunSummary<'a> {
    RunSummary {
        what: "code",
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
    }
}

fn format_notes(ran: &RunSummary<'_>, result: &CodeResult) -> String {
    let error = result
        .error
        .as_ref()
        .map_or_else(String::new, |error| match error.traceback.trim_end() {
            "" => format!("{}: {}\n", error.kind, error.message),
            traceback => format!("{traceback}\n"),
        });
    let notes = run_notes(ran);
    // The most important note comes first: the files are not as the code left them.
    if result.changed.branch.is_some() || result.changed.leftover.is_some() {
        format!("{notes}{error}")
    } else {
        format!("{error}{notes}")
    }
}
