//! `garret snapshot`

use clap::{Args, Subcommand};
use garret::depot::SnapshotUsage;
use garret::path::escape_unprintable;
use garret::{Point, Snapshot, SnapshotOptions, Workspace};
use serde::Serialize;
use serde_json::json;

use crate::commands::usage;
use crate::output::{CliFailure, CliOutcome, CliReport};
use crate::session::Session;
use crate::{home, render, time};

pub(crate) const EXAMPLES: &str = "\
Examples:
  garret -w notes snapshot create before
  garret -w notes diff before
  garret -w notes restore before";

#[derive(Debug, Args)]
pub(crate) struct SnapshotArgs {
    #[command(subcommand)]
    action: SnapshotAction,
}

#[derive(Debug, Subcommand)]
enum SnapshotAction {
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

impl SnapshotArgs {
    pub(crate) async fn run(&self, session: &Session) -> CliOutcome {
        let workspace = session.open_history("snapshot").await?;
        match &self.action {
            SnapshotAction::Create { label, lazy, at } => {
                if session.home().is_none() {
                    return Err(CliFailure::wrong_usage(home::missing_for_snapshot()));
                }
                let options = SnapshotOptions {
                    point: Point::parse_or_now(at.as_deref()),
                    is_lazy: *lazy,
                };
                let taken = workspace.snapshot(label, options).await?;
                let text = format!(
                    "snapshot {} of change {}",
                    escape_unprintable(&taken.label),
                    taken.change
                );
                Ok(CliReport::success(text, taken))
            }
            SnapshotAction::List { long } => {
                let taken = workspace.snapshots().await?;
                let sizes = if *long {
                    load_snapshot_usage(session, &workspace).await?
                } else {
                    Vec::new()
                };
                let rows: Vec<_> = taken
                    .into_iter()
                    .map(|one| SnapshotListRow::from_snapshot(one, &sizes))
                    .collect();
                Ok(CliReport::success(
                    render::format_table(rows.iter().map(SnapshotListRow::table_cells)),
                    json!({"snapshots": rows}),
                ))
            }
            SnapshotAction::Delete { label } => {
                workspace.delete_snapshot(label).await?;
                let text = format!("deleted snapshot {}", escape_unprintable(label));
                Ok(CliReport::success(text, json!({"label": label})))
            }
        }
    }
}

/// Returns the amount of data in each snapshot of the workspace.
async fn load_snapshot_usage(session: &Session, workspace: &Workspace) -> Result<Vec<SnapshotUsage>, CliFailure> {
    let id = workspace.id()?;
    let mut all = usage::usage_by_id(&session.open_depot().await?).await?;
    Ok(all.remove(id).map(|one| one.snapshots).unwrap_or_default())
}

/// A snapshot in the list.
#[derive(Debug, Serialize)]
struct SnapshotListRow {
    #[serde(flatten)]
    snapshot: Snapshot,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<SnapshotUsage>,
}

impl SnapshotListRow {
    fn from_snapshot(snapshot: Snapshot, sizes: &[SnapshotUsage]) -> Self {
        let usage = sizes.iter().find(|one| one.label == snapshot.label).cloned();
        Self { snapshot, usage }
    }

    fn table_cells(&self) -> Vec<String> {
        let snapshot = &self.snapshot;
        let mut cells = vec![
            escape_unprintable(&snapshot.label).into_owned(),
            time::format_time(&snapshot.at.to_string()),
            format!("change {}", snapshot.change),
            if snapshot.lazy { "lazy" } else { "" }.to_owned(),
        ];
        cells.extend(self.usage.iter().flat_map(render::usage::snapshot_cells));
        cells
    }
}
