//! `garret leftovers`

use clap::Args;
use garret::path::{escape_unprintable, quote};
use garret::{CommandChanges, Leftover};
use serde_json::json;

use crate::output::{CliOutcome, CliReport};
use crate::session::Session;

pub(crate) const DETAILS: &str = "\
A leftover is the work of a command that is not in any change: Garret itself ended while the command
ran, or could not record its effects. A leftover stays until you keep or discard it.

Examples:
  garret -w box leftovers
  garret -w box leftovers --keep ID
  garret -w box leftovers --discard ID";

#[derive(Debug, Args)]
pub(crate) struct LeftoversArgs {
    /// Record the leftover as a change, or as a branch if the same files were changed since
    #[arg(long, value_name = "ID", conflicts_with = "discard")]
    keep: Option<String>,
    /// Discard the leftover
    #[arg(long, value_name = "ID")]
    discard: Option<String>,
}

impl LeftoversArgs {
    pub(crate) async fn run(&self, session: &Session) -> CliOutcome {
        let workspace = session.open_workspace_for(&["shell", "code"]).await?;
        let report = match (&self.keep, &self.discard) {
            (Some(id), _) => workspace
                .commit_leftover(id)
                .await
                .map(|changed| kept_report(id, changed)),
            (_, Some(id)) => {
                let text = format!("discarded {}", escape_unprintable(id));
                let data = json!({"id": id});
                workspace
                    .discard_leftover(id)
                    .await
                    .map(|()| CliReport::success(text, data))
            }
            (None, None) => workspace.leftovers().await.map(list_report),
        };
        // Closed in every case, before an error returns.
        workspace.close().await?;
        Ok(report?)
    }
}

fn kept_report(id: &str, changed: CommandChanges) -> CliReport {
    let id = escape_unprintable(id);
    let text = match (&changed.branch, &changed.refused, &changed.change) {
        (Some(branch), _, _) => format!("kept {id} on the branch {}", quote(branch)),
        (_, Some(refused), _) => format!("{id} was not kept: {}", escape_unprintable(&refused.message)),
        (_, _, Some(change)) => format!("kept {id} as change {change}: {}", changed.describe_counts()),
        _ => format!("{id} has no changes to keep"),
    };
    if changed.refused.is_some() {
        CliReport::with_problems(text, changed)
    } else {
        CliReport::success(text, changed)
    }
}

fn list_report(leftovers: Vec<Leftover>) -> CliReport {
    let line = |one: &Leftover| {
        let command = one
            .command
            .as_deref()
            .map_or("unknown".into(), escape_unprintable)
            .into_owned();
        let what = match &one.changed.refused {
            Some(refused) => format!("cannot be kept: {}", escape_unprintable(&refused.message)),
            None => one.changed.describe_counts(),
        };
        format!("{}  {what}  {command}", escape_unprintable(&one.id))
    };
    let text = if leftovers.is_empty() {
        "no leftovers in this workspace".to_owned()
    } else {
        leftovers.iter().map(line).collect::<Vec<_>>().join("\n")
    };
    CliReport::success(text, json!({"leftovers": leftovers}))
}
