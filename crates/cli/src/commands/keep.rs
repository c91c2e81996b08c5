//! `garret keep`

use clap::Args;
use garret::RetentionLimits;
use garret::path::escape_unprintable;

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
        let kept = session.garret_with_home()?.keep(name, limits.as_ref()).await?;
        let text = format!("{} keeps {}", escape_unprintable(name), kept.keep);
        Ok(CliReport::success(text, kept))
    }
}

fn parse_limits(text: &str) -> Result<RetentionLimits, CliFailure> {
    match text {
        "everything" => Ok(RetentionLimits::default()),
        text => text.parse().map_err(CliFailure::wrong_usage),
    }
}
