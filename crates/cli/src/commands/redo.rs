//! `garret redo`

use clap::Args;

use crate::output::{Outcome, Report};
use crate::render::history;
use crate::session::Session;

/// Takes back the newest undo, as long as nothing else was changed since.
#[derive(Debug, Args)]
pub(crate) struct Redo {}

impl Redo {
    pub(crate) async fn run(&self, session: &Session) -> Outcome {
        let change = session.with_history("fs").await?.redo().await?;
        Ok(Report::done(history::made(&change), change))
    }
}
