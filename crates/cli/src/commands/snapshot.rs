//! `garret snapshot`

use clap::{Args, Subcommand};
use garret::path::printable;
use garret::{Snapshot as Taken, SnapshotOptions};
use serde_json::json;

use crate::output::{Outcome, Report};
use crate::session::Session;
use crate::{point, render};

pub(crate) const EXAMPLES: &str = "\
Examples:
  garret -w notes snapshot create before
  garret -w notes diff before
  garret -w notes restore before";

#[derive(Debug, Args)]
pub(crate) struct Snapshot {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Give a point a label; it never moves, and retention never takes what it holds
    Create {
        /// The label, unique in the workspace
        label: String,
        /// Leave out files that Garret has not met, so that it takes constant time on every storage
        #[arg(long)]
        lazy: bool,
        /// The point: a snapshot, a change (its number or id) or a time [default: now]
        #[arg(long, value_name = "POINT")]
        at: Option<String>,
    },
    /// List the snapshots, oldest first
    List,
    /// Forget a label; the changes stay as long as retention keeps them
    Delete {
        /// The label
        label: String,
    },
}

impl Snapshot {
    pub(crate) async fn run(&self, session: &Session) -> Outcome {
        let workspace = session.with_history("snapshot").await?;
        match &self.action {
            Action::Create { label, lazy, at } => {
                let options = SnapshotOptions {
                    point: point::or_now(at.as_deref()),
                    is_lazy: *lazy,
                };
                let taken = workspace.snapshot(label, options).await?;
                let text = format!("snapshot {} of change {}", printable(&taken.label), taken.change);
                Ok(Report::done(text, taken))
            }
            Action::List => {
                let all = workspace.snapshots().await?;
                Ok(Report::done(
                    render::table(all.iter().map(cells)),
                    json!({"snapshots": all}),
                ))
            }
            Action::Delete { label } => {
                workspace.delete_snapshot(label).await?;
                let text = format!("deleted snapshot {}", printable(label));
                Ok(Report::done(text, json!({"label": label})))
            }
        }
    }
}

fn cells(taken: &Taken) -> Vec<String> {
    vec![
        printable(&taken.label).into_owned(),
        taken.at.to_string(),
        format!("change {}", taken.change),
        if taken.lazy { "lazy" } else { "" }.to_owned(),
    ]
}
