//! `garret snapshot`

use clap::{Args, Subcommand};
use garret::path::escape_unprintable;
use garret::{Point, Snapshot, SnapshotListRequest, SnapshotOptions};
use serde_json::json;

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
        let workspace = session.open_history(&["snapshot"]).await?;
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
                    taken.number
                );
                Ok(CliReport::success(text, taken))
            }
            SnapshotAction::List { long } => {
                let request = SnapshotListRequest {
                    with_sizes: *long,
                    ..SnapshotListRequest::default()
                };
                let list = workspace.list_snapshots(request).await?;
                let text = render::format_table(list.snapshots.iter().map(table_cells));
                Ok(CliReport::success(text, list))
            }
            SnapshotAction::Delete { label } => {
                workspace.delete_snapshot(label).await?;
                let text = format!("deleted snapshot {}", escape_unprintable(label));
                Ok(CliReport::success(text, json!({"label": label})))
            }
        }
    }
}

fn table_cells(snapshot: &Snapshot) -> Vec<String> {
    let mut cells = vec![
        escape_unprintable(&snapshot.label).into_owned(),
        time::format_time(&snapshot.at.to_string()),
        format!("change {}", snapshot.number),
        if snapshot.lazy { "lazy" } else { "" }.to_owned(),
    ];
    let sizes = snapshot.size.iter();
    cells.extend(sizes.flat_map(|size| render::usage::size_cells(size.files, size.bytes, size.alone_bytes)));
    cells
}
