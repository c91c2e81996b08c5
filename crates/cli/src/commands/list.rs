//! `garret list`

use clap::Args;
use garret::path::escape_unprintable;
use garret::{WorkspaceListRequest, WorkspaceSummary};

use crate::output::{CliOutcome, CliReport};
use crate::progress::ProgressLine;
use crate::session::Session;
use crate::{render, time};

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Include deleted workspaces, which `garret recover` brings back, and directories that have a history but no name
    #[arg(short, long)]
    all: bool,
    /// Show sizes, and the size of content that only this workspace holds; reads the whole home
    #[arg(short, long)]
    long: bool,
}

impl ListArgs {
    pub(crate) async fn run(&self, session: &Session) -> CliOutcome {
        let request = WorkspaceListRequest {
            all: self.all,
            with_sizes: self.long,
        };
        let progress = self.long.then(|| ProgressLine::start("counting"));
        let list = session.garret_with_home()?.list_workspaces(request).await?;
        drop(progress);
        let text = if list.workspaces.is_empty() {
            "there are no workspaces yet; `garret create NAME` makes one".to_owned()
        } else {
            render::format_table(list.workspaces.iter().map(table_cells))
        };
        Ok(CliReport::success(text, list))
    }
}

/// Returns the name of a workspace, or its id if it has no name.
pub(crate) fn shown_name(workspace: &WorkspaceSummary) -> String {
    escape_unprintable(workspace.name.as_deref().unwrap_or(&workspace.id)).into_owned()
}

fn table_cells(workspace: &WorkspaceSummary) -> Vec<String> {
    let parent = workspace.branch_of.as_ref().map(|parent| {
        let name = parent.name.as_deref().unwrap_or(&parent.id);
        format!("branch of {}@{}", escape_unprintable(name), parent.change)
    });
    let deleted = workspace
        .deleted
        .map(|time| format!("deleted {}", time::format_time(&time.to_string())));
    let notes: Vec<_> = parent.into_iter().chain(deleted).collect();
    let mut cells = vec![
        shown_name(workspace),
        workspace.storage.clone(),
        render::format_count(workspace.changes, "change"),
    ];
    cells.extend(workspace.usage.iter().flat_map(render::usage::usage_cells));
    cells.push(notes.join(", "));
    cells
}
