//! `garret redo`

use clap::Args;

use crate::output::{CliOutcome, CliReport};
use crate::render::history;
use crate::session::Session;

/// Takes back the newest undo, as long as nothing else was changed since.
#[derive(Debug, Args)]
pub(crate) struct RedoArgs {
    /// Show what would change, and change nothing
    #[arg(long)]
    dry_run: bool,
}

impl RedoArgs {
    pub(crate) async fn run(&self, session: &Session) -> CliOutcome {
        let workspace = session.open_history("fs").await?;
        if self.dry_run {
            let planned = workspace.plan_redo().await?;
            return Ok(CliReport::success(history::describe_plan(&planned), planned));
        }
        let change = workspace.redo().await?;
        Ok(CliReport::success(history::describe_change(&change), change))
    }
}
