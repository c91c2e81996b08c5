//! `garret recover`

use clap::Args;
use garret::ErrorKind;
use garret::path::escape_unprintable;
use serde_json::json;

use crate::output::{CliOutcome, CliReport};
use crate::session::Session;

#[derive(Debug, Args)]
pub(crate) struct RecoverArgs {
    /// The deleted workspace (see `garret list --all`); may be given with -w instead
    name: Option<String>,
}

impl RecoverArgs {
    pub(crate) async fn run(&self, session: &Session) -> CliOutcome {
        let name = session.workspace_name(self.name.as_deref())?;
        let depot = session.open_depot().await?;
        let is_there = depot.workspace(&name).await.is_ok();
        if !is_there {
            let recovered = session.garret().recover(&name).await;
            recovered.map_err(|error| match error.kind() {
                ErrorKind::NotFound => error.hint("`garret list --all` shows the deleted workspaces too"),
                _ => error,
            })?;
        }
        let workspace = depot.workspace(&name).await?;
        let shown = escape_unprintable(&name);
        let text = if is_there {
            format!("{shown} is not deleted")
        } else {
            format!("recovered {shown}")
        };
        let data = json!({"id": workspace.id(), "name": name, "recovered": !is_there});
        Ok(CliReport::success(text, data))
    }
}
