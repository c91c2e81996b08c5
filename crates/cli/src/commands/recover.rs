//! `garret recover`

use clap::Args;
use garret::ErrorKind;
use garret::path::printable;
use serde_json::json;

use crate::output::{Outcome, Report};
use crate::session::Session;

#[derive(Debug, Args)]
pub(crate) struct Recover {
    /// The deleted workspace (see `garret list --all`); may be given with -w instead
    name: Option<String>,
}

impl Recover {
    pub(crate) async fn run(&self, session: &Session) -> Outcome {
        let name = session.name(self.name.as_deref())?;
        let depot = session.depot().await?;
        let is_there = depot.workspace(&name).await.is_ok();
        if !is_there {
            let recovered = session.garret().recover(&name).await;
            recovered.map_err(|error| match error.kind() {
                ErrorKind::NotFound => error.hint("`garret list --all` shows the deleted workspaces too"),
                _ => error,
            })?;
        }
        let workspace = depot.workspace(&name).await?;
        let shown = printable(&name);
        let text = if is_there {
            format!("{shown} is not deleted")
        } else {
            format!("recovered {shown}")
        };
        let data = json!({"id": workspace.id(), "name": name, "recovered": !is_there});
        Ok(Report::done(text, data))
    }
}
