//! `garret usage`

use std::collections::HashMap;

use clap::Args;
use garret::depot::{SnapshotUsage, Usage as Held, WorkspaceUsage};
use garret::path::{printable, quote};
use garret::{Depot, Error, ErrorKind, Result};
use serde_json::json;

use crate::choice;
use crate::output::{Failure, Outcome, Report};
use crate::progress::Progress;
use crate::render;
use crate::session::Session;

pub(crate) const DETAILS: &str = "\
`history` is the size of the earlier versions. `alone` is the space that deleting the workspace
would free: content is stored once, however many workspaces, snapshots and versions share it.
File sizes are those before compression.";

#[derive(Debug, Args)]
pub(crate) struct Usage {
    /// Only this workspace, with its snapshots; may be given with -w instead
    name: Option<String>,
}

impl Usage {
    pub(crate) async fn run(&self, session: &Session) -> Outcome {
        let flag = session.global().workspace.as_deref();
        let name = choice::one_of(flag, self.name.as_deref()).map_err(Failure::usage)?;
        let depot = session.depot().await?;
        let progress = Progress::spinner("counting");
        let held = depot.usage().await?;
        drop(progress);
        match &name {
            None => Ok(Report::done(all(&held), held)),
            Some(name) => {
                let is_meant = |one: &&WorkspaceUsage| one.name.as_ref() == Some(name) || one.id == *name;
                let one = held.workspaces.iter().find(is_meant).ok_or_else(|| missing(name))?;
                Ok(Report::done(details(one), json!(one)))
            }
        }
    }
}

fn missing(name: &str) -> Error {
    Error::new(ErrorKind::NotFound, format!("there is no workspace {}", quote(name)))
        .hint("`garret list --all` shows all workspaces")
}

fn all(held: &Held) -> String {
    let rows = render::table(held.workspaces.iter().map(cells));
    let total = format!(
        "the home: {} in the database, {} in {}",
        render::size(held.database_bytes),
        render::size(held.blob_bytes),
        render::counted(held.blobs, "blob"),
    );
    if rows.is_empty() {
        total
    } else {
        format!("{rows}\n{total}")
    }
}

/// Returns the amount of data in each workspace of the home, by its id.
pub(crate) async fn by_id(depot: &Depot) -> Result<HashMap<String, WorkspaceUsage>> {
    let _progress = Progress::spinner("counting");
    let held = depot.usage().await?;
    Ok(held.workspaces.into_iter().map(|one| (one.id.clone(), one)).collect())
}

fn cells(one: &WorkspaceUsage) -> Vec<String> {
    let name = printable(one.name.as_deref().unwrap_or(&one.id)).into_owned();
    let mut cells = vec![name, render::counted(one.changes, "change")];
    cells.extend(render::usage::sizes(one));
    cells.push(if one.is_deleted { "deleted" } else { "" }.to_owned());
    cells
}

fn details(one: &WorkspaceUsage) -> String {
    let own = cells(one).join("  ").trim_end().to_owned();
    let label = |snapshot: &SnapshotUsage| format!("  snapshot {}", printable(&snapshot.label));
    let rows = one.snapshots.iter().map(|snapshot| {
        let sizes = render::usage::snapshot_sizes(snapshot);
        [label(snapshot)].into_iter().chain(sizes).collect()
    });
    let table = Some(render::table(rows)).filter(|table| !table.is_empty());
    [own].into_iter().chain(table).collect::<Vec<_>>().join("\n")
}
