//! `garret keep`

use clap::Args;
use garret::Keep as Limits;
use garret::path::printable;
use serde_json::json;

use crate::output::{Failure, Outcome, Report};
use crate::session::Session;

pub(crate) const EXAMPLES: &str = "\
Examples:
  garret keep notes               show what it keeps
  garret keep notes 30d           changes of the last 30 days
  garret keep notes 30d,1000      of those, the newest 1000 at most
  garret keep notes 500MB         the newest changes whose old content takes up to 500 MB
  garret keep notes everything
Nothing is deleted before the next `garret gc`. The newest state, snapshots and branches stay.";

#[derive(Debug, Args)]
pub(crate) struct Keep {
    /// The workspace; may be given with -w instead
    name: Option<String>,
    /// An age, a number of changes, a size, or several of them with commas; `everything` for no limit [default: show the current limit]
    limits: Option<String>,
}

impl Keep {
    pub(crate) async fn run(&self, session: &Session) -> Outcome {
        let (name, limits) = session.name_and_rest(self.name.as_deref(), self.limits.as_deref())?;
        let limits = limits.map(parsed).transpose()?;
        let workspace = session.depot().await?.workspace(name).await?;
        if let Some(limits) = &limits {
            workspace.set_keep(limits).await?;
        }
        let kept = workspace.keep().await?;
        let text = format!("{} keeps {kept}", printable(name));
        Ok(Report::done(text, json!({"id": workspace.id(), "keep": kept})))
    }
}

fn parsed(text: &str) -> Result<Limits, Failure> {
    match text {
        "everything" => Ok(Limits::default()),
        text => text.parse().map_err(Failure::usage),
    }
}
