//! `garret call`

use clap::Args;
use garret::{Error, ErrorKind, ToolAnswer};
use serde_json::Value;

use crate::input;
use crate::output::{CliFailure, CliOutcome, CliReport};
use crate::session::Session;

pub(crate) const EXAMPLES: &str = "\
Examples:
  garret call read_file '{\"path\": \"notes/todo.md\"}' --json
  garret -w memory: call write_file '{\"path\": \"a.txt\", \"content\": \"hi\"}'";

#[derive(Debug, Args)]
pub(crate) struct CallArgs {
    /// The name of the tool, as the workspace names it or its canonical name (see `garret tools`)
    tool: String,
    /// The arguments as a JSON object; `-` for standard input, @FILE for a file
    #[arg(default_value = "{}", value_name = "JSON")]
    arguments: String,
}

impl CallArgs {
    pub(crate) async fn run(&self, session: &Session) -> CliOutcome {
        let arguments = input::read_json(&self.arguments).map_err(CliFailure::wrong_usage)?;
        let toolbox = session.open_toolbox().await?;
        let definitions = toolbox.definitions();
        let by_name = definitions.iter().find(|one| one.name == self.tool);
        let called = by_name.or_else(|| definitions.iter().find(|one| one.canonical == self.tool));
        if let Some(instead) = called.and_then(|called| advice_instead(called.canonical, &arguments)) {
            return Ok(CliReport::tool_answer(ToolAnswer::from_error(background_error(
                instead,
            ))));
        }
        let answer = match by_name {
            Some(_) => toolbox.call(&self.tool, arguments).await,
            None => toolbox.call_canonical(&self.tool, arguments).await,
        };
        toolbox.workspace().close().await?;
        Ok(CliReport::tool_answer(answer))
    }
}

/// Returns the advice for a call whose work would end with this program; `None` for a call that leaves nothing running.
fn advice_instead(canonical: &str, arguments: &Value) -> Option<&'static str> {
    match canonical {
        "run" if arguments.get("shell").is_some_and(|shell| shell.as_str() != Some("")) => Some("leave out `shell`"),
        "start" => Some("`garret run` runs it and waits for its end"),
        "port" => Some("`garret port` runs a command and opens its port"),
        "create_code_context" => Some("`garret code` runs code by itself"),
        _ => None,
    }
}

fn background_error(instead: &str) -> Error {
    Error::new(
        ErrorKind::Unsupported,
        "background processes, named shells and code contexts end with the program that started them, and `garret call` ends at once",
    )
    .hint(format!(
        "{instead}; under `garret mcp` it lives as long as the server runs"
    ))
}
