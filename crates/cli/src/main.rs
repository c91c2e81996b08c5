//! The command line of Garret: arguments in, text or JSON out.
//!
//! The only crate that prints, reads the environment or asks a person. Each command is one file in `commands/`; it opens a workspace by
//! way of [`session::Session`], does one operation, and returns a [`output::Report`], which is printed here and nowhere else.

#![allow(clippy::disallowed_methods, reason = "the command line reads its arguments")]

mod approval;
mod arguments;
mod choice;
mod commands;
mod config_file;
mod files;
mod home;
mod input;
mod interruption;
mod output;
mod point;
mod progress;
mod render;
mod session;
mod time;
mod wording;

use std::process::ExitCode;

use clap::Parser;
use garret::sandboxes::supervisor;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::arguments::Cli;
use crate::output::{Failure, Format};
use crate::session::Session;

fn main() -> ExitCode {
    // Inside a sandbox this program is its own supervisor; nothing else may have begun then.
    if std::env::args_os()
        .nth(1)
        .is_some_and(|first| first == supervisor::WORD)
    {
        return supervisor::main();
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) if error.use_stderr() && wants_json() => {
            return output::print(Err(wrong_usage(&error)), Format::Json);
        }
        // Help and version are no errors, and a person is told in the parser's own words.
        Err(error) => return in_own_words(&error),
    };
    let format = cli.global.format();
    allow_many_open_files();
    let outcome = runtime().and_then(|runtime| runtime.block_on(run(cli)));
    output::print(outcome, format)
}

async fn run(cli: Cli) -> output::Outcome {
    let session = Session::new(cli.global)?;
    let report = cli.command.run(&session).await?;
    Ok(match session.remark() {
        Some(remark) => report.with_remark(&remark),
        None => report,
    })
}

/// Takes as many handles as the system gives for the asking. A change to many directories holds one for each until it is done, and the
/// usual limit is for programs that cannot deal with more.
fn allow_many_open_files() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    // What is refused leaves the limit as it was.
    let _ = setrlimit(Resource::Nofile, raised);
}

fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|_| Failure::unavailable("the system cannot start threads"))
}

/// Whether `--json` is given, for when the arguments as a whole make no sense.
fn wants_json() -> bool {
    let mut arguments = std::env::args_os().take_while(|argument| argument != "--");
    arguments.any(|argument| argument == "--json")
}

/// Prints what the parser says: help, the version, or what is wrong.
fn in_own_words(error: &clap::Error) -> ExitCode {
    match error.print() {
        Err(failed) if !error.use_stderr() => output::print_lost(failed.kind()),
        _ => ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(u8::MAX)),
    }
}

/// What the parser says in its first lines; the rest repeats the help.
fn wrong_usage(error: &clap::Error) -> Failure {
    let text = error.to_string();
    let first = text.split("\n\n").next().unwrap_or_default();
    let message = first.strip_prefix("error: ").unwrap_or(first).trim_end();
    Failure::usage(garret::Error::invalid(message).hint("see `garret --help`, or that of the command"))
}
