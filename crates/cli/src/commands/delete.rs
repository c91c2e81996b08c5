//! `garret delete`

use clap::Args;
use garret::path::printable;
use serde_json::json;

use crate::output::{Outcome, Report};
use crate::session::Session;

pub(crate) const DETAILS: &str = "\
The workspace can be brought back with `garret recover NAME` until `garret gc` collects it.
Its branches are not affected. The directory of a workspace on `local:` is left unchanged.";

#[derive(Debug, Args)]
pub(crate) struct Delete {
    /// The workspace; may be given with -w instead
    name: Option<String>,
}

impl Delete {
    pub(crate) async fn run(&self, session: &Session) -> Outcome {
        let name = session.name(self.name.as_deref())?;
        let depot = session.depot().await?;
        // A workspace that is deleted already is not found here, so it keeps the date of its deletion.
        let workspace = depot.workspace(&name).await?;
        depot.delete(workspace.id()).await?;
        let shown = printable(&name);
        Ok(Report::done(
            format!("deleted {shown}; `garret recover {shown}` brings it back until `garret gc` collects it"),
            json!({"id": workspace.id(), "name": name}),
        ))
    }
}
