//! The command line of Garret: arguments in, text or JSON out.
//!
//! The only crate that prints, reads the environment or asks a person. Each command is one file in `commands/`; it opens a workspace by
//! way of [`session::Session`], does one operation, and returns a [`output::Report`], which is printed here and nowhere else.

mod approval;
mod arguments;
mod choice;
mod commands;
mod config_file;
mod input;
mod output;
mod probe;
mod render;
mod session;

use std::process::ExitCode;

use clap::Parser;

use crate::arguments::Cli;
use crate::output::Failure;
use crate::session::Session;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let format = cli.global.format();
    let outcome = runtime().and_then(|runtime| runtime.block_on(run(cli)));
    output::print(outcome, format)
}

async fn run(cli: Cli) -> output::Outcome {
    cli.command.run(&Session::new(cli.global)?).await
}

fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|_| Failure::unavailable("the system gives no threads to run on"))
}
