//! `garret capabilities`

use clap::Args;
use garret::Capabilities;
use garret::path::escape_unprintable;

use crate::output::{CliFailure, CliOutcome, CliReport};
use crate::session::Session;

pub(crate) const EXAMPLES: &str = "\
Examples:
  garret capabilities box                     show the declared capabilities
  garret capabilities box fs,snapshot,shell   declare these and no others
The change takes effect when the workspace is opened next. A capability that was declared before
keeps its options. For a workspace of a garret.toml, edit that file.";

#[derive(Debug, Args)]
pub(crate) struct CapabilitiesArgs {
    /// The workspace; may be given with -w instead
    name: Option<String>,
    /// The new list of capabilities, as for `garret create --capability` [default: show the current list]
    #[arg(value_name = "CAPABILITIES")]
    names: Option<String>,
}

impl CapabilitiesArgs {
    pub(crate) async fn run(&self, session: &Session) -> CliOutcome {
        let (name, names) = session.name_and_rest(self.name.as_deref(), self.names.as_deref())?;
        let wanted = names
            .map(|names| Capabilities::from_names(names.split(',')))
            .transpose();
        let wanted = wanted.map_err(CliFailure::wrong_usage)?;
        let declared = session.garret_with_home()?.capabilities(name, wanted.as_ref()).await?;
        let text = if declared.capabilities.is_empty() {
            format!("{} declares no capabilities", escape_unprintable(name))
        } else {
            let names = declared.capabilities.join(", ");
            format!("{} declares {names}", escape_unprintable(name))
        };
        Ok(CliReport::success(text, declared))
    }
}
