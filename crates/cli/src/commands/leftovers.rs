//! `garret leftovers`

use clap::Args;
use garret::path::{printable, quote};
use garret::{Changed, Leftover};
use serde_json::json;

use crate::output::{Outcome, Report};
use crate::session::Session;

pub(crate) const DETAILS: &str = "\
A leftover is the work of a command that is not in any change: Garret itself ended while the command
ran, or could not record its effects. A leftover stays until you keep or discard it.

Examples:
  garret -w box leftovers
  garret -w box leftovers --keep ID
  garret -w box leftovers --discard ID";

#[derive(Debug, Args)]
pub(crate) struct Leftovers {
    /// Record the leftover as a change, or as a branch if the same files were changed since
    #[arg(long, value_name = "ID", conflicts_with = "discard")]
    keep: Option<String>,
    /// Discard the leftover
    #[arg(long, value_name = "ID")]
    discard: Option<String>,
}

impl Leftovers {
    pub(crate) async fn run(&self, session: &Session) -> Outcome {
        let workspace = session.workspace_for_any(&["shell", "code"]).await?;
        let report = match (&self.keep, &self.discard) {
            (Some(id), _) => workspace.commit_leftover(id).await.map(|changed| kept(id, changed)),
            (_, Some(id)) => {
                let text = format!("discarded {}", printable(id));
                let data = json!({"id": id});
                workspace.discard_leftover(id).await.map(|()| Report::done(text, data))
            }
            (None, None) => workspace.leftovers().await.map(listed),
        };
        // Closed in every case, before an error returns.
        workspace.close().await?;
        Ok(report?)
    }
}

fn kept(id: &str, changed: Changed) -> Report {
    let id = printable(id);
    let text = match (&changed.branch, &changed.refused, &changed.change) {
        (Some(branch), _, _) => format!("kept {id} on the branch {}", quote(branch)),
        (_, Some(refused), _) => format!("{id} was not kept: {}", printable(&refused.message)),
        (_, _, Some(change)) => format!("kept {id} as change {}: {}", change.number, changed.counts()),
        _ => format!("{id} has no changes to keep"),
    };
    if changed.refused.is_some() {
        Report::wanting(text, changed)
    } else {
        Report::done(text, changed)
    }
}

fn listed(leftovers: Vec<Leftover>) -> Report {
    let line = |one: &Leftover| {
        let command = one.command.as_deref().map_or("unknown".into(), printable).into_owned();
        let what = match &one.changed.refused {
            Some(refused) => format!("cannot be kept: {}", printable(&refused.message)),
            None => one.changed.counts(),
        };
        format!("{}  {what}  {command}", printable(&one.id))
    };
    let text = if leftovers.is_empty() {
        "no leftovers in this workspace".to_owned()
    } else {
        leftovers.iter().map(line).collect::<Vec<_>>().join("\n")
    };
    Report::done(text, json!({"leftovers": leftovers}))
}
