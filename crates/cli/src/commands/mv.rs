//! `garret mv`

use clap::Args;
use garret::TransferOptions;

use crate::output::{Outcome, Report};
use crate::render;
use crate::session::Session;

#[derive(Debug, Args)]
pub(crate) struct Mv {
    /// The file or directory
    src: String,
    /// Its new path, with the new name; directories above it are made
    dest: String,
    /// Replace a file that is at the new path
    #[arg(short = 'f', long)]
    overwrite: bool,
}

impl Mv {
    pub(crate) async fn run(&self, session: &Session) -> Outcome {
        let options = TransferOptions {
            overwrite: self.overwrite,
        };
        let transferred = session
            .workspace()
            .await?
            .rename(&self.src, &self.dest, options)
            .await?;
        Ok(Report::done(render::transfer("moved", &transferred), transferred))
    }
}
