//! `garret stat`

use clap::Args;
use garret::FileStat;

use crate::output::{CliOutcome, CliReport};
use crate::point::PointArgs;
use crate::session::Session;
use crate::{render, time};

#[derive(Debug, Args)]
pub(crate) struct StatArgs {
    /// The path; for a link, the link itself is described
    path: String,
    #[command(flatten)]
    at: PointArgs,
}

impl StatArgs {
    pub(crate) async fn run(&self, session: &Session) -> CliOutcome {
        let stat = session
            .open_workspace_at(self.at.point())
            .await?
            .stat(&self.path)
            .await?;
        Ok(CliReport::success(stat_lines(&stat), stat))
    }
}

fn stat_lines(stat: &FileStat) -> String {
    let fields = [
        ("path", Some(render::display_path(&stat.path))),
        ("type", Some(render::kind_word(stat.r#type).to_owned())),
        ("target", stat.target.as_deref().map(render::display_path)),
        ("size", Some(stat.size.to_string())),
        ("mode", stat.mode.clone()),
        ("created", stat.created_at.as_deref().map(time::format_time)),
        ("modified", stat.modified_at.as_deref().map(time::format_time)),
        ("version", stat.version.as_ref().map(ToString::to_string)),
    ];
    let known = fields
        .into_iter()
        .filter_map(|(name, value)| value.map(|value| format!("{name:9}{value}")));
    known.collect::<Vec<_>>().join("\n")
}
