//! `garret rename`

use clap::Args;
use garret::Error;
use garret::path::escape_unprintable;

use crate::output::{CliFailure, CliOutcome, CliReport};
use crate::session::Session;

#[derive(Debug, Args)]
pub(crate) struct RenameArgs {
    /// The workspace; may be given with -w instead
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Its new name
    #[arg(value_name = "NEW_NAME")]
    new_name: Option<String>,
}

impl RenameArgs {
    pub(crate) async fn run(&self, session: &Session) -> CliOutcome {
        let (name, new_name) = session.name_and_rest(self.name.as_deref(), self.new_name.as_deref())?;
        let new_name = new_name.ok_or_else(missing_name_failure)?;
        session.check_unconfigured(new_name)?;
        let renamed = session.garret_with_home()?.rename(name, new_name).await?;
        let text = format!(
            "renamed {} to {}",
            escape_unprintable(name),
            escape_unprintable(new_name)
        );
        Ok(CliReport::success(text, renamed))
    }
}

fn missing_name_failure() -> CliFailure {
    CliFailure::wrong_usage(Error::invalid("the new name is missing").hint("write `garret rename NAME NEW_NAME`"))
}
