//! `garret ref`

use clap::Args;

use crate::output::{CliOutcome, CliReport};
use crate::session::Session;

pub(crate) const EXAMPLES: &str = "\
Example:
  garret -w notes ref > notes.json
A program reopens the workspace with `Garret::resolve`.";

#[derive(Debug, Args)]
pub(crate) struct RefArgs {}

impl RefArgs {
    pub(crate) async fn run(&self, session: &Session) -> CliOutcome {
        let toolbox = session.open_toolbox().await?;
        let reference = toolbox.workspace().reference()?;
        Ok(CliReport::success(reference.to_text(), reference))
    }
}
