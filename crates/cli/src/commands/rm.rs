//! `garret rm`

use clap::Args;
use garret::{Precondition, RemoveOptions};

use crate::output::{Outcome, Report};
use crate::render;
use crate::session::Session;

#[derive(Debug, Args)]
pub(crate) struct Rm {
    /// The file, link or directory
    path: String,
    /// Remove a directory with everything in it
    #[arg(short, long)]
    recursive: bool,
    /// Remove only this version of a file
    #[arg(long, value_name = "VERSION")]
    if_version: Option<String>,
}

impl Rm {
    pub(crate) async fn run(&self, session: &Session) -> Outcome {
        let precondition = Precondition::from_argument(self.if_version.as_deref());
        let options = RemoveOptions {
            recursive: self.recursive,
            precondition,
        };
        let removed = session.workspace().await?.remove(&self.path, options).await?;
        Ok(Report::done(
            format!("removed {}", render::shown(&removed.path)),
            removed,
        ))
    }
}
