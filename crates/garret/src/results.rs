//! The results of the operations on a home, in the one shape that the Rust API returns and the command line prints with
//! `--json`.

use garret_core::{Branch, OptionValue, RetentionLimits, Timestamp};
use garret_depot::{CheckProblem, CheckReport, CollectReport, DepotWorkspace, RetentionReport, WorkspaceUsage};
use schemars::JsonSchema;
use serde::Serialize;

/// The workspaces of a home.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct WorkspaceList {
    /// The workspaces, in the order of their names.
    pub workspaces: Vec<WorkspaceSummary>,
}

/// A workspace of the home.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct WorkspaceSummary {
    /// Its id.
    pub id: String,
    /// Its name, if it has one.
    pub name: Option<String>,
    /// Where its files are: the kind of the storage, and the directory or the bucket as the home records it.
    pub storage: String,
    /// The number of its newest change; 0 if there is none.
    pub changes: u64,
    /// When it was created, in RFC 3339.
    #[schemars(with = "String")]
    pub created: Timestamp,
    /// The point at which it begins, if it is a branch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch_of: Option<BranchParent>,
    /// When it was deleted, in RFC 3339; it can be recovered until the garbage is collected.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub deleted: Option<Timestamp>,
    /// Its size, if sizes were requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<WorkspaceUsage>,
}

/// The workspace and the change at which a branch begins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct BranchParent {
    /// The id of the workspace.
    pub id: String,
    /// Its name, if it has one.
    pub name: Option<String>,
    /// The number of its change.
    pub change: u64,
}

/// The branches of a workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct BranchList {
    /// The branches, in the order of names.
    pub branches: Vec<BranchSummary>,
}

/// A branch of a workspace, with its size if sizes were requested.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct BranchSummary {
    /// The branch.
    #[serde(flatten)]
    pub branch: Branch,
    /// Its size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<WorkspaceUsage>,
}

/// The id and the name of a workspace that was renamed, deleted or recovered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct WorkspaceName {
    /// Its id.
    pub id: String,
    /// Its name, or the name by which it was given.
    pub name: String,
}

impl WorkspaceName {
    pub(crate) fn new(workspace: &DepotWorkspace, name: &str) -> Self {
        Self {
            id: workspace.id().to_owned(),
            name: name.to_owned(),
        }
    }
}

/// The result of a recovery.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RecoverResult {
    /// The workspace.
    #[serde(flatten)]
    pub workspace: WorkspaceName,
    /// Whether it was recovered; a workspace that was not deleted stays as it is.
    pub recovered: bool,
}

/// How much history a workspace keeps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct KeptHistory {
    /// The id of the workspace.
    pub id: String,
    /// The limits; `everything` if there is none.
    #[schemars(with = "String")]
    pub keep: RetentionLimits,
}

/// The capabilities that a workspace declares.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DeclaredCapabilities {
    /// The name by which the workspace was given.
    pub name: String,
    /// The names of the capabilities.
    pub capabilities: Vec<&'static str>,
}

/// The options of a workspace.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct WorkspaceOptions {
    /// The name by which the workspace was given.
    pub name: String,
    /// The options, in the order of the configuration reference.
    pub options: Vec<OptionValue>,
}

/// The result of a garbage collection, or of its dry run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct GarbageReport {
    /// Whether it is the result of a dry run, which removes nothing.
    pub dry_run: bool,
    /// The grace period in seconds: content that was deleted or last needed within it is kept.
    pub grace_s: u64,
    /// The counts of things that were removed, or would be removed.
    pub collected: CollectReport,
    /// The history that was dropped, for each workspace that limits its history.
    pub histories: Vec<DroppedHistory>,
}

/// The history that a workspace dropped because of its limits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DroppedHistory {
    /// The id of the workspace.
    pub workspace: String,
    /// The first kept state, and how much was dropped.
    pub retained: RetentionReport,
}

/// The result of a check of the whole home.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HomeCheck {
    /// Whether no fault is left.
    pub sound: bool,
    /// The faults that were repaired, if a repair was requested.
    pub repaired: Vec<CheckProblem>,
    /// The faults that are left, and what was looked at.
    pub found: CheckReport,
}

#[cfg(test)]
mod tests {
    use garret_depot::DepotUsage;
    use garret_tools::data_schema;
    use serde_json::json;

    use super::*;

    #[test]
    fn every_result_of_a_home_has_a_schema_with_descriptions() {
        let schemas = json!({
            "branch_list": data_schema::<BranchList>(),
            "capabilities": data_schema::<DeclaredCapabilities>(),
            "create": data_schema::<WorkspaceSummary>(),
            "delete": data_schema::<WorkspaceName>(),
            "fsck": data_schema::<HomeCheck>(),
            "gc": data_schema::<GarbageReport>(),
            "keep": data_schema::<KeptHistory>(),
            "list": data_schema::<WorkspaceList>(),
            "recover": data_schema::<RecoverResult>(),
            "usage": data_schema::<DepotUsage>(),
            "usage_of_one": data_schema::<WorkspaceUsage>(),
        });
        insta::assert_json_snapshot!("home_data", schemas);
    }
}
