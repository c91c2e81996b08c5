//! `garret rename`

use clap::Args;
use garret::path::printable;
use serde_json::json;

use crate::output::{Outcome, Report};
use crate::session::Session;

#[derive(Debug, Args)]
pub(crate) struct Rename {
    /// The workspace
    name: String,
    /// Its new name
    new_name: String,
}

impl Rename {
    pub(crate) async fn run(&self, session: &Session) -> Outcome {
        let depot = session.depot().await?;
        let workspace = depot.workspace(&self.name).await?;
        depot.rename(workspace.id(), &self.new_name).await?;
        let text = format!("renamed {} to {}", printable(&self.name), printable(&self.new_name));
        Ok(Report::done(text, json!({"id": workspace.id(), "name": self.new_name})))
    }
}
