//! `garret usage`

use clap::Args;
use garret::depot::{SnapshotUsage, Usage as Held, WorkspaceUsage};
use garret::path::{printable, quote};
use garret::{Error, ErrorKind};
use serde_json::json;

use crate::output::{Outcome, Report};
use crate::progress::Progress;
use crate::render;
use crate::session::Session;

pub(crate) const DETAILS: &str = "\
`alone` is what would be freed if the workspace went: content is stored once, however many workspaces,
snapshots and versions share it. Files are counted as their users see them, before compression.";

#[derive(Debug, Args)]
pub(crate) struct Usage {
    /// Only this workspace, with its snapshots
    name: Option<String>,
}

impl Usage {
    pub(crate) async fn run(&self, session: &Session) -> Outcome {
        let depot = session.depot().await?;
        let progress = Progress::spinner("counting");
        let held = depot.usage().await?;
        drop(progress);
        match &self.name {
            None => Ok(Report::done(all(&held), held)),
            Some(name) => {
                let is_meant = |one: &&WorkspaceUsage| one.name.as_deref() == Some(name) || one.id == *name;
                let one = held.workspaces.iter().find(is_meant).ok_or_else(|| missing(name))?;
                Ok(Report::done(details(one), json!(one)))
            }
        }
    }
}

fn missing(name: &str) -> Error {
    Error::new(ErrorKind::NotFound, format!("there is no workspace {}", quote(name)))
        .hint("`garret list --all` shows which there are")
}

fn all(held: &Held) -> String {
    let rows = render::table(held.workspaces.iter().map(cells));
    let total = format!(
        "the home: {} in the database, {} in {}",
        render::size(held.database_bytes),
        render::size(held.blob_bytes),
        render::counted(held.blobs, "blob"),
    );
    match rows.is_empty() {
        true => total,
        false => format!("{rows}\n{total}"),
    }
}

fn shown_name(one: &WorkspaceUsage) -> String {
    printable(one.name.as_deref().unwrap_or(&one.id)).into_owned()
}

fn cells(one: &WorkspaceUsage) -> Vec<String> {
    vec![
        shown_name(one),
        render::counted(one.files, "file"),
        render::size(one.bytes),
        render::counted(one.changes, "change"),
        format!("history {}", render::size(one.history_bytes)),
        format!("alone {}", render::size(one.alone_bytes)),
        if one.is_deleted { "deleted" } else { "" }.to_owned(),
    ]
}

fn details(one: &WorkspaceUsage) -> String {
    let snapshots = one.snapshots.iter().map(snapshot_cells);
    let rows = [cells(one)].into_iter().map(|row| row.join("  ").trim_end().to_owned());
    let snapshots = Some(render::table(snapshots)).filter(|table| !table.is_empty());
    rows.chain(snapshots).collect::<Vec<_>>().join("\n")
}

fn snapshot_cells(one: &SnapshotUsage) -> Vec<String> {
    vec![
        format!("  snapshot {}", printable(&one.label)),
        render::counted(one.files, "file"),
        render::size(one.bytes),
        format!("alone {}", render::size(one.alone_bytes)),
    ]
}
