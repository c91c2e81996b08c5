//! `garret recover`

use clap::Args;
use garret::path::printable;
use serde_json::json;

use crate::output::{Outcome, Report};
use crate::session::Session;

#[derive(Debug, Args)]
pub(crate) struct Recover {
    /// The workspace that was deleted (see `garret list --all`)
    name: String,
}

impl Recover {
    pub(crate) async fn run(&self, session: &Session) -> Outcome {
        let depot = session.depot().await?;
        let is_there = depot.workspace(&self.name).await.is_ok();
        if !is_there {
            session.garret().recover(&self.name).await?;
        }
        let workspace = depot.workspace(&self.name).await?;
        let name = printable(&self.name);
        let text = match is_there {
            true => format!("{name} is not deleted"),
            false => format!("recovered {name}"),
        };
        let data = json!({"id": workspace.id(), "name": self.name, "recovered": !is_there});
        Ok(Report::done(text, data))
    }
}
