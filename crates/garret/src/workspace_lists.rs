//! Lists of the workspaces of the home, and of the branches of one of them.

use std::collections::HashMap;

use garret_core::path::escape_unprintable;
use garret_core::{Branch, Result, StorageConfig};
use garret_depot::{WorkspaceInfo, WorkspaceUsage};
use garret_workspace::Workspace;

use crate::Garret;
use crate::results::{BranchList, BranchParent, BranchSummary, WorkspaceList, WorkspaceSummary};

/// The selection of workspaces for [`Garret::list_workspaces`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WorkspaceListRequest {
    /// Whether deleted workspaces are listed too, and directories that have a history but no name.
    pub all: bool,
    /// Whether sizes are measured, which reads the whole home.
    pub with_sizes: bool,
}

/// The options of [`Garret::list_branches`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BranchListRequest {
    /// Whether sizes are measured, which reads the whole home.
    pub with_sizes: bool,
}

impl Garret {
    /// Lists the workspaces of the home.
    pub async fn list_workspaces(&self, request: WorkspaceListRequest) -> Result<WorkspaceList> {
        let depot = self.depot().await?;
        let all = depot.workspaces().await?;
        let mut usage = self.usage_by_id(request.with_sizes).await?;
        let is_shown = |one: &&WorkspaceInfo| request.all || (one.deleted.is_none() && one.name.is_some());
        let summary = |one: &WorkspaceInfo| {
            // A directory without a name can only be told by its place.
            let place = match one.name {
                Some(_) => None,
                None => depot.place_of_id(&one.id)?,
            };
            Ok(WorkspaceSummary {
                usage: usage.remove(&one.id),
                ..summarize_workspace(one, &all, place.as_deref())
            })
        };
        let workspaces = all.iter().filter(is_shown).map(summary).collect::<Result<_>>()?;
        Ok(WorkspaceList { workspaces })
    }

    /// Lists the branches of a workspace.
    pub async fn list_branches(&self, workspace: &Workspace, request: BranchListRequest) -> Result<BranchList> {
        let all = workspace.branches().await?;
        let mut usage = self.usage_by_id(request.with_sizes).await?;
        let summary = |branch: Branch| BranchSummary {
            usage: usage.remove(&branch.id),
            branch,
        };
        Ok(BranchList {
            branches: all.into_iter().map(summary).collect(),
        })
    }

    /// Returns the size of each workspace of the home by its id, if sizes are wanted.
    async fn usage_by_id(&self, with_sizes: bool) -> Result<HashMap<String, WorkspaceUsage>> {
        if !with_sizes {
            return Ok(HashMap::new());
        }
        let usage = self.depot().await?.usage().await?;
        Ok(usage.workspaces.into_iter().map(|one| (one.id.clone(), one)).collect())
    }
}

/// Summarizes `info`, which is one of `all` and whose files are at `place` of its storage.
pub(crate) fn summarize_workspace(
    info: &WorkspaceInfo,
    all: &[WorkspaceInfo],
    place: Option<&str>,
) -> WorkspaceSummary {
    let name_of = |id: &str| all.iter().find(|one| one.id == id)?.name.clone();
    WorkspaceSummary {
        id: info.id.clone(),
        name: info.name.clone(),
        storage: format_storage(info, place),
        changes: info.head,
        created: info.created,
        branch_of: info.fork.as_ref().map(|fork| BranchParent {
            id: fork.workspace.clone(),
            name: name_of(&fork.workspace),
            change: fork.change,
        }),
        deleted: info.deleted,
        usage: None,
    }
}

/// Formats the location of the files: the kind of the storage, and the directory or the bucket as the home records it.
fn format_storage(info: &WorkspaceInfo, place: Option<&str>) -> String {
    // The directory may be shown here: the list is for the owner of the home.
    let storage = serde_json::from_value::<StorageConfig>(info.config["storage"].clone()).ok();
    let option = |name: &str| storage.as_ref()?.options()?.get(name)?.as_str();
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
