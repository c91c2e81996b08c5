//! `garret recover`

use clap::Args;
use garret::ErrorKind;
use garret::path::escape_unprintable;

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
        let recovered = session.garret_with_home()?.recover(&name).await;
        let recovered = recovered.map_err(|error| match error.kind() {
            ErrorKind::NotFound => error.hint("`garret list --all` shows the deleted workspaces too"),
            _ => error,
        })?;
        let shown = escape_unprintable(&name);
        let text = if recovered.recovered {
            format!("recovered {shown}")
        } else {
            format!("{shown} is not deleted")
        };
        Ok(CliReport::success(text, recovered))
    }
}
