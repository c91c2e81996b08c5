//! `garret delete`

use clap::Args;
use garret::path::escape_unprintable;

use crate::output::{CliOutcome, CliReport};
use crate::session::Session;

pub(crate) const DETAILS: &str = "\
The workspace can be brought back with `garret recover NAME` until `garret gc` collects it.
Its branches are not affected. The directory of a workspace on `local:` is left unchanged.";

#[derive(Debug, Args)]
pub(crate) struct DeleteArgs {
    /// The workspace; may be given with -w instead
    name: Option<String>,
}

impl DeleteArgs {
    pub(crate) async fn run(&self, session: &Session) -> CliOutcome {
        let name = session.workspace_name(self.name.as_deref())?;
        let deleted = session.garret_with_home()?.delete(&name).await?;
        let shown = escape_unprintable(&name);
        Ok(CliReport::success(
            format!("deleted {shown}; `garret recover {shown}` brings it back until `garret gc` collects it"),
            deleted,
        ))
    }
}
