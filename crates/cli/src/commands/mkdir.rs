//! `garret mkdir`

use clap::Args;

use crate::output::{CliOutcome, CliReport};
use crate::render;
use crate::session::Session;

#[derive(Debug, Args)]
pub(crate) struct MkdirArgs {
    /// The directory
    path: String,
    /// Create missing parent directories, and accept a directory that exists
    #[arg(short, long)]
    parents: bool,
}

impl MkdirArgs {
    pub(crate) async fn run(&self, session: &Session) -> CliOutcome {
        let made = session
            .open_workspace()
            .await?
            .make_dir(&self.path, self.parents)
            .await?;
        let what = if made.created { "made" } else { "exists already:" };
        Ok(CliReport::success(
            format!("{what} {}", render::display_path(&made.path)),
            made,
        ))
    }
}
