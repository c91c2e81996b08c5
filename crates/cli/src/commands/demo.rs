//! x
use crate::output::{Outcome, Report};
use crate::session::Session;
use clap::Args;
#[derive(Debug, Args)]
pub(crate) struct Demo {}
impl Demo {
    pub(crate) async fn run(&self, _session: &Session) -> Outcome {
        Ok(Report::silent())
    }
}
