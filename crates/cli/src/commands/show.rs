//! `garret show`

use clap::Args;
use garret::Point;

use crate::output::{Outcome, Report};
use crate::render::history;
use crate::session::Session;

#[derive(Debug, Args)]
pub(crate) struct Show {
    /// The change, by its number or id (see `garret log`)
    change: String,
}

impl Show {
    pub(crate) async fn run(&self, session: &Session) -> Outcome {
        let workspace = session.with_history("fs").await?;
        let shown = workspace.show(&Point::or_now(Some(&self.change))).await?;
        Ok(Report::done(history::shown(&shown), shown))
    }
}
