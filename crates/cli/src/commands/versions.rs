//! `garret versions`

use clap::Args;
use garret::VersionShown;
use serde_json::json;

use crate::output::{Outcome, Report};
use crate::render::{self, history};
use crate::session::Session;

pub(crate) const EXAMPLES: &str = "\
Example:
  garret -w notes versions a.txt
  garret -w notes restore --version VERSION a.txt";

#[derive(Debug, Args)]
pub(crate) struct Versions {
    /// The file; one that is gone still has its versions
    path: String,
    /// The most versions
    #[arg(long, default_value_t = 50, value_name = "VERSIONS")]
    limit: usize,
}

impl Versions {
    pub(crate) async fn run(&self, session: &Session) -> Outcome {
        let workspace = session.with_history("fs").await?;
        let versions = workspace.versions(&self.path, self.limit).await?;
        let text = match versions.is_empty() {
            true => format!("{} has no versions", render::shown(&self.path)),
            false => render::table(versions.iter().map(cells)),
        };
        Ok(Report::done(text, json!({"versions": versions})))
    }
}

fn cells(version: &VersionShown) -> Vec<String> {
    vec![
        version.version.clone(),
        version.timestamp.clone(),
        render::size(version.size),
        history::who(&version.actor),
        version.tool_name.clone(),
        render::shown(&version.path),
    ]
}
