//! `garret ref`

use clap::Args;

use crate::output::{Outcome, Report};
use crate::session::Session;

pub(crate) const EXAMPLES: &str = "\
Example:
  garret -w notes ref > notes.json
A program reopens the workspace with `Garret::resolve`.";

#[derive(Debug, Args)]
pub(crate) struct Ref {}

impl Ref {
    pub(crate) async fn run(&self, session: &Session) -> Outcome {
        let toolbox = session.toolbox().await?;
        let reference = toolbox.workspace().reference()?;
        Ok(Report::done(reference.to_text(), reference))
    }
}
