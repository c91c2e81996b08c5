//! `garret run`

use std::time::Duration;

use async_trait::async_trait;
use clap::Args;
use garret::path::{printable, quote};
use garret::{Changed, Chunk, EffectsMode, Error, Limit, OutputSink, Program, Result, RunRequest, Stream};

use crate::interruption::{ReaderGone, unless_interrupted};
use crate::output::{Failure, Format, Outcome, Report, lost, write_all};
use crate::session::Session;
use crate::{input, time};

pub(crate) const EXAMPLES: &str = "\
Examples:
  garret -w box run -- make test
  garret -w box run -c 'mkdir -p src && echo hi > src/a'
  garret -w box run --discard -c 'rm -rf *'
  garret -w box run --timeout 2s --env LEVEL=debug -- make
What the command did to the files is one change; `garret undo` takes it back.
The exit code is the command's own; 128 and the number of the signal where one ended it.
With 1 or 2 and `error:` on standard error, the command did not run. Ctrl-C ends the command and keeps nothing of what it did.";

#[derive(Debug, Args)]
pub(crate) struct Run {
    /// A program and its arguments, after `--`
    #[arg(last = true, value_name = "COMMAND", required_unless_present = "text")]
    command: Vec<String>,
    /// A text for the shell
    #[arg(short = 'c', value_name = "TEXT", conflicts_with = "command")]
    text: Option<String>,
    /// End the command after this time, with everything that it started: `2s`, `500ms`, `5m` [default: the workspace's limit]
    #[arg(long, value_name = "TIME", value_parser = time::parse)]
    timeout: Option<Duration>,
    /// A variable for its environment; may be given several times
    #[arg(long, value_name = "NAME=VALUE")]
    env: Vec<String>,
    /// The directory to run it in [default: the root of the workspace]
    #[arg(long, value_name = "DIR")]
    cwd: Option<String>,
    /// Pass standard input to the command
    #[arg(long)]
    stdin: bool,
    /// Forget what the command did to the files
    #[arg(long)]
    discard: bool,
}

impl Run {
    pub(crate) async fn run(&self, session: &Session) -> Outcome {
        let request = self.request().map_err(Failure::usage)?;
        let workspace = session.workspace_for("shell").await?;
        let mut terminal = Terminal::default();
        let reader = terminal.reader.clone();
        let running = async {
            match session.global().format() {
                Format::Json => workspace.run(request).await,
                Format::Text => workspace.run_with(request, &mut terminal).await,
            }
        };
        let result = unless_interrupted(&reader, running).await;
        let closed = workspace.close().await;
        let result = match result {
            Ok(result) => result?,
            Err(stopped) => return stopped.report("command"),
        };
        closed?;
        let code = u8::try_from(result.exit_code).unwrap_or(u8::MAX);
        let note = notes(&Ran {
            what: "command",
            timed_out: result.timed_out,
            limit: result.limit,
            lowered_timeout_ms: result.lowered_timeout_ms,
            changed: &result.changed,
            isolated: result.isolated,
            leftovers: &result.leftovers,
        });
        let report = match session.global().format() {
            Format::Json => Report::done(result.output.clone(), result),
            // It went where it belongs as it came.
            Format::Text => Report::silent().with_lost(terminal.lost).with_note(note),
        };
        Ok(report.with_code(code))
    }

    fn request(&self) -> Result<RunRequest> {
        let program = match &self.text {
            Some(text) => Program::Shell(text.clone()),
            None => Program::Arguments(self.command.clone()),
        };
        Ok(RunRequest {
            cwd: self.cwd.clone().unwrap_or_default(),
            env: self.env.iter().map(|one| variable(one)).collect::<Result<_>>()?,
            stdin: match self.stdin {
                true => Some(input::content(None)?.into()),
                false => None,
            },
            timeout: self.timeout,
            effects: self.discard.then_some(EffectsMode::Discard),
            ..RunRequest::of(program)
        })
    }
}

pub(crate) fn variable(text: &str) -> Result<(String, String)> {
    let (name, value) = text.split_once('=').ok_or_else(|| {
        // What was written may be a secret alone.
        Error::invalid("a variable is NAME=VALUE").hint("write `--env NAME=VALUE`")
    })?;
    Ok((name.to_owned(), value.to_owned()))
}

/// Prints output as it comes, each stream to its own.
#[derive(Debug, Default)]
pub(crate) struct Terminal {
    pub(crate) reader: ReaderGone,
    /// Why some of it did not arrive.
    pub(crate) lost: Option<std::io::ErrorKind>,
}

#[async_trait]
impl OutputSink for Terminal {
    async fn take(&mut self, chunk: &Chunk) {
        let put = match chunk.stream {
            Stream::Stdout => write_all(std::io::stdout().lock(), &[&chunk.bytes]),
            Stream::Stderr => write_all(std::io::stderr().lock(), &[&chunk.bytes]),
        };
        match put.map_err(lost) {
            Ok(()) => {}
            Err(None) => self.reader.notify_one(),
            // The command goes on: what it does to the files is worth more than what it says.
            Err(reason) => self.lost = reason,
        }
    }
}

/// How something that ran went.
pub(crate) struct Ran<'a> {
    /// The word for it: `command`, `code`.
    pub(crate) what: &'static str,
    pub(crate) timed_out: bool,
    pub(crate) limit: Option<Limit>,
    pub(crate) lowered_timeout_ms: Option<u64>,
    pub(crate) changed: &'a Changed,
    pub(crate) isolated: bool,
    pub(crate) leftovers: &'a [String],
}

/// What a person should know beside the output; nothing where everything went as asked.
pub(crate) fn notes(ran: &Ran<'_>) -> String {
    let Ran { what, changed, .. } = ran;
    let mut notes = String::new();
    let mut note = |text: String| notes.push_str(&format!("garret: {text}\n"));
    if let Some(milliseconds) = ran.lowered_timeout_ms {
        let seconds = milliseconds as f64 / 1_000.0;
        note(format!("the time limit is {seconds} s, the maximum of the workspace"));
    }
    if ran.timed_out {
        note(format!(
            "the {what} took too long, and was ended with everything that it started"
        ));
    } else if let Some(limit) = ran.limit {
        note(format!(
            "the {what} came to its limit of {}, and was ended",
            limit.words()
        ));
    }
    if changed.discarded && !changed.is_nothing() {
        note(format!("discarded: {}", changed.counts()));
    }
    if let Some(branch) = &changed.branch {
        note(format!(
            "somebody else changed the same files meanwhile; this is kept on the branch {}",
            quote(branch)
        ));
    }
    if let Some(refused) = &changed.refused {
        note(format!(
            "nothing of what it did was kept: {}",
            printable(&refused.message)
        ));
    }
    for dropped in &changed.dropped {
        note(format!("not taken: {} ({})", quote(&dropped.path), dropped.what));
    }
    for path in &changed.excluded.deleted_paths {
        note(format!("deleted for good, as history leaves it out: {}", quote(path)));
    }
    let named = changed.excluded.deleted_paths.len() as u64;
    if changed.excluded.deleted > named {
        note(format!(
            "and {} more, deleted for good",
            changed.excluded.deleted - named
        ));
    }
    if !ran.isolated {
        note(format!("the {what} was not isolated from this machine"));
    }
    if !ran.leftovers.is_empty() {
        note("a crash left work that is in no change; see `garret leftovers`".into());
    }
    notes
}
