//! The command line of Garret: arguments in, text or JSON out.
//!
//! The only crate that prints, reads the environment or asks a person. Each command is one file in `commands/`; it
//! opens a workspace by way of [`session::Session`], does one operation, and returns a [`output::CliReport`], which is
//! printed here and nowhere else.

#![allow(clippy::disallowed_methods, reason = "the command line reads its arguments")]

mod approval;
mod arguments;
mod commands;
mod config_file;
mod error_wording;
mod home;
mod host_files;
mod input;
mod interruption;
mod mounts;
mod output;
mod point;
mod progress;
mod render;
mod session;
mod terminal;
mod time;
mod transfer_files;
mod trust;
mod usage_errors;
mod user_terminal;
mod workspace_choice;

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use garret::sandboxes::supervisor;
use rustix::fs::Mode;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit, umask};

use crate::arguments::Cli;
use crate::output::{CliFailure, Format};
use crate::progress::ProgressLine;
use crate::session::Session;

/// How long the program waits at its end for files of a command that are deleted in the background. A command decides
/// how long that takes; the rest is deleted when the workspace is opened again.
const DELETING_WAIT: Duration = Duration::from_secs(3);

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
            return output::print_outcome(Err(usage_failure(&error)), Format::Json);
        }
        // Help and version are no errors, and a person reads the parser's own text.
        Err(error) => return print_parser_text(&error),
    };
    let format = cli.global.format();
    terminal::set_color(cli.global.color);
    time::use_local_zone(format);
    allow_many_open_files();
    keep_others_from_writing();
    let runtime = match build_runtime() {
        Ok(runtime) => runtime,
        Err(failure) => return output::print_outcome(Err(failure), format),
    };
    let outcome = runtime.block_on(run_command(cli));
    let code = output::print_outcome(outcome, format);
    // After the report is printed, so that nobody waits for a deletion to see a result.
    runtime.shutdown_timeout(DELETING_WAIT);
    code
}

async fn run_command(cli: Cli) -> output::CliOutcome {
    let progress = cli.command.progress_label(&cli.global).map(ProgressLine::general_line);
    let session = Session::new(cli.global)?;
    let report = cli.command.run(&session).await;
    drop(progress);
    let report = report.map_err(|failure| match session.home() {
        Some(home) => failure.name_home(home),
        None => failure,
    })?;
    Ok(match session.undo_remark() {
        Some(remark) => report.with_remark(&remark),
        None => report,
    })
}

/// Raises the limit of open files as far as the system allows.
fn allow_many_open_files() {
    // A change to many directories holds a handle for each of them until it is done. The usual limit is low only for
    // the sake of programs that cannot deal with more.
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    // If this is refused, the limit stays as it was.
    let _ = setrlimit(Resource::Nofile, raised);
}

/// Extends the umask so that other users cannot write the files that this program makes. Modes that are set explicitly,
/// such as those of files in a workspace, are not affected.
fn keep_others_from_writing() {
    let for_others = Mode::WGRP | Mode::WOTH;
    // The umask can only be read by setting it.
    let before = umask(for_others);
    umask(before | for_others);
}

fn build_runtime() -> Result<tokio::runtime::Runtime, CliFailure> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|_| CliFailure::unavailable("the system cannot start threads"))
}

/// Whether `--json` is given, for arguments that the parser refused.
fn wants_json() -> bool {
    // After `--` everything is text.
    let mut arguments = std::env::args_os().take_while(|argument| argument != "--");
    arguments.any(|argument| argument == "--json")
}

/// Prints the parser's own text: help, the version or an error.
fn print_parser_text(error: &clap::Error) -> ExitCode {
    let code = u8::try_from(error.exit_code()).unwrap_or(u8::MAX);
    if error.use_stderr() {
        return output::print_usage_error(&usage_errors::error_text(error, &command_line_arguments()), code);
    }
    match error.print() {
        Err(failed) => output::print_lost(failed.kind()),
        Ok(()) => ExitCode::from(code),
    }
}

/// Makes a failure of the parser's error.
fn usage_failure(error: &clap::Error) -> CliFailure {
    let text = usage_errors::error_text(error, &[]);
    // The first lines are the message; the rest repeats the help.
    let first = text.split("\n\n").next().unwrap_or_default();
    let message = first.strip_prefix("error: ").unwrap_or(first).trim_end();
    let tip = usage_errors::find_tip(error, &command_line_arguments());
    let hint = tip.unwrap_or_else(|| "see `garret --help`, or `garret COMMAND --help`".to_owned());
    CliFailure::wrong_usage(garret::Error::invalid(message).hint(hint))
}

/// Returns the arguments as text.
fn command_line_arguments() -> Vec<String> {
    let all = std::env::args_os().skip(1);
    all.map(|one| one.to_string_lossy().into_owned()).collect()
}
