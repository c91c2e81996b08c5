//! `garret home`

use clap::{Args, Subcommand};
use garret::HomeUsage;

use crate::output::{CliOutcome, CliReport};
use crate::render;
use crate::session::Session;

pub(crate) const DETAILS: &str = "\
Commands have a home directory of their own, which is kept on this machine: caches of package
managers, installed tools, the history of shells. It is in no change, snapshot or export.

Examples:
  garret home                     how much the home for the current directory holds
  garret -w box home clear        empty it, and those of the scopes of the workspace
The limit is `limits.home_mb` of the capability `shell`.";

#[derive(Debug, Args)]
pub(crate) struct HomeArgs {
    #[command(subcommand)]
    action: Option<HomeAction>,
}

#[derive(Debug, Subcommand)]
enum HomeAction {
    /// Empty the home directories of the workspace and of its scopes
    Clear,
}

impl HomeArgs {
    pub(crate) async fn run(&self, session: &Session) -> CliOutcome {
        let workspace = session.open_workspace_for(&["shell", "code"]).await?;
        let found = match self.action {
            Some(HomeAction::Clear) => workspace.clear_command_homes().await,
            None => workspace.command_home().await,
        };
        // Closed in every case, before an error returns.
        workspace.close().await?;
        let report = found?;
        let is_cleared = self.action.is_some();
        Ok(CliReport::success(
            describe_home(report.home.as_ref(), is_cleared),
            report,
        ))
    }
}

fn describe_home(home: Option<&HomeUsage>, is_cleared: bool) -> String {
    let Some(home) = home else {
        return "commands have no home directory that is kept".to_owned();
    };
    let limit = home.limit_bytes.map_or("no limit".to_owned(), render::format_size);
    let text = format!(
        "the home of commands holds {} (limit: {limit})",
        render::format_size(home.bytes)
    );
    match (is_cleared, home.is_kept) {
        (true, _) => format!("emptied; {text}"),
        (false, true) => text,
        (false, false) => format!("{text}; it ends with the program, because Garret keeps nothing of this workspace"),
    }
}
