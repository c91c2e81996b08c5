//! `garret call`

use clap::Args;
use garret::{Answer, Error, ErrorKind};

use crate::input;
use crate::output::{Failure, Outcome, Report};
use crate::session::Session;

pub(crate) const EXAMPLES: &str = "\
Examples:
  garret call read_file '{\"path\": \"notes/todo.md\"}' --json
  garret -w memory: call write_file '{\"path\": \"a.txt\", \"content\": \"hi\"}'";

#[derive(Debug, Args)]
pub(crate) struct Call {
    /// The name of the tool, as the workspace names it or its canonical name (see `garret tools`)
    tool: String,
    /// The arguments as a JSON object; `-` for standard input, @FILE for a file
    #[arg(default_value = "{}", value_name = "JSON")]
    arguments: String,
}

impl Call {
    pub(crate) async fn run(&self, session: &Session) -> Outcome {
        let arguments = input::json(&self.arguments).map_err(Failure::usage)?;
        let toolbox = session.toolbox().await?;
        let definitions = toolbox.definitions();
        let by_name = definitions.iter().find(|one| one.name == self.tool);
        let called = by_name.or_else(|| definitions.iter().find(|one| one.canonical == self.tool));
        if let Some(instead) = called.and_then(|called| instead_of(called.canonical)) {
            return Ok(Report::answer(Answer::of_error(ends_with_the_call(instead))));
        }
        let answer = match by_name {
            Some(_) => toolbox.call(&self.tool, arguments).await,
            None => toolbox.call_canonical(&self.tool, arguments).await,
        };
        toolbox.workspace().close().await?;
        Ok(Report::answer(answer))
    }
}

/// Returns the advice for a call whose work would end with this program; `None` for a call that leaves nothing running.
fn instead_of(canonical: &str) -> Option<&'static str> {
    match canonical {
        "start" => Some("`garret run` runs it and waits for its end"),
        "create_code_context" => Some("`garret code` runs code by itself"),
        _ => None,
    }
}

fn ends_with_the_call(instead: &str) -> Error {
    Error::new(
        ErrorKind::Unsupported,
        "background processes and code contexts end with the program that started them, and `garret call` ends at once",
    )
    .hint(format!(
        "{instead}; under `garret mcp` it lives as long as the server runs"
    ))
}
