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
        let workspace = session.open_history(&["fs"]).await?;
        let result = if self.dry_run {
            workspace.plan_redo().await?
        } else {
            workspace.redo().await?
        };
        Ok(CliReport::success(history::describe_result(&result, ""), result))
    }
}
