//! `garret undo`

use clap::Args;
use garret::UndoRequest;

use crate::output::{CliOutcome, CliReport};
use crate::render::history;
use crate::session::Session;

pub(crate) const EXAMPLES: &str = "\
Examples:
  garret -w notes undo             the newest change; again, the one before it
  garret -w notes undo --last 3    the newest three, as one change
  garret -w notes undo --dry-run   what it would change; nothing is written
  garret -w notes undo 17          that change alone; later changes to other paths stay
  garret -w notes undo --tool-call call_7
  garret -w notes undo --session 9f3b01c2d4e5 --tool-call 7    a call of that session
An undo is a change itself, and `garret redo` takes it back. If a path was changed since, the
command names the path and changes nothing.";

#[derive(Debug, Args)]
pub(crate) struct UndoArgs {
    /// One change, by its number or id (see `garret log`); it need not be the newest
    change: Option<String>,
    /// The N most recent changes not yet undone
    #[arg(long, value_name = "CHANGES", conflicts_with = "change", value_parser = count)]
    last: Option<usize>,
    /// Everything that one session did (see `garret log`)
    #[arg(long, value_name = "SESSION", conflicts_with_all = ["change", "last"])]
    session: Option<String>,
    /// Everything that one tool call did; with --session, one of that session
    #[arg(long, value_name = "CALL", conflicts_with_all = ["change", "last"])]
    tool_call: Option<String>,
    /// Show what would change, and change nothing
    #[arg(long)]
    dry_run: bool,
}

fn count(text: &str) -> Result<usize, &'static str> {
    text.parse().map_err(|_| "use a number")
}

impl UndoArgs {
    pub(crate) async fn run(&self, session: &Session) -> CliOutcome {
        let workspace = session.open_history(&["fs"]).await?;
        let result = if self.dry_run {
            workspace.plan_undo(self.undo_request()).await?
        } else {
            workspace.undo(self.undo_request()).await?
        };
        let mut text = history::describe_result(&result, "");
        if let Some(shortfall) = result.undo_shortfall(self.last.unwrap_or(0)) {
            text.push_str(&format!("\n{shortfall}"));
        }
        Ok(CliReport::success(text, result))
    }

    fn undo_request(&self) -> UndoRequest {
        match (&self.change, &self.session, &self.tool_call) {
            (Some(change), ..) => UndoRequest::Change(change.clone()),
            (None, session, Some(call)) => UndoRequest::ToolCall {
                call: call.clone(),
                session: session.clone(),
            },
            (None, Some(session), None) => UndoRequest::Session(session.clone()),
            (None, None, None) => UndoRequest::Last(self.last.unwrap_or(1)),
        }
    }
}
