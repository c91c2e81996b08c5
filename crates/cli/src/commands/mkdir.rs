//! `garret mkdir`

use clap::Args;

use crate::output::{Outcome, Report};
use crate::render;
use crate::session::Session;

#[derive(Debug, Args)]
pub(crate) struct Mkdir {
    /// The directory
    path: String,
    /// Create missing parent directories, and accept a directory that exists
    #[arg(short, long)]
    parents: bool,
}

impl Mkdir {
    pub(crate) async fn run(&self, session: &Session) -> Outcome {
        let made = session.workspace().await?.make_dir(&self.path, self.parents).await?;
        let what = if made.created { "made" } else { "exists already:" };
        Ok(Report::done(format!("{what} {}", render::shown(&made.path)), made))
    }
}
