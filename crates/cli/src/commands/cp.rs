//! `garret cp`

use clap::Args;
use garret::TransferOptions;

use crate::output::{Outcome, Report};
use crate::render;
use crate::session::Session;

#[derive(Debug, Args)]
pub(crate) struct Cp {
    /// The file or directory
    src: String,
    /// Its new path, with the new name; directories above it are made
    dest: String,
    /// Replace a file that is at the new path
    #[arg(short = 'f', long)]
    overwrite: bool,
}

impl Cp {
    pub(crate) async fn run(&self, session: &Session) -> Outcome {
        let options = TransferOptions {
            overwrite: self.overwrite,
        };
        let transferred = session.workspace().await?.copy(&self.src, &self.dest, options).await?;
        Ok(Report::done(render::transfer("copied", &transferred), transferred))
    }
}
