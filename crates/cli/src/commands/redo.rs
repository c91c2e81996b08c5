//! `garret redo`

use clap::Args;

use crate::output::{CliOutcome, CliReport};
use crate::render::history;
use crate::session::Session;

/// Takes back the newest undo, as long as nothing else was changed since.
#[derive(Debug, Args)]
pub(crate) struct RedoArgs {}

impl RedoArgs {
    pub(crate) async fn run(&self, session: &Session) -> CliOutcome {
        let change = session.open_history("fs").await?.redo().await?;
        Ok(CliReport::success(history::describe_change(&change), change))
    }
}
