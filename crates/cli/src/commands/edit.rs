//! `garret edit`

use clap::Args;
use garret::Result;
use serde_json::{Value, json};

use crate::input;
use crate::output::{CliFailure, CliOutcome, CliReport};
use crate::session::Session;

pub(crate) const EXAMPLES: &str = "\
Examples:
  garret edit notes/todo.md milk bread
  garret edit notes/todo.md -- '- milk' '- bread'      texts that begin with a dash
  garret edit notes/todo.md --edits '[{\"old_text\": \"milk\", \"new_text\": \"bread\"}]'";

#[derive(Debug, Args)]
pub(crate) struct EditArgs {
    /// The file
    path: String,
    /// The text to replace, exactly; it must occur once, unless --replace-all or --expect is given
    #[arg(required_unless_present = "edits")]
    old: Option<String>,
    /// The text to put in its place
    #[arg(required_unless_present = "edits")]
    new: Option<String>,
    /// Replace every occurrence
    #[arg(long)]
    replace_all: bool,
    /// Replace every occurrence, of which there must be this many
    #[arg(long, value_name = "NUMBER")]
    expect: Option<usize>,
    /// Several edits at once, as JSON: '[{"old_text": "a", "new_text": "b"}]'; `-` for standard input, @FILE for a file
    #[arg(long, value_name = "JSON", conflicts_with_all = ["old", "new", "replace_all", "expect"])]
    edits: Option<String>,
    /// Edit only if the file still has this version
    #[arg(long, value_name = "VERSION")]
    if_version: Option<String>,
    /// Show what would change, and change nothing
    #[arg(long)]
    dry_run: bool,
}

impl EditArgs {
    /// Edits by way of the tool, whose arguments already are a list of edits in JSON.
    pub(crate) async fn run(&self, session: &Session) -> CliOutcome {
        let arguments = self.tool_arguments().map_err(CliFailure::wrong_usage)?;
        let toolbox = session.open_toolbox_to_change().await?;
        let answer = toolbox.call_canonical("edit_file", arguments).await;
        Ok(CliReport::translated_answer(answer))
    }

    fn tool_arguments(&self) -> Result<Value> {
        let mut arguments = json!({"path": self.path, "dry_run": self.dry_run, "if_version": self.if_version});
        match &self.edits {
            Some(edits) => arguments["edits"] = input::read_json(edits)?,
            None => {
                arguments["old_text"] = json!(self.old);
                arguments["new_text"] = json!(self.new);
                arguments["replace_all"] = json!(self.replace_all || self.expect.is_some());
                arguments["expected_replacements"] = json!(self.expect);
            }
        }
        Ok(arguments)
    }
}
