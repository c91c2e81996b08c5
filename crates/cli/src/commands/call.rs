//! `garret call`

use clap::Args;
use garret::Toolbox;

use crate::input;
use crate::output::{Failure, Outcome, Report};
use crate::session::Session;

pub(crate) const EXAMPLES: &str = "\
Examples:
  garret call read_file '{\"path\": \"notes/todo.md\"}' --json
  garret -w memory: call write_file '{\"path\": \"a.txt\", \"content\": \"hi\"}'";

#[derive(Debug, Args)]
pub(crate) struct Call {
    /// The tool, by the name the workspace gives it or by its canonical one (see `garret tools`)
    tool: String,
    /// The arguments as a JSON object; `-` for standard input, @FILE for a file
    #[arg(default_value = "{}", value_name = "JSON")]
    arguments: String,
}

impl Call {
    pub(crate) async fn run(&self, session: &Session) -> Outcome {
        let arguments = input::json(&self.arguments).map_err(Failure::usage)?;
        let toolbox = session.toolbox().await?;
        let answer = if is_offered(&toolbox, &self.tool) {
            toolbox.call(&self.tool, arguments).await
        } else {
            toolbox.call_canonical(&self.tool, arguments).await
        };
        toolbox.workspace().close().await?;
        Ok(Report::answer(answer))
    }
}

fn is_offered(toolbox: &Toolbox, name: &str) -> bool {
    toolbox.definitions().iter().any(|definition| definition.name == name)
}
