//! `garret show`

use clap::Args;
use garret::Point;

use crate::output::{CliOutcome, CliReport};
use crate::render::history;
use crate::session::Session;

#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// The change, by its number or id (see `garret log`)
    change: String,
}

impl ShowArgs {
    pub(crate) async fn run(&self, session: &Session) -> CliOutcome {
        let workspace = session.open_history(&["fs"]).await?;
        let shown = workspace.show(&Point::parse_or_now(Some(&self.change))).await?;
        Ok(CliReport::success(history::describe_details(&shown), shown))
    }
}
