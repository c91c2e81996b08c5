//! `garret usage`

use clap::Args;
use garret::depot::{DepotUsage, SnapshotUsage, WorkspaceUsage};
use garret::path::{escape_unprintable, quote};
use garret::{Error, ErrorKind};

use crate::output::{CliFailure, CliOutcome, CliReport};
use crate::progress::ProgressLine;
use crate::render;
use crate::session::Session;
use crate::workspace_choice;

pub(crate) const DETAILS: &str = "\
`history` is the size of the earlier versions. `alone` is the space that deleting the workspace
would free: content is stored once, however many workspaces, snapshots and versions share it.
File sizes are those before compression.";

#[derive(Debug, Args)]
pub(crate) struct UsageArgs {
    /// Only this workspace, with its snapshots; may be given with -w instead
    name: Option<String>,
}

impl UsageArgs {
    pub(crate) async fn run(&self, session: &Session) -> CliOutcome {
        let flag = session.global().workspace.as_deref();
        let name = workspace_choice::flag_or_argument(flag, self.name.as_deref()).map_err(CliFailure::wrong_usage)?;
        let depot = session.open_depot().await?;
        let progress = ProgressLine::start("counting");
        let held = depot.usage().await?;
        drop(progress);
        match &name {
            None => Ok(CliReport::success(home_text(&held), held)),
            Some(name) => {
                let is_meant = |one: &WorkspaceUsage| one.name.as_ref() == Some(name) || one.id == *name;
                let found = held.workspaces.into_iter().find(is_meant);
                let one = found.ok_or_else(|| unknown_workspace_error(name))?;
                Ok(CliReport::success(workspace_details(&one), one))
            }
        }
    }
}

fn unknown_workspace_error(name: &str) -> Error {
    Error::new(ErrorKind::NotFound, format!("there is no workspace {}", quote(name)))
        .hint("`garret list --all` shows all workspaces")
}

fn home_text(held: &DepotUsage) -> String {
    let rows = render::format_table(held.workspaces.iter().map(workspace_cells));
    let total = format!(
        "the home: {} in the database, {} in {}",
        render::format_size(held.database_bytes),
        render::format_size(held.blob_bytes),
        render::format_count(held.blobs, "blob"),
    );
    if rows.is_empty() {
        total
    } else {
        format!("{rows}\n{total}")
    }
}

fn workspace_cells(one: &WorkspaceUsage) -> Vec<String> {
    let name = escape_unprintable(one.name.as_deref().unwrap_or(&one.id)).into_owned();
    let mut cells = vec![name, render::format_count(one.changes, "change")];
    cells.extend(render::usage::usage_cells(one));
    cells.push(if one.is_deleted { "deleted" } else { "" }.to_owned());
    cells
}

fn workspace_details(one: &WorkspaceUsage) -> String {
    let own = workspace_cells(one).join("  ").trim_end().to_owned();
    let label = |snapshot: &SnapshotUsage| format!("  snapshot {}", escape_unprintable(&snapshot.label));
    let rows = one.snapshots.iter().map(|snapshot| {
        let sizes = render::usage::size_cells(snapshot.files, snapshot.bytes, snapshot.alone_bytes);
        [label(snapshot)].into_iter().chain(sizes).collect()
    });
    let table = Some(render::format_table(rows)).filter(|table| !table.is_empty());
    [own].into_iter().chain(table).collect::<Vec<_>>().join("\n")
}
