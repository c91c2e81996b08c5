//! `garret keep`

use clap::Args;
use garret::RetentionLimits;
use garret::path::escape_unprintable;
use serde_json::json;

use crate::output::{CliFailure, CliOutcome, CliReport};
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
pub(crate) struct KeepArgs {
    /// The workspace; may be given with -w instead
    name: Option<String>,
    /// An age, a number of changes, a size, or several of them with commas; `everything` for no limit [default: show the current limit]
    limits: Option<String>,
}

impl KeepArgs {
    pub(crate) async fn run(&self, session: &Session) -> CliOutcome {
        let (name, limits) = session.name_and_rest(self.name.as_deref(), self.limits.as_deref())?;
        let limits = limits.map(parse_limits).transpose()?;
        let workspace = session.open_depot().await?.workspace(name).await?;
        if let Some(limits) = &limits {
            workspace.set_keep(limits).await?;
        }
        let kept = workspace.keep().await?;
        let text = format!("{} keeps {kept}", escape_unprintable(name));
        Ok(CliReport::success(text, json!({"id": workspace.id(), "keep": kept})))
    }
}

fn parse_limits(text: &str) -> Result<RetentionLimits, CliFailure> {
    match text {
        "everything" => Ok(RetentionLimits::default()),
        text => text.parse().map_err(CliFailure::wrong_usage),
    }
}
