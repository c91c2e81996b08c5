//! `garret stat`

use clap::Args;
use garret::FileStat;

use crate::output::{Outcome, Report};
use crate::point::At;
use crate::session::Session;
use crate::{render, time};

#[derive(Debug, Args)]
pub(crate) struct Stat {
    /// The path; for a link, the link itself is described
    path: String,
    #[command(flatten)]
    at: At,
}

impl Stat {
    pub(crate) async fn run(&self, session: &Session) -> Outcome {
        let stat = session.workspace_at(self.at.point()).await?.stat(&self.path).await?;
        Ok(Report::done(lines(&stat), stat))
    }
}

fn lines(stat: &FileStat) -> String {
    let fields = [
        ("path", Some(render::shown(&stat.path))),
        ("type", Some(render::kind(stat.r#type).to_owned())),
        ("target", stat.target.as_deref().map(render::shown)),
        ("size", Some(stat.size.to_string())),
        ("mode", stat.mode.clone()),
        ("created", stat.created_at.as_deref().map(time::shown)),
        ("modified", stat.modified_at.as_deref().map(time::shown)),
        ("version", stat.version.as_ref().map(ToString::to_string)),
    ];
    let known = fields
        .into_iter()
        .filter_map(|(name, value)| value.map(|value| format!("{name:9}{value}")));
    known.collect::<Vec<_>>().join("\n")
}
