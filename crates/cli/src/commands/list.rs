//! `garret list`

use clap::Args;
use garret::depot::WorkspaceUsage;
use garret::path::escape_unprintable;
use garret::{StorageConfig, WorkspaceInfo};
use serde::Serialize;
use serde_json::json;

use crate::commands::usage;
use crate::output::{CliOutcome, CliReport};
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

/// A workspace in the list.
#[derive(Debug, Serialize)]
pub(crate) struct WorkspaceListRow {
    pub(crate) id: String,
    pub(crate) name: Option<String>,
    pub(crate) storage: String,
    pub(crate) changes: u64,
    pub(crate) created: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) branch_of: Option<BranchParent>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) deleted: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) usage: Option<WorkspaceUsage>,
}

/// The workspace and the change at which a branch begins.
#[derive(Debug, Serialize)]
pub(crate) struct BranchParent {
    id: String,
    name: Option<String>,
    change: u64,
}

impl WorkspaceListRow {
    /// Makes the row of `info`, which is one of `all`.
    pub(crate) fn from_info(info: &WorkspaceInfo, all: &[WorkspaceInfo]) -> Self {
        Self::from_info_at(info, all, None)
    }

    /// Makes the row of `info`, whose files are at `place` of its storage.
    fn from_info_at(info: &WorkspaceInfo, all: &[WorkspaceInfo], place: Option<&str>) -> Self {
        let parent = info.fork.as_ref().map(|fork| BranchParent {
            id: fork.workspace.clone(),
            name: all
                .iter()
                .find(|one| one.id == fork.workspace)
                .and_then(|one| one.name.clone()),
            change: fork.change,
        });
        Self {
            id: info.id.clone(),
            name: info.name.clone(),
            storage: format_storage(info, place),
            changes: info.head,
            created: info.created.to_string(),
            branch_of: parent,
            deleted: info.deleted.map(|time| time.to_string()),
            usage: None,
        }
    }

    /// Returns its name, or its id if it has no name.
    pub(crate) fn shown_name(&self) -> String {
        escape_unprintable(self.name.as_deref().unwrap_or(&self.id)).into_owned()
    }

    fn table_cells(&self) -> Vec<String> {
        let parent = self.branch_of.as_ref().map(|parent| {
            let name = parent.name.as_deref().unwrap_or(&parent.id);
            format!("branch of {}@{}", escape_unprintable(name), parent.change)
        });
        let deleted = self
            .deleted
            .as_ref()
            .map(|time| format!("deleted {}", time::format_time(time)));
        let notes: Vec<_> = parent.into_iter().chain(deleted).collect();
        let sizes = self.usage.as_ref().map(render::usage::usage_cells).unwrap_or_default();
        let mut cells = vec![
            self.shown_name(),
            self.storage.clone(),
            render::format_count(self.changes, "change"),
        ];
        cells.extend(sizes);
        cells.push(notes.join(", "));
        cells
    }
}

/// Formats the location of the files: the kind of the storage, and the directory or the bucket as the home records it.
fn format_storage(info: &WorkspaceInfo, place: Option<&str>) -> String {
    // The directory may be shown here: the list is for the owner of the home.
    let storage = serde_json::from_value::<StorageConfig>(info.config["storage"].clone()).ok();
    let option = |name: &str| {
        storage
            .as_ref()
            .and_then(|storage| storage.options()?.get(name)?.as_str())
    };
    match (info.kind.as_str(), option("dir"), option("bucket"), option("prefix")) {
        ("local", Some(directory), ..) => format!("local:{}", escape_unprintable(directory)),
        ("s3", _, Some(bucket), Some(prefix)) => {
            format!("s3://{}/{}", escape_unprintable(bucket), escape_unprintable(prefix))
        }
        _ => match place {
            Some(place) => format!("{}:{}", info.kind, escape_unprintable(place)),
            None => info.kind.clone(),
        },
    }
}

impl ListArgs {
    pub(crate) async fn run(&self, session: &Session) -> CliOutcome {
        let depot = session.open_depot().await?;
        let all = depot.workspaces().await?;
        let shown = all
            .iter()
            .filter(|one| self.all || (one.deleted.is_none() && one.name.is_some()));
        let mut rows = Vec::new();
        for one in shown {
            // A directory without a name can only be told by its place.
            let place = match one.name {
                Some(_) => None,
                None => depot.place_of_id(&one.id)?,
            };
            rows.push(WorkspaceListRow::from_info_at(one, &all, place.as_deref()));
        }
        if self.long {
            let mut usage = usage::usage_by_id(&depot).await?;
            rows.iter_mut().for_each(|row| row.usage = usage.remove(&row.id));
        }
        let text = if rows.is_empty() {
            "there are no workspaces yet; `garret create NAME` makes one".to_owned()
        } else {
            render::format_table(rows.iter().map(WorkspaceListRow::table_cells))
        };
        Ok(CliReport::success(text, json!({"workspaces": rows})))
    }
}
