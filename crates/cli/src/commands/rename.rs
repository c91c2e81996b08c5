//! `garret rename`

use clap::Args;
use garret::Error;
use garret::path::printable;
use serde_json::json;

use crate::output::{Failure, Outcome, Report};
use crate::session::Session;

#[derive(Debug, Args)]
pub(crate) struct Rename {
    /// The workspace; may be given with -w instead
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Its new name
    #[arg(value_name = "NEW_NAME")]
    new_name: Option<String>,
}

impl Rename {
    pub(crate) async fn run(&self, session: &Session) -> Outcome {
        let (name, new_name) = session.name_and_rest(self.name.as_deref(), self.new_name.as_deref())?;
        let new_name = new_name.ok_or_else(nameless)?;
        session.check_unconfigured(new_name)?;
        let depot = session.depot().await?;
        let workspace = depot.workspace(name).await?;
        depot.rename(workspace.id(), new_name).await?;
        let text = format!("renamed {} to {}", printable(name), printable(new_name));
        Ok(Report::done(text, json!({"id": workspace.id(), "name": new_name})))
    }
}

fn nameless() -> Failure {
    Failure::usage(Error::invalid("the new name is missing").hint("write `garret rename NAME NEW_NAME`"))
}
