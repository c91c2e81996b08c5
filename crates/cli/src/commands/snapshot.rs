//! `garret snapshot`

use clap::{Args, Subcommand};
use garret::depot::SnapshotUsage;
use garret::path::printable;
use garret::{Point, Snapshot as Taken, SnapshotOptions, Workspace};
use serde::Serialize;
use serde_json::json;

use crate::commands::usage;
use crate::output::{Failure, Outcome, Report};
use crate::session::Session;
use crate::{home, render, time};

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
    /// Give a point a label; the label never moves, and the content of the point is always kept
    Create {
        /// The label, unique in the workspace
        label: String,
        /// Leave out files that the history has not captured; takes constant time on every storage
        #[arg(long)]
        lazy: bool,
        /// The point: a snapshot, a change (its number or id) or a time [default: now]
        #[arg(long, value_name = "POINT")]
        at: Option<String>,
    },
    /// List the snapshots, oldest first
    List {
        /// Show sizes, and the size of content that only this snapshot holds; reads the whole home
        #[arg(short, long)]
        long: bool,
    },
    /// Delete a label; the changes stay as long as retention keeps them
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
                if session.home().is_none() {
                    return Err(Failure::usage(home::missing_for_snapshot()));
                }
                let options = SnapshotOptions {
                    point: Point::or_now(at.as_deref()),
                    is_lazy: *lazy,
                };
                let taken = workspace.snapshot(label, options).await?;
                let text = format!("snapshot {} of change {}", printable(&taken.label), taken.change);
                Ok(Report::done(text, taken))
            }
            Action::List { long } => {
                let taken = workspace.snapshots().await?;
                let sizes = if *long {
                    sizes(session, &workspace).await?
                } else {
                    Vec::new()
                };
                let rows: Vec<_> = taken.into_iter().map(|one| Row::of(one, &sizes)).collect();
                Ok(Report::done(
                    render::table(rows.iter().map(Row::cells)),
                    json!({"snapshots": rows}),
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

/// Returns the amount of data in each snapshot of the workspace.
async fn sizes(session: &Session, workspace: &Workspace) -> Result<Vec<SnapshotUsage>, Failure> {
    let id = workspace.id()?;
    let mut all = usage::by_id(&session.depot().await?).await?;
    Ok(all.remove(id).map(|one| one.snapshots).unwrap_or_default())
}

/// A snapshot in the list.
#[derive(Debug, Serialize)]
struct Row {
    #[serde(flatten)]
    snapshot: Taken,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<SnapshotUsage>,
}

impl Row {
    fn of(snapshot: Taken, sizes: &[SnapshotUsage]) -> Self {
        let usage = sizes.iter().find(|one| one.label == snapshot.label).cloned();
        Self { snapshot, usage }
    }

    fn cells(&self) -> Vec<String> {
        let snapshot = &self.snapshot;
        let mut cells = vec![
            printable(&snapshot.label).into_owned(),
            time::shown(&snapshot.at.to_string()),
            format!("change {}", snapshot.change),
            if snapshot.lazy { "lazy" } else { "" }.to_owned(),
        ];
        cells.extend(self.usage.iter().flat_map(render::usage::snapshot_sizes));
        cells
    }
}
